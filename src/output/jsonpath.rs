//! Evaluates kubectl's jsonpath: a template and a document become text, a path and a document
//! become values. Templates are read as by kubectl's `client-go/util/jsonpath`; documents are never
//! changed.
//!
//! The lexer cuts a template into tokens, the parser builds a tree from them, and the evaluator
//! walks the tree over a document.

mod evaluator;
mod lexer;
mod parser;
mod tree;

use serde_json::Value;

use crate::model::refusal::Refusal;
use crate::model::text::escape_json;

use super::clean::clean_lines;

use evaluator::{EvaluationError, Scope};

const TEMPLATE_EXAMPLE: &str = "poolctl get pool -o jsonpath='{.items[*].metadata.name}'";
const PATH_EXAMPLE: &str = "poolctl get pool --sort-by='{.metadata.creationTimestamp}'";

/// The document as the template prints it. A template that cannot be read is refused with
/// `Exit::Usage`, one that has no answer in this document with `Exit::Failed`.
pub fn evaluate(template: &str, document: &Value) -> Result<String, Refusal> {
    // A template without braces is a path, not text.
    let braced_template =
        if template.contains('{') { template.to_owned() } else { format!("{{{template}}}") };
    let pieces = parser::parse_template(&braced_template)
        .map_err(|cause| refuse_syntax(template, cause, TEMPLATE_EXAMPLE))?;
    let mut printed = String::new();
    evaluator::write_pieces(&pieces, document_scope(document), &mut printed)
        .map_err(|error| refuse_document(template, &error, TEMPLATE_EXAMPLE))?;
    Ok(printed)
}

/// The values that a single path leads to; its braces and its leading dot may be left out. A field
/// that is absent and an element beyond the end of a list are no values, and no errors either.
pub fn select_values<'a>(path: &str, document: &'a Value) -> Result<Vec<&'a Value>, Refusal> {
    let bare_path = path.trim().trim_start_matches('{').trim_end_matches('}').trim();
    let tree =
        parser::parse_path(bare_path).map_err(|cause| refuse_syntax(path, cause, PATH_EXAMPLE))?;
    evaluator::select_present(&tree, document_scope(document))
        .map_err(|error| refuse_document(path, &error, PATH_EXAMPLE))
}

/// A value as templates print it: a string without quotes, null as nothing, the rest as JSON on one
/// line. Nothing in it obeys a terminal.
pub fn print_value(value: &Value) -> String {
    match value {
        Value::String(string) => clean_lines(string),
        Value::Null => String::new(),
        _ => escape_json(value.to_string()),
    }
}

fn document_scope(document: &Value) -> Scope<'_> {
    Scope { root: document, current: document }
}

fn refuse_syntax(template: &str, cause: String, example: &str) -> Refusal {
    Refusal::usage(format!("jsonpath `{template}` cannot be read")).because(cause).next(example)
}

/// Refuses a template that is well formed: another document may have an answer to it.
fn refuse_document(template: &str, error: &EvaluationError, example: &str) -> Refusal {
    Refusal::invalid(format!("jsonpath `{template}` does not fit this document"))
        .because(error.to_string())
        .next(example)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::model::refusal::Exit;

    use super::*;

    /// The examples of kubectl's own documentation.
    #[test]
    fn kubectls_examples_work() {
        let document = json!({
            "kind": "List",
            "items": [
                {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
                 "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]}},
                {"kind": "None", "metadata": {"name": "127.0.0.2"},
                 "status": {"capacity": {"cpu": "8"}, "addresses": [
                     {"type": "LegacyHostIP", "address": "127.0.0.2"}, {"type": "another", "address": "127.0.0.3"}]}},
            ],
            "users": [{"name": "myself", "user": {}},
                      {"name": "e2e", "user": {"username": "admin", "password": "secret"}}],
        });
        for (template, expected) in [
            ("kind is {.kind}", "kind is List"),
            ("{.kind}", "List"),
            (".kind", "List"),
            ("{['kind']}", "List"),
            ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
            ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
            ("{.users[0].name}", "myself"),
            ("{.users[-1].name}", "e2e"),
            ("{.items[0:1].metadata.name}", "127.0.0.1"),
            ("{.items[*]['metadata.name', 'kind']}", "127.0.0.1 127.0.0.2 None None"),
            ("{.users[?(@.name==\"e2e\")].user.password}", "secret"),
            ("{.users[?(@.user.username)].name}", "e2e"),
            (
                "{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}",
                "[127.0.0.1, {\"cpu\":\"4\"}] [127.0.0.2, {\"cpu\":\"8\"}] ",
            ),
            ("{range .items[*]}{.metadata.name}{\"\\n\"}{end}", "127.0.0.1\n127.0.0.2\n"),
            ("{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"),
            ("{.items[0].nothing}", ""),
        ] {
            assert_eq!(evaluate(template, &document).unwrap(), expected, "{template}");
        }
        for template in ["{.kind", "{end}", "{range .items[*]}x", "{.items[x]}", "{.items[0}"] {
            assert!(evaluate(template, &document).is_err(), "{template}");
        }
    }

    /// Checks what a template prints of one small document.
    fn check(template: &str, expected: &str) {
        let document = json!({
            "metadata": {
                "annotations": {"poolctl.dev/x": "note"}, "a.b": "dotted", "a": {"b": "path"}
            },
            "numbers": [10, 11, 12, 13],
            "nested": [[1, 2], [3]],
            "empty": [],
            "states": {"x": {"ready": true}, "y": {"ready": false}},
            "items": [
                {"name": "b==c", "size": 1, "wanted": 1, "note": null, "parts": [{"n": 1}]},
                {"name": "plain", "size": 2, "wanted": 1, "ready": true, "parts": []},
                {"name": "it's (]", "size": 10, "ready": false},
            ],
        });
        assert_eq!(evaluate(template, &document).unwrap(), expected, "{template}");
    }

    /// Checks that a template is refused, with which exit code, and for a cause that contains this.
    fn check_refusal(template: &str, exit: Exit, cause: &str) {
        let document = json!({"items": [1, 2], "empty": [], "lists": [{"all": [1, 2]}]});
        let refusal = evaluate(template, &document).unwrap_err();
        assert_eq!(refusal.exit, exit, "{template}");
        assert!(refusal.causes[0].contains(cause), "{template}: {refusal}");
    }

    #[test]
    fn signs_inside_quotes_are_text() {
        check("{.items[?(@.name!=\"b==c\")].size}", "2 10");
        check("{.items[?(@.name==\"b==c\")].size}", "1");
        check("{.items[?(@.name=='b==c')].size}", "1");
        check("{.items[?(@.name==\"it's (]\")].size}", "10");
        check("{.items[?(@.name=='it\\'s (]')].size}", "10");
        check("{\"}\"}{'{'}", "}{");
    }

    #[test]
    fn filters_compare_values_and_paths_on_both_sides() {
        check("{.items[?(@.size>1)].name}", "plain it's (]");
        check("{.items[?(2<=@.size)].name}", "plain it's (]");
        check("{.items[?(@.size < 2)].name}", "b==c");
        check("{.items[?(@.size>=-1.5)].size}", "1 2 10");
        check("{.items[?(@.size==@.wanted)].name}", "b==c");
        check("{.items[?(@.size!=@.wanted)].name}", "plain");
        check("{.items[?(@.size==$.numbers[0])].name}", "it's (]");
        check("{.items[?(@.ready==true)].name}", "plain");
        check("{.items[?(@.ready!=true)].name}", "it's (]");
        check("{.items[?(@.note==null)].name}", "b==c");
        check("{.items[?(@.note)].name}", "b==c");
        check("{.items[?(@.parts[0].n==1)].name}", "b==c");
        check("{.items[?(@.parts[?(@.n==1)])].name}", "b==c");
        check("{.states[?(@.ready==true)]}", "{\"ready\":true}");
        check("{.numbers[?(@>11)]}", "12 13");
    }

    #[test]
    fn indices_and_slices_are_those_of_kubectl() {
        check("{.numbers[-1]} {.numbers[1:3]} {.numbers[-2:]}", "13 11 12 12 13");
        check("{.numbers[::2]} {.numbers[:-1]} {.numbers[1:4:2]}", "10 12 10 11 12 11 13");
        check("{.numbers[0,2]} {.numbers[ 0 , -1 ]}", "10 12 10 13");
        check("{.nested[*][0]} {.nested[0]} {.empty[*]}{.empty[:]}{.numbers[9:9]}", "1 3 [1,2] ");
        check("{.nothing[5]}{.metadata[0]}", "");
    }

    #[test]
    fn names_may_be_quoted_or_have_escapes() {
        check("{.metadata.annotations.poolctl\\.dev/x}", "note");
        check("{.metadata.annotations['poolctl.dev/x']}", "note");
        check("{.metadata.annotations['poolctl\\.dev/x']}", "note");
        check("{.metadata.annotations[\"poolctl.dev/x\"]}", "note");
        check("{.metadata['a.b']} {.metadata.a.b} {['metadata.a.b']}", "dotted path path");
        check("{numbers[0]}{$.numbers[0]}{@.numbers[0]}{$['numbers'][0]}", "10101010");
        check(
            "{.states.*.ready} {.states[*].ready} {.states['x','y'].ready}",
            &["true false", "true false", "true false"].join(" "),
        );
    }

    #[test]
    fn recursion_and_ranges_may_be_nested() {
        check("{..n}{..parts[*].n} {.states..ready}", "11 true false");
        check("{..[?(@.size==2)].name}", "plain");
        check("{range .nested[*]}{range @[*]}{@},{end};{end}", "1,2,;3,;");
        check("{range .nothing[*]}x{end}{ range .empty[*] }x{ end }", "");
        check("{range .items[0:2]}{$.numbers[0]}{'\\t'}{end}", "10\t10\t");
        check("{.empty}", "[]");
    }

    #[test]
    fn an_index_out_of_range_is_refused_as_by_kubectl() {
        for (template, cause) in [
            ("{.items[5]}", "array index out of bounds: index 5, length 2"),
            ("{.items[-3]}", "array index out of bounds: index -1, length 2"),
            ("{.items[0,2]}", "array index out of bounds: index 2, length 2"),
            ("{.items[0:3]}", "array index out of bounds: index 2, length 2"),
            ("{.items[1:0]}", "starting index 1 is greater than ending index 0"),
            ("{.empty[0].a}", "array index out of bounds: index 0, length 0"),
            ("{.lists[?(@.all[*]==1)]}", "can only compare one element at a time"),
        ] {
            check_refusal(template, Exit::Failed, cause);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_cause() {
        for (template, cause) in [
            ("{.kind", "a `{` is not closed"),
            ("{.items[0}", "a `[` is not closed"),
            ("{.items['a}", "a `'` is not closed"),
            ("{.items[?(@.a}", "a `(` is not closed"),
            ("{.a]}", "`]` is not understood"),
            ("{.a b}", "`b` is not understood"),
            ("{.a{.b}}", "is not understood"),
            ("{.a....b}", "`..` follows `..`"),
            ("{end}", "`end` without `range`"),
            ("{range .items[*]}x", "`range` without `end`"),
            ("{.items[x]}", "`x` is not an index"),
            ("{.items[1.5]}", "`1.5` is not an index"),
            ("{.items[]}", "an index is missing"),
            ("{.items[::0]}", "the step 0 is not a positive number"),
            ("{.items[?(@.a=~\"x\")]}", "filters do not support `=~`"),
            ("{.items[?(@.a && @.b)]}", "filters do not support `&&`"),
            ("{.items[?(@.a==1||@.b==2)]}", "filters do not support `||`"),
            ("{.items[?(@.a==1==2)]}", "a filter compares two values, not more"),
            ("{.items[?(@.a==b)]}", "`b` is not a value"),
            ("{.items[?((@.a))]}", "is not understood"),
            ("{'\\d'}", "has a backslash that is not before"),
        ] {
            check_refusal(template, Exit::Usage, cause);
        }
        let brackets = "[?(@".repeat(1000);
        check_refusal(&format!("{{{brackets}}}"), Exit::Usage, "nested deeper than 64 levels");
        let ranges = "{range @}".repeat(1000);
        check_refusal(&ranges, Exit::Usage, "nested deeper than 64 levels");
    }

    #[test]
    fn a_path_that_leads_beyond_a_list_finds_nothing_yet() {
        let document = json!({"status": {"conditions": [], "ready": 1}});
        for path in ["{.status.ready}", ".status.ready", "status.ready", "$.status.ready"] {
            assert_eq!(select_values(path, &document).unwrap(), [&json!(1)], "{path}");
        }
        assert!(select_values("{.status.conditions[0].status}", &document).unwrap().is_empty());
        for path in ["{.a}{.b}", "{\"x\"}", "{.a["] {
            assert_eq!(select_values(path, &document).unwrap_err().exit, Exit::Usage, "{path}");
        }
    }
}

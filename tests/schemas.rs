//! The JSON Schemas that a released program has as a file are those that the structs of the kinds
//! generate. `POOLCTL_BLESS=1` writes the file anew; it takes effect with the next build.

use std::collections::BTreeMap;

use poolctl::model::kinds::Kind;
use poolctl::model::schemas::{generate_schema, read_schema};
use serde_json::{Map, Value, json};

use crate::architecture::root;

/// A shorter part is repeated in each place: a reference and a line of its own would save nothing.
const SHORTEST_DEFINITION: usize = 40;

/// What occurs in several places of the schemas, each once.
#[derive(Default)]
struct Definitions {
    /// How often each part of the schemas occurs, by its text.
    occurrences: BTreeMap<String, usize>,
    /// The line of each part that has become a definition, by its text.
    lines: BTreeMap<String, usize>,
    /// The definitions, in the order of their lines, which follow those of the kinds.
    written: Vec<Value>,
}

impl Definitions {
    /// Counts a part, and what is in it unless that was counted with another occurrence.
    fn count(&mut self, part: &Value) {
        if part.is_object() {
            let count = self.occurrences.entry(part.to_string()).or_default();
            *count += 1;
            if *count > 1 {
                return;
            }
        }
        for child in parts_of(part) {
            self.count(child);
        }
    }

    /// A part with references instead of what occurs in several places.
    fn share(&mut self, part: &Value) -> Value {
        let text = part.to_string();
        let is_shared = self.occurrences.get(&text).is_some_and(|count| *count > 1);
        if !is_shared || text.len() < SHORTEST_DEFINITION {
            return self.share_below(part);
        }
        if let Some(line) = self.lines.get(&text) {
            return json!({"$ref": line});
        }
        let definition = self.share_below(part);
        let line = Kind::ALL.len() + self.written.len();
        self.written.push(definition);
        self.lines.insert(text, line);
        json!({"$ref": line})
    }

    fn share_below(&mut self, part: &Value) -> Value {
        match part {
            Value::Array(parts) => parts.iter().map(|child| self.share(child)).collect(),
            Value::Object(keywords) => {
                let shared = keywords.iter().map(|(name, child)| (name.clone(), self.share(child)));
                Value::Object(shared.collect::<Map<_, _>>())
            }
            scalar => scalar.clone(),
        }
    }
}

fn parts_of(part: &Value) -> Vec<&Value> {
    match part {
        Value::Array(parts) => parts.iter().collect(),
        Value::Object(keywords) => keywords.values().collect(),
        _ => Vec::new(),
    }
}

/// The file of the schemas: a line for each kind, and then one for each definition.
fn file_of_schemas() -> String {
    let mut definitions = Definitions::default();
    for kind in Kind::ALL {
        definitions.count(&generate_schema(*kind));
    }
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        lines.push(definitions.share(&generate_schema(*kind)));
    }
    lines.append(&mut definitions.written);
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
}

#[test]
fn the_file_has_the_schemas_that_are_generated() {
    let path = root().join("src/model/schemas.jsonl");
    let file = file_of_schemas();
    #[expect(clippy::disallowed_methods, reason = "blessing is asked for by a variable")]
    let bless = std::env::var_os("POOLCTL_BLESS").is_some();
    if bless {
        std::fs::write(&path, &file).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == file, "src/model/schemas.jsonl is old: POOLCTL_BLESS=1 writes it anew");
    for kind in Kind::ALL {
        assert_eq!(read_schema(*kind), generate_schema(*kind), "{}", kind.name());
    }
}

//! Files of a room import one another without circles: each can be read and changed after those
//! that it imports, and without those that import it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::architecture::{root, rust_files};

/// What each module of `src` imports from its own room, by paths like `store/open`.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Modules of which each imports all others, be it through others.
type Circle = BTreeSet<String>;

#[test]
fn files_of_a_room_import_without_circles() {
    let files = read_imports();
    check_circles(&files);
    // A thing and its parts import one another, so they count as one.
    check_circles(&things_of(&files));
}

/// The first two parts of a path are a thing: `plan/agents/binding` is of `plan/agents`.
fn things_of(files: &Imports) -> Imports {
    let thing = |module: &String| module.split('/').take(2).collect::<Vec<_>>().join("/");
    let mut things = Imports::new();
    for (module, imported) in files {
        let importing = thing(module);
        let imported = imported.iter().map(thing).filter(|imported| *imported != importing);
        things.entry(importing.clone()).or_default().extend(imported);
    }
    things
}

fn check_circles(imports: &Imports) {
    let circles = find_circles(imports).into_iter();
    let wrong: Vec<String> = circles
        .map(|circle| format!("{}, of {circle:?}", shortest_circle(imports, &circle)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn imports_are_read_and_circles_are_found() {
    let code = "use std::fs;\n\
                use super::{open::{self, Store}, write as written}; // use super::comment;\n\
                pub use part::Part;\n\
                fn f() { crate::store::leases::take(); super::super::store::load::all() }\n\
                #[cfg(test)]\nmod tests {\n    use super::super::backup;\n}\n";
    let names = ["open", "write", "leases", "load", "backup", "comment", "read", "read/part"];
    let modules: BTreeSet<String> = names.iter().map(|name| format!("store/{name}")).collect();
    let imported = modules_imported(code, "store/read", &modules);
    let expected = ["store/leases", "store/load", "store/open", "store/write"];
    assert_eq!(imported.iter().map(String::as_str).collect::<Vec<_>>(), expected);

    let mut imports = Imports::new();
    for (module, imported) in [("a/1", "a/2"), ("a/2", "a/3"), ("a/3", "a/1"), ("a/4", "a/1")] {
        imports.insert(module.to_owned(), BTreeSet::from([imported.to_owned()]));
    }
    let circles: Vec<Circle> = find_circles(&imports).into_iter().collect();
    assert_eq!(circles, [BTreeSet::from(["a/1", "a/2", "a/3"].map(str::to_owned))]);
    assert_eq!(shortest_circle(&imports, &circles[0]), "a/1 -> a/2 -> a/3 -> a/1");
}

fn read_imports() -> Imports {
    let source = root().join("src");
    let mut codes = BTreeMap::new();
    for path in rust_files(&source) {
        let below = path.strip_prefix(&source).unwrap().with_extension("");
        let name = below.to_string_lossy().into_owned();
        let module = name.strip_suffix("/mod").unwrap_or(&name).to_owned();
        if module != "lib" && module != "main" {
            codes.insert(module, std::fs::read_to_string(path).unwrap());
        }
    }
    let modules: BTreeSet<String> = codes.keys().cloned().collect();
    codes
        .iter()
        .map(|(module, code)| (module.clone(), modules_imported(code, module, &modules)))
        .collect()
}

/// The modules of its room that a module imports, without its parts and what it is a part of.
fn modules_imported(code: &str, module: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let room = module.split('/').next();
    let code = without_comments_and_tests(code);
    let imported =
        paths_named(&code).into_iter().filter_map(|path| resolve(&path, module, modules));
    imported
        .filter(|imported| imported.split('/').next() == room)
        .filter(|imported| !is_part(imported, module) && !is_part(module, imported))
        .collect()
}

/// Whether `part` is `whole`, or a file in its folder.
fn is_part(part: &str, whole: &str) -> bool {
    part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Macros are left out, too: what one names is imported where it is used.
fn without_comments_and_tests(text: &str) -> String {
    let mut lines = Vec::new();
    let mut is_in_macro = false;
    for line in text.lines() {
        is_in_macro |= line.starts_with("macro_rules! ");
        if !is_in_macro {
            lines.push(line.split("//").next().unwrap_or_default());
        }
        is_in_macro &= line != "}";
    }
    let code = lines.join("\n");
    let end = code
        .match_indices("#[cfg(test)]")
        .find(|(start, attribute)| {
            code[start + attribute.len()..].trim_start().starts_with("mod tests")
        })
        .map_or(code.len(), |(start, _)| start);
    code[..end].to_owned()
}

/// Every path that the code imports, or names from `crate`, `super` or `self` on.
fn paths_named(code: &str) -> Vec<Vec<&str>> {
    let mut paths = Vec::new();
    for (start, word) in code.match_indices("use") {
        let tree = &code[start + word.len()..];
        let is_word = !code[..start].ends_with(is_part_of_name);
        if is_word && tree.starts_with(char::is_whitespace) {
            add_paths_of_tree(&[], tree.split(';').next().unwrap_or_default(), &mut paths);
        }
    }
    for first in ["crate::", "super::", "self::"] {
        for (start, _) in code.match_indices(first) {
            // After a colon it goes on with a path that began before.
            if !code[..start].ends_with(|letter: char| letter == ':' || is_part_of_name(letter)) {
                let path = &code[start..];
                let end = path.find(|letter: char| letter != ':' && !is_part_of_name(letter));
                paths.push(segments(&path[..end.unwrap_or(path.len())]));
            }
        }
    }
    paths
}

fn is_part_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Takes `a::{b, c::{d, e as f}}` apart.
fn add_paths_of_tree<'a>(prefix: &[&'a str], tree: &'a str, paths: &mut Vec<Vec<&'a str>>) {
    for branch in branches(tree) {
        match branch.split_once('{') {
            Some((stem, group)) => {
                let stem = [prefix, segments(stem).as_slice()].concat();
                let group = group.trim_end();
                add_paths_of_tree(&stem, group.strip_suffix('}').unwrap_or(group), paths);
            }
            None => paths.push([prefix, segments(branch).as_slice()].concat()),
        }
    }
}

/// What commas outside braces separate.
fn branches(tree: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let mut start = 0;
    let mut branches = Vec::new();
    for (index, letter) in tree.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&tree[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    branches.push(&tree[start..]);
    branches
}

fn segments(path: &str) -> Vec<&str> {
    let path = path.split(" as ").next().unwrap_or_default();
    path.split("::").map(str::trim).filter(|segment| !segment.is_empty()).collect()
}

/// The module that a path leads to, whatever it names inside.
fn resolve(path: &[&str], module: &str, modules: &BTreeSet<String>) -> Option<String> {
    let module_path: Vec<&str> = module.split('/').collect();
    let levels_up = path.iter().take_while(|segment| **segment == "super").count();
    let base = match *path.first()? {
        "crate" => &module_path[..0],
        "super" => &module_path[..module_path.len().saturating_sub(levels_up)],
        "self" => &module_path[..],
        first if modules.contains(&format!("{module}/{first}")) => &module_path[..],
        _ => return None,
    };
    let rest: Vec<&str> = path
        .iter()
        .copied()
        .skip_while(|segment| matches!(*segment, "crate" | "super" | "self"))
        .collect();
    (0..=rest.len())
        .rev()
        .map(|length| [base, &rest[..length]].concat().join("/"))
        .find(|candidate| modules.contains(candidate))
}

fn find_circles(imports: &Imports) -> BTreeSet<Circle> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reachable(imports, module))).collect();
    let mut circles = BTreeSet::new();
    for (module, ahead) in &reached {
        let circle: Circle = ahead
            .iter()
            .filter(|imported| reached.get(*imported).is_some_and(|back| back.contains(module)))
            .map(|imported| (*imported).to_owned())
            .collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles
}

/// All that a module imports, be it through others: itself too, if it is in a circle.
fn reachable<'a>(imports: &'a Imports, module: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = vec![module];
    while let Some(module) = waiting.pop() {
        for imported in imports.get(module).into_iter().flatten() {
            if reached.insert(imported.as_str()) {
                waiting.push(imported);
            }
        }
    }
    reached
}

/// `a -> b -> a`, through the first module of a circle.
fn shortest_circle(imports: &Imports, circle: &Circle) -> String {
    let first = circle.first().unwrap();
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![first.as_str()]]);
    while let Some(way) = ways.pop_front() {
        for imported in imports[way[way.len() - 1]].intersection(circle) {
            let longer = [way.as_slice(), &[imported.as_str()][..]].concat();
            if imported == first {
                return longer.join(" -> ");
            }
            if seen.insert(imported) {
                ways.push_back(longer);
            }
        }
    }
    unreachable!("a circle leads back to where it begins")
}

//! What `docs/contributing.md` names exists: files, folders, and the functions and types that its
//! recipes begin at. It names every room of the code.

use std::path::Path;

use crate::architecture::root;
use crate::pages::Page;

/// The words that come before a name where it is declared.
const DECLARATIONS: [&str; 6] = ["fn", "enum", "struct", "trait", "const", "macro_rules!"];

fn is_place(span: &str) -> bool {
    ["src/", "tests/", "examples/", "docs/", ".ci/"].iter().any(|folder| span.starts_with(folder))
}

/// The places of the repository that a page names between backticks: `path`, or `path::name`.
fn places(page: &Page) -> Vec<String> {
    let spans = page.prose.split('`').skip(1).step_by(2);
    spans.filter(|span| is_place(span)).map(str::to_owned).collect()
}

fn declares(path: &Path, name: &str) -> bool {
    let code = std::fs::read_to_string(path).unwrap();
    let mut lines = code.lines();
    lines.any(|line| {
        DECLARATIONS.iter().any(|word| {
            let declared = line.split_once(&format!("{word} {name}"));
            declared.is_some_and(|(_, rest)| {
                !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
            })
        })
    })
}

#[test]
fn whatever_the_recipes_begin_at_exists() {
    let page = Page::read(Path::new("docs/contributing.md"));
    let places = places(&page);
    assert!(places.len() > 40, "{}", places.len());
    for place in places {
        let (path, name) = place.split_once("::").unwrap_or((place.as_str(), ""));
        let path = root().join(path);
        assert!(path.exists(), "{place}");
        assert!(name.is_empty() || declares(&path, name), "{place} is not declared there");
    }
}

#[test]
fn every_room_of_the_code_is_in_the_table() {
    let page = Page::read(Path::new("docs/contributing.md"));
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!path.is_dir() || page.prose.contains(&format!("| `src/{name}` |")), "{name}");
    }
}

#[test]
fn the_book_has_a_recipe_for_each_thing_that_is_added_most() {
    let page = Page::read(Path::new("docs/contributing.md"));
    for recipe in ["a-field", "a-kind", "a-driver", "a-check", "a-format", "a-cause"] {
        let anchor = format!("recipe-{recipe}");
        assert!(page.anchors().contains(&anchor), "{anchor}");
    }
}

//! What `docs/contributing.md` names exists: files, folders, and the functions and types that its
//! recipes begin at. It names every room of the code. Each recipe has an example, a patch in
//! `recipes/`, which still applies, and changes what the recipe names. `POOLCTL_RECIPES=all`
//! follows them on copies of the code, because each is a build of its own.

use std::path::Path;
use std::process::Command;

use crate::architecture::root;
use crate::pages::Page;
use crate::sandbox::has_program;

/// The words that come before a name where it is declared.
const DECLARATIONS: [&str; 6] = ["fn", "enum", "struct", "trait", "const", "macro_rules!"];

fn is_place(span: &str) -> bool {
    ["src/", "tests/", "examples/", "docs/", ".ci/"].iter().any(|folder| span.starts_with(folder))
}

/// The places of the repository that prose names between backticks: `path`, or `path::name`.
fn places(prose: &str) -> Vec<String> {
    let spans = prose.split('`').skip(1).step_by(2);
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
    let places = places(&page.prose);
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

/// What is added most. Each has a recipe, and an example of it.
const RECIPES: [&str; 6] = ["field", "kind", "driver", "check", "format", "cause"];

/// An example of a recipe: a patch of this code.
struct Example {
    /// The patch, below the root of the repository.
    patch: String,
    /// The files that it changes or adds.
    files: Vec<String>,
    /// The tests that it changes or adds, as `cargo test` finds them.
    tests: Vec<String>,
}

impl Example {
    fn read(recipe: &str) -> Self {
        let patch = format!("tests/recipes/{recipe}.patch");
        let content = std::fs::read_to_string(root().join(&patch)).unwrap();
        let mut files = Vec::new();
        let mut tests = Vec::new();
        for line in content.lines() {
            files.extend(line.strip_prefix("+++ b/").map(str::to_owned));
            let names = line.strip_prefix("Tests: ").into_iter().flat_map(str::split_whitespace);
            tests.extend(names.map(str::to_owned));
        }
        assert!(!files.is_empty() && !tests.is_empty(), "{patch}");
        Self { patch, files, tests }
    }

    /// The files that the recipe names neither themselves nor by their folder.
    fn files_unknown_to(&self, recipe: &str) -> Vec<&str> {
        let places = places(recipe);
        let paths: Vec<&str> =
            places.iter().map(|place| place.split("::").next().unwrap_or(place)).collect();
        let mut unknown_files = Vec::new();
        for file in &self.files {
            if !paths.iter().any(|path| Path::new(file).starts_with(path)) {
                unknown_files.push(file.as_str());
            }
        }
        unknown_files
    }

    /// Applies the patch to a copy of the code, builds the copy, and runs the tests of the example.
    fn follow_on_copy(&self) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recipes");
        let copy = folder.join("copy");
        let patch = root().join(&self.patch);
        // What is extracted is newer than the last build, so that nothing of it is taken for this.
        let script = format!(
            "rm -rf {copy} && mkdir -p {copy} && \
             tar --exclude=./target --exclude=./.git -cf - . | tar -xmf - -C {copy} && \
             cd {copy} && GIT_CEILING_DIRECTORIES={folder} git apply -C1 {patch} && \
             unset POOLCTL_BLESS POOLCTL_RECIPES && \
             CARGO_TARGET_DIR={folder}/target {cargo} test --locked -- {tests}",
            copy = copy.display(),
            folder = folder.display(),
            patch = patch.display(),
            cargo = env!("CARGO"),
            tests = self.tests.join(" "),
        );
        let (is_successful, printed) = run_script(&script);
        assert!(is_successful, "{}: {printed}", self.patch);
        for test in &self.tests {
            let has_passed = printed.lines().any(|line| {
                line.starts_with("test ")
                    && line.contains(test.as_str())
                    && line.ends_with("... ok")
            });
            assert!(has_passed, "{}: {test} was not run: {printed}", self.patch);
        }
    }
}

/// Runs a script in the root of the repository: whether it succeeded, and what it printed.
#[expect(clippy::disallowed_methods, reason = "tests run programs")]
fn run_script(script: &str) -> (bool, String) {
    let output = Command::new("sh").args(["-c", script]).current_dir(root()).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
fn each_recipe_has_an_example_that_applies_and_changes_what_the_recipe_names() {
    if !has_program("git") {
        return;
    }
    let page = Page::read(Path::new("docs/contributing.md"));
    #[expect(clippy::disallowed_methods, reason = "builds are asked for by a variable")]
    let is_followed = std::env::var("POOLCTL_RECIPES").is_ok_and(|value| value == "all");
    for name in RECIPES {
        let heading = format!("Recipe: a {name}\n");
        let mut sections = page.prose.split("\n## ");
        let recipe = sections.find(|section| section.starts_with(&heading)).unwrap();
        let example = Example::read(name);
        assert!(recipe.contains(&format!("`{}`", example.patch)), "{heading}: {}", example.patch);
        let unknown_files = example.files_unknown_to(recipe);
        assert!(unknown_files.is_empty(), "{heading} does not name {unknown_files:?}");
        let (applies, printed) = run_script(&format!("git apply -C1 --check {}", example.patch));
        assert!(applies, "{}: {printed}", example.patch);
        if is_followed {
            example.follow_on_copy();
        }
    }
}

//! README, the chapters of `docs/` and the READMEs of `examples/`, tried: their examples run, their
//! commands and links exist. The pages are found by listing the folders, so a new one is tried
//! without being named here.
//!
//! A block of `sh` is run, in a state that only its page uses. A comment `<!-- sh` is run too and
//! readers do not see it: it prepares what the next examples need. Commands in a block of
//! `sh no_run` need what a test does not have, such as machines; they are only parsed.

use std::path::{Path, PathBuf};

use crate::architecture::root;
use crate::sandbox::{Ran, Sandbox};

/// What fits on one page, in bytes.
const LONGEST_README: usize = 4_500;

/// What may follow the backticks of a block. Anything else is a typing error, and its examples
/// would not be run.
const INFOS: [&str; 5] = ["sh", "sh no_run", "yaml", "json", ""];

/// A file of Markdown.
struct Page {
    /// Below the root of the repository.
    path: PathBuf,
    /// The lines outside of blocks.
    prose: String,
    blocks: Vec<Block>,
}

/// What stands between two lines of backticks, or in a comment.
struct Block {
    /// The rest of the first line: the language, and what is special about the block.
    info: String,
    text: String,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(root().join(path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut page = Self { path: path.to_owned(), prose: String::new(), blocks: Vec::new() };
        // With the line that ends it.
        let mut open_block: Option<(Block, &str)> = None;
        for line in text.lines() {
            if let Some((mut block, end)) = open_block.take() {
                if line == end {
                    page.blocks.push(block);
                } else {
                    block.text += line;
                    block.text.push('\n');
                    open_block = Some((block, end));
                }
            } else if let Some(info) = line.strip_prefix("```") {
                open_block = Some((Block::new(info), "```"));
            } else if let Some(info) = line.strip_prefix("<!-- ") {
                open_block = Some((Block::new(info), "-->"));
            } else {
                page.prose += line;
                page.prose.push('\n');
            }
        }
        assert!(open_block.is_none(), "{}: the last block has no end", path.display());
        page
    }

    /// All examples that can be run, in their order.
    fn script(&self) -> String {
        let blocks = self.blocks.iter().filter(|block| block.info == "sh");
        blocks.map(|block| block.text.as_str()).collect()
    }

    /// Each line that calls poolctl, whether it can be run or not.
    fn commands(&self) -> Vec<String> {
        let blocks = self.blocks.iter().filter(|block| block.info.starts_with("sh"));
        let text: String = blocks.map(|block| block.text.replace("\\\n", " ")).collect();
        let lines = text.lines().map(|line| line.trim_start_matches("sudo -u poolctl "));
        lines.filter(|line| line.starts_with("poolctl ")).map(str::to_owned).collect()
    }

    fn links(&self) -> impl Iterator<Item = &str> {
        self.prose.split("](").skip(1).filter_map(|rest| rest.split(')').next())
    }

    /// The names that links give to its headings.
    fn anchors(&self) -> Vec<String> {
        let headings = self.prose.lines().filter(|line| line.starts_with('#'));
        headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
    }

    /// Runs its examples in a folder of their own, which has `examples/` as the repository has it.
    fn run(&self) -> Ran {
        let examples = root().join("examples");
        let prepare = format!("set -ex\ncd \"$HOME\"\nln -s '{}' examples", examples.display());
        Sandbox::new().shell(&format!("{prepare}\n{}", self.script()))
    }

    /// What its examples print, if they do not run.
    fn failure(&self) -> Option<String> {
        let ran = self.run();
        let failed = ran.code != 0;
        failed
            .then(|| format!("{}: exit {}\n{}{}", self.path.display(), ran.code, ran.out, ran.err))
    }
}

impl Block {
    fn new(info: &str) -> Self {
        Self { info: info.to_owned(), text: String::new() }
    }
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let letters =
        lower.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    letters.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn readme() -> Page {
    Page::read(Path::new("README.md"))
}

fn chapters() -> Vec<Page> {
    let folder = Path::new("docs");
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| folder.join(entry.unwrap().file_name())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

/// The READMEs of the folders of examples.
fn example_pages() -> Vec<Page> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = Path::new("examples").join(entry.unwrap().file_name()).join("README.md");
        if root().join(&path).is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

fn pages() -> Vec<Page> {
    let mut pages = chapters();
    pages.extend(example_pages());
    pages.push(readme());
    pages
}

#[test]
fn the_pages_are_found_and_their_blocks_are_of_a_known_kind() {
    assert!(chapters().len() > 10);
    let with_examples = pages().iter().filter(|page| !page.script().is_empty()).count();
    assert!(with_examples > 8, "{with_examples}");
    for page in pages() {
        for block in &page.blocks {
            let path = page.path.display();
            let is_known = INFOS.contains(&block.info.as_str());
            assert!(is_known, "{path}: `{}`: {}", block.info, block.text);
        }
    }
}

/// Each page on its own, so that all that fail are told.
#[test]
fn the_examples_of_every_page_run() {
    let pages = pages();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = pages.iter().map(|page| scope.spawn(move || page.failure())).collect();
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_readme_claims_and_releases_a_cluster() {
    let ran = readme().run();
    assert!(ran.out.contains("claim/ci-17 bound to cluster/lab-"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("claim/ci-17 released"), "{}{}", ran.out, ran.err);
}

/// Also those for machines that only a reader has.
#[test]
fn every_command_of_the_pages_is_one() {
    let sandbox = Sandbox::new();
    let mut parsed_lines = 0;
    for page in pages() {
        for line in page.commands() {
            // The shell says which words they are.
            let command = line.split('>').next().unwrap();
            let print_words = "poolctl() { printf '%s\\n' poolctl \"$@\"; }";
            let words = sandbox.shell(&format!("{print_words}\n{command}")).out;
            let parsed = poolctl::commands::tree().try_get_matches_from(words.lines());
            let error = parsed.err().map(|error| error.to_string());
            assert_eq!(error, None, "{}: {line}", page.path.display());
            parsed_lines += 1;
        }
    }
    assert!(parsed_lines > 80, "{parsed_lines}");
}

#[test]
fn every_document_of_the_pages_is_yaml() {
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.info == "yaml") {
            let document = poolctl::yaml::parse_value(&block.text);
            assert!(document.is_ok(), "{}: {}", page.path.display(), block.text);
        }
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    for page in pages() {
        let folder = page.path.parent().unwrap();
        for link in page.links().filter(|link| !link.starts_with("https://")) {
            let from = page.path.display();
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            assert!(target.is_relative(), "{from}: `{link}` is not relative");
            assert!(root().join(&target).is_file(), "{from}: `{link}` leads nowhere");
            if !heading.is_empty() {
                let anchors = Page::read(&target).anchors();
                let is_there = anchors.iter().any(|anchor| anchor == heading);
                assert!(is_there, "{from}: `{link}` is none of {anchors:?}");
            }
        }
    }
}

#[test]
fn the_readme_is_one_page_that_names_every_chapter_and_what_ci_runs() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.len() <= LONGEST_README, "{} bytes", text.len());
    let readme = readme();
    for chapter in chapters() {
        let path = chapter.path.to_str().unwrap();
        assert!(readme.links().any(|link| link == path), "{path}");
    }
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    for command in ["cargo test", "sh examples/quickstart/run.sh"] {
        assert!(ci.contains(command) && text.contains(command), "{command}");
    }
}

//! Pages of Markdown, as tests read them: README, the book in `docs/` and the READMEs of
//! `examples/`. A page has prose and blocks; the blocks that can be run make a script.
//!
//! - ```` ```sh ```` is run. All blocks of a page are run in their order, in one shell and with a
//!   state that only this page uses. A comment `<!-- sh` is run too and readers do not see it: it
//!   prepares what the next examples need.
//! - ```` ```console ```` is run, and what it prints is compared: `$ command`, further lines of it
//!   after `> `, and then its output. `POOLCTL_BLESS=1` writes what is printed now into the page.
//! - ```` ```sh no_run: why ```` needs what a test does not have, such as machines. Its commands
//!   are only parsed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::architecture::root;
use crate::sandbox::{Ran, Sandbox};

/// What may follow the backticks of a block, besides `sh no_run: why`. Anything else is a typing
/// error, and its examples would not be run.
const INFOS: [&str; 7] = ["sh", "console", "yaml", "json", "groovy", "text", ""];
const NO_RUN: &str = "sh no_run: ";

/// Where the folder of a page's sandbox is said to be, so that the page is always the same.
const HOME_OF_READERS: &str = "/home/me";

/// A file of Markdown.
pub struct Page {
    /// Below the root of the repository.
    pub path: PathBuf,
    /// The lines outside of blocks. An empty line stands where a block was.
    pub prose: String,
    pub blocks: Vec<Block>,
}

/// What stands between two lines of backticks, or in a comment.
pub struct Block {
    /// The rest of the first line: the language, and what is special about the block.
    pub info: String,
    pub text: String,
    /// How many lines of the page come before its text.
    line: usize,
}

/// A command of a block `console`.
struct Step {
    command: String,
    printed: String,
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(root().join(path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut page = Self { path: path.to_owned(), prose: String::new(), blocks: Vec::new() };
        // With the line that ends it.
        let mut open_block: Option<(Block, &str)> = None;
        for (index, line) in text.lines().enumerate() {
            if let Some((mut block, end)) = open_block.take() {
                if line == end {
                    page.blocks.push(block);
                    page.prose.push('\n');
                } else {
                    block.text += line;
                    block.text.push('\n');
                    open_block = Some((block, end));
                }
            } else if let Some(info) = line.strip_prefix("```") {
                open_block = Some((Block::new(info, index + 1), "```"));
            } else if let Some(info) = line.strip_prefix("<!-- ") {
                open_block = Some((Block::new(info, index + 1), "-->"));
            } else {
                page.prose += line;
                page.prose.push('\n');
            }
        }
        assert!(open_block.is_none(), "{}: the last block has no end", path.display());
        page
    }

    /// All examples that can be run, in their order. What a step of `console` prints goes to a file
    /// of its own in the folder `.printed`.
    pub fn script(&self) -> String {
        let mut script = String::new();
        for (number, block) in self.blocks.iter().enumerate() {
            if block.info == "sh" {
                script += &block.text;
            }
            for (index, step) in block.steps().into_iter().enumerate() {
                let file = format!("\"$HOME/.printed/{number}-{index}\"");
                let _ = writeln!(
                    script,
                    "{{ set +x; }} 2>/dev/null\n{{\n{}\n}} >{file} 2>&1 || echo \"[exit $?]\" >>{file}\nset -x",
                    step.command
                );
            }
        }
        script
    }

    /// Each line that calls poolctl, whether it can be run or not.
    pub fn commands(&self) -> Vec<String> {
        let mut text = String::new();
        for block in &self.blocks {
            if block.info.starts_with("sh") {
                text += &block.text.replace("\\\n", " ");
            }
            for step in block.steps() {
                text += &step.command.replace("\\\n", " ");
                text.push('\n');
            }
        }
        let lines = text.lines().map(|line| line.trim_start_matches("sudo -u poolctl "));
        lines.filter(|line| line.starts_with("poolctl ")).map(str::to_owned).collect()
    }

    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.prose.split("](").skip(1).filter_map(|rest| rest.split(')').next())
    }

    /// The names that links give to its headings.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.prose.lines().filter(|line| line.starts_with('#'));
        headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
    }

    /// Runs its examples in a folder of their own, which has `examples/` as the repository has it.
    pub fn run(&self) -> (Sandbox, Ran) {
        let examples = root().join("examples");
        let mut sandbox = Sandbox::new();
        // Readers see what most terminals show.
        sandbox.set_variable("LANG", "C.UTF-8");
        let prepare = format!(
            "set -ex\ncd \"$HOME\"\nmkdir .printed\nln -s '{}' examples",
            examples.display()
        );
        let ran = sandbox.shell(&format!("{prepare}\n{}", self.script()));
        (sandbox, ran)
    }

    /// What is wrong with its examples: they end with an error, or print something else than the
    /// page says. When blessing, what they print is written into the page instead.
    pub fn failure(&self, is_blessed: bool) -> Option<String> {
        let (sandbox, ran) = self.run();
        let path = self.path.display();
        if ran.code != 0 {
            return Some(format!("{path}: exit {}\n{}{}", ran.code, ran.out, ran.err));
        }
        let differences = self.differences(&sandbox);
        if is_blessed && !differences.is_empty() {
            self.write_printed(&sandbox);
            return None;
        }
        (!differences.is_empty()).then(|| format!("{path}:\n{}", differences.join("\n")))
    }

    /// The steps that printed something else than the page says.
    fn differences(&self, sandbox: &Sandbox) -> Vec<String> {
        let mut differences = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            for (index, step) in block.steps().iter().enumerate() {
                let printed = printed_by(sandbox, number, index);
                if words_of_lines(&printed) != words_of_lines(&step.printed) {
                    let Step { command, printed: expected } = step;
                    differences.push(format!(
                        "$ {command}\n--- printed\n{printed}\n--- expected\n{expected}"
                    ));
                }
            }
        }
        differences
    }

    /// Writes the page with what its steps have printed.
    fn write_printed(&self, sandbox: &Sandbox) {
        let path = root().join(&self.path);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the last block, so that the numbers of the lines before stay.
        for (number, block) in self.blocks.iter().enumerate().rev() {
            let steps = block.steps();
            if steps.is_empty() {
                continue;
            }
            let mut blessed = Vec::new();
            for (index, step) in steps.iter().enumerate() {
                let command = step.command.replace('\n', "\n> ");
                blessed.extend(format!("$ {command}").lines().map(str::to_owned));
                let printed = printed_by(sandbox, number, index);
                blessed.extend(printed.trim_end().lines().map(str::to_owned));
            }
            let end = block.line + block.text.lines().count();
            drop(lines.splice(block.line..end, blessed));
        }
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }
}

impl Block {
    fn new(info: &str, line: usize) -> Self {
        Self { info: info.to_owned(), text: String::new(), line }
    }

    pub fn is_of_a_known_kind(&self) -> bool {
        let reason = self.info.strip_prefix(NO_RUN).unwrap_or_default();
        INFOS.contains(&self.info.as_str()) || !reason.is_empty()
    }

    /// The commands of a block `console`; none of another block.
    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        if self.info != "console" {
            return steps;
        }
        for line in self.text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step { command: command.to_owned(), printed: String::new() });
                continue;
            }
            let step = steps.last_mut().unwrap_or_else(|| panic!("no command before: {line}"));
            match line.strip_prefix("> ") {
                Some(continuation) if step.printed.is_empty() => {
                    step.command.push('\n');
                    step.command += continuation;
                }
                _ => {
                    step.printed += line;
                    step.printed.push('\n');
                }
            }
        }
        steps
    }
}

/// What a step printed, with the folder of the sandbox and the name of the user as readers see
/// them.
fn printed_by(sandbox: &Sandbox, block: usize, step: usize) -> String {
    let path = sandbox.path().join(format!(".printed/{block}-{step}"));
    let output = std::fs::read_to_string(path).unwrap();
    let output = output.replace(&sandbox.path().display().to_string(), HOME_OF_READERS);
    let user = sandbox.shell("id -un").out;
    let mut printed = String::new();
    for word in output.split_inclusive(char::is_whitespace) {
        if word.trim_end() == user.trim() {
            printed += &word.replacen(user.trim(), "me", 1);
        } else {
            printed += word;
        }
    }
    printed
}

/// The words of each line: the width of columns depends on who runs the test.
fn words_of_lines(printed: &str) -> Vec<String> {
    let lines = printed.trim_end().lines();
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let letters =
        lower.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    letters.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

pub fn readme() -> Page {
    Page::read(Path::new("README.md"))
}

/// The files of Markdown in a folder and the folders in it, in order.
fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root().join(&path).is_dir() {
            paths.extend(markdown_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    paths.sort();
    paths
}

/// The pages of the book, with its list of chapters.
pub fn chapters() -> Vec<Page> {
    markdown_files(Path::new("docs")).iter().map(|path| Page::read(path)).collect()
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

/// Whether the pages and pictures are to be written anew.
#[expect(clippy::disallowed_methods, reason = "blessing is asked for by a variable")]
pub fn is_blessed() -> bool {
    std::env::var_os("POOLCTL_BLESS").is_some()
}

/// All of them.
pub fn pages() -> Vec<Page> {
    let mut pages = chapters();
    pages.extend(example_pages());
    pages.push(readme());
    pages
}

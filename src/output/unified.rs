//! Differences of texts as `diff -u` prints them.

use similar::TextDiff;

use super::clean::clean;

/// What changes between two texts, with three lines around; empty when nothing does.
pub fn unified(name: &str, old: &str, new: &str, colors: bool) -> String {
    if old == new {
        return String::new();
    }
    let from = if old.is_empty() { "/dev/null" } else { name };
    let text = TextDiff::from_lines(old, new).unified_diff().header(from, name).to_string();
    text.lines()
        .map(|line| {
            let line = clean(line);
            match (colors, line.as_bytes().first()) {
                (true, Some(b'+')) => format!("\u{1b}[32m{line}\u{1b}[0m\n"),
                (true, Some(b'-')) => format!("\u{1b}[31m{line}\u{1b}[0m\n"),
                (true, Some(b'@')) => format!("\u{1b}[36m{line}\u{1b}[0m\n"),
                _ => format!("{line}\n"),
            }
        })
        .collect()
}

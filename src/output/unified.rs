//! Compares two texts and shows the difference as `diff -u` prints it. It never reads a file.

use std::fmt::Write;
use std::ops::Range;

use diffy::{DiffOptions, Line};

use super::clean::clean_line;
use super::style::{Style, Tone};

/// How many equal lines are shown before and after each change, as by `diff -u`.
const CONTEXT: usize = 3;

/// A line with its end, and the sign before it: a minus, a plus or a space.
type SignedLine = (char, String);

/// The difference between two texts that have one name, empty when they are equal. An empty old
/// text counts as one that was not there. Lines are cleaned for the terminal.
pub fn unified_diff(name: &str, old_text: &str, new_text: &str, style: Style) -> String {
    if old_text == new_text {
        return String::new();
    }
    let old_name = if old_text.is_empty() { "/dev/null" } else { name };
    let hunks = format_hunks(&compare_lines(old_text, new_text));
    let difference = format!("--- {old_name}\n+++ {name}\n{hunks}");
    difference.lines().map(|line| format_line(&clean_line(line), style)).collect()
}

/// A line with its end: green if it is new, red if it is old, cyan if it says where a hunk is.
fn format_line(line: &str, style: Style) -> String {
    let line = match line.as_bytes().first() {
        Some(b'+') => style.paint(Tone::Good, line),
        Some(b'-') => style.paint(Tone::Bad, line),
        Some(b'@') => style.paint(Tone::Place, line),
        _ => line.to_owned(),
    };
    line + "\n"
}

/// The lines of both texts in order; a line that both have is there once.
fn compare_lines(old_text: &str, new_text: &str) -> Vec<SignedLine> {
    // With so many equal lines around each change, one hunk has all lines.
    let everything = old_text.len() + new_text.len();
    let patch = DiffOptions::new().set_context_len(everything).create_patch(old_text, new_text);
    let mut signed_lines = Vec::new();
    for hunk in patch.hunks() {
        for line in hunk.lines() {
            signed_lines.push(match line {
                Line::Context(line) => (' ', (*line).to_owned()),
                Line::Delete(line) => ('-', (*line).to_owned()),
                Line::Insert(line) => ('+', (*line).to_owned()),
            });
        }
    }
    signed_lines
}

/// The changed lines and those around them, each group below its place in both texts. They are
/// grouped here because diffy parts changes that are exactly six lines apart, which `diff -u` does
/// not, and leaves out the space before empty lines.
fn format_hunks(lines: &[SignedLine]) -> String {
    let mut hunks = String::new();
    // How many lines of each text come before the next hunk, and where the last hunk ended.
    let mut old_lines_before = 0;
    let mut new_lines_before = 0;
    let mut last_end = 0;
    for range in hunk_ranges(lines) {
        // Between two hunks both texts have the same lines.
        old_lines_before += range.start - last_end;
        new_lines_before += range.start - last_end;
        last_end = range.end;
        let hunk_lines = &lines[range];
        let old_length = hunk_lines.iter().filter(|(sign, _)| *sign != '+').count();
        let new_length = hunk_lines.iter().filter(|(sign, _)| *sign != '-').count();
        let old_place = format_place(old_lines_before, old_length);
        let new_place = format_place(new_lines_before, new_length);
        let _ = writeln!(hunks, "@@ -{old_place} +{new_place} @@");
        for (sign, line) in hunk_lines {
            hunks.push(*sign);
            hunks.push_str(line);
            if !line.ends_with('\n') {
                hunks.push_str("\n\\ No newline at end of file\n");
            }
        }
        old_lines_before += old_length;
        new_lines_before += new_length;
    }
    hunks
}

/// The ranges of lines that hunks have: those that change, and those around them. Changes share a
/// hunk where the lines around them meet.
fn hunk_ranges(lines: &[SignedLine]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let changed = lines.iter().enumerate().filter(|(_, (sign, _))| *sign != ' ');
    for (index, _) in changed {
        let end = (index + 1 + CONTEXT).min(lines.len());
        match ranges.last_mut() {
            Some(range) if index <= range.end + CONTEXT => range.end = end,
            _ => ranges.push(index.saturating_sub(CONTEXT)..end),
        }
    }
    ranges
}

/// The place of a hunk in one of the texts: the number of its first line, and how many lines it has
/// there. A single line is its number alone; a hunk without lines has the number of the line
/// before.
fn format_place(lines_before: usize, length: usize) -> String {
    match length {
        0 => format!("{lines_before},0"),
        1 => format!("{}", lines_before + 1),
        _ => format!("{},{length}", lines_before + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::style::Colors;
    use super::*;

    fn check(old_text: &str, new_text: &str, hunks: &str) {
        let header = "--- name\n+++ name\n";
        assert_eq!(
            unified_diff("name", old_text, new_text, Style::default()),
            format!("{header}{hunks}")
        );
    }

    /// A text with a letter a line.
    fn lines(letters: &str) -> String {
        letters.chars().flat_map(|letter| [letter, '\n']).collect()
    }

    #[test]
    fn equal_texts_have_no_difference_and_a_new_one_comes_from_nothing() {
        assert_eq!(unified_diff("name", "a\n", "a\n", Style::default()), "");
        let created = unified_diff("name", "", "a\nb\n", Style::default());
        assert_eq!(created, "--- /dev/null\n+++ name\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        check("a\n", "", "@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn three_lines_stand_around_a_change() {
        check(
            &lines("abcdefghi"),
            &lines("abcdXfghi"),
            "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n",
        );
        check(&lines("abcde"), &lines("abcd"), "@@ -2,4 +2,3 @@\n b\n c\n d\n-e\n");
        check(&lines("abab"), &lines("ababab"), "@@ -2,3 +2,5 @@\n b\n a\n b\n+a\n+b\n");
    }

    #[test]
    fn changes_share_a_hunk_up_to_six_lines_apart() {
        check(
            &lines("a123456b"),
            &lines("A123456B"),
            "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n",
        );
        check(
            &lines("a1234567b"),
            &lines("1234567BC"),
            "@@ -1,4 +1,3 @@\n-a\n 1\n 2\n 3\n@@ -6,4 +5,5 @@\n 5\n 6\n 7\n-b\n+B\n+C\n",
        );
    }

    #[test]
    fn inserted_lines_stand_as_late_as_they_can() {
        check(&lines("xabc"), &lines("abbc"), "@@ -1,4 +1,4 @@\n-x\n a\n b\n+b\n c\n");
    }

    #[test]
    fn empty_lines_keep_their_space() {
        check("a\n\nb\n", "a\n\nc\n", "@@ -1,3 +1,3 @@\n a\n \n-b\n+c\n");
    }

    #[test]
    fn a_missing_end_of_line_is_said() {
        let missing = "\\ No newline at end of file\n";
        check("a\nb", "a\nb\n", &format!("@@ -1,2 +1,2 @@\n a\n-b\n{missing}+b\n"));
        check("a\nb", "c\nb", &format!("@@ -1,2 +1,2 @@\n-a\n+c\n b\n{missing}"));
    }

    #[test]
    fn colours_are_those_of_the_signs() {
        let colored = Style { colors: Colors::Ansi, ..Style::default() };
        assert_eq!(
            unified_diff("name", "a\n", "b\n", colored),
            "\u{1b}[31m--- name\u{1b}[0m\n\u{1b}[32m+++ name\u{1b}[0m\n\
             \u{1b}[36m@@ -1 +1 @@\u{1b}[0m\n\u{1b}[31m-a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n"
        );
    }
}

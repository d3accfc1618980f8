//! Fits text into lines of a terminal with 80 columns: it breaks sentences at spaces, and shortens
//! what has none. It never changes words.

/// Columns of a terminal that every output fits, unless more are asked for.
pub const WIDTH: usize = 80;
/// How far the second and further lines of a broken line stand behind the first one.
const HANGING: usize = 4;
/// What stands for the rest of a text that is cut.
const ELLIPSIS: &str = "...";

/// A text of at most so many letters. The end of a longer one is replaced by three dots.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(ELLIPSIS.len())).collect();
    format!("{}{ELLIPSIS}", kept.trim_end())
}

/// A text broken at spaces into lines of at most so many letters. A single word that is longer has
/// a line of its own, because names and commands are copied whole. There is at least one line.
pub fn break_text(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let length = line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines
}

/// A line that fits the terminal: a longer one goes on in lines that stand behind its beginning.
/// The last line has no end.
pub fn wrap_line(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let words = line.trim_start();
    let indent = line.len() - words.len();
    let first_line = " ".repeat(indent);
    let next_lines = format!("\n{}", " ".repeat(indent + HANGING));
    let width = WIDTH.saturating_sub(indent + HANGING).max(HANGING);
    format!("{first_line}{}", break_text(words, width).join(&next_lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_fits_stays_and_a_longer_one_is_broken_at_spaces() {
        assert_eq!(wrap_line("  a  b"), "  a  b");
        let word = "word ".repeat(20);
        let wrapped = wrap_line(&format!("  {word}"));
        assert!(wrapped.lines().all(|line| line.chars().count() <= WIDTH), "{wrapped}");
        assert!(wrapped.starts_with("  word") && wrapped.contains("\n      word"), "{wrapped}");
        assert_eq!(wrapped.split_whitespace().count(), 20);
    }

    #[test]
    fn a_word_is_never_broken() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abc...");
        assert_eq!(break_text("one two three", 7), ["one two", "three"]);
        assert_eq!(break_text("a bcdefgh i", 5), ["a", "bcdefgh", "i"]);
        assert_eq!(break_text("", 5), [""]);
    }
}

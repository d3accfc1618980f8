//! Shows that a command waits: a line on a terminal that is drawn again and again; elsewhere a line
//! for each change of what is waited for, and every few minutes. It draws the line of a terminal
//! itself, but never prints one.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::wrap::{WIDTH, shorten};
use crate::model::time::{Span, Time};

use super::style::{Letters, Style};

/// Without a bar, a line that says nothing new is printed again after this long.
const REPEAT_AFTER: Span = Span::minutes(5);
/// An installer may say something every second: its lines are printed no more often than this.
const DETAIL_AFTER: Span = Span::minutes(1);
/// What stands between two parts of a line.
const PART_GAP: &str = "; ";
/// Fewer letters of what a program said are not worth their place.
const LEAST_DETAIL: usize = 16;
/// Letters of a line before its words, without the counts: a sign that turns, how long the wait is
/// (at most four letters), the bar, and what separates them.
const BAR_HEAD: usize = 17;

/// What is shown while a command waits.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// Letters of a line on the terminal.
    width: usize,
    /// What was printed last, and when.
    last_words: ProgressWords,
    last_printed: Time,
    is_silent: bool,
}

/// How far a wait is, in words. Each part may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressWords {
    /// What is waited for. A change of it is told at once.
    pub headline: String,
    /// How far the job is that brings it; it moves with the clock.
    pub stage: String,
    /// What the program of that job said last.
    pub detail: String,
    /// How much of the wait is left.
    pub time_left: String,
}

impl ProgressWords {
    /// A line of a log, first what changes least. It is one line, so that `grep` has it whole. What
    /// the program of the job said is cut: the log of the job has it.
    fn to_log_line(&self) -> String {
        let own_words = join_parts([&self.headline, &self.stage, &self.time_left, &String::new()]);
        let room = WIDTH.saturating_sub(own_words.chars().count() + PART_GAP.len());
        if self.detail.is_empty() || room < LEAST_DETAIL {
            return own_words;
        }
        join_parts([&own_words, &shorten(&self.detail, room), &String::new(), &String::new()])
    }

    /// The line of a terminal with room for so many letters: first what changes most. A part of
    /// which too little would be seen is left out.
    fn to_terminal_line(&self, room: usize) -> String {
        let mut line = String::new();
        for part in [&self.stage, &self.time_left, &self.detail, &self.headline] {
            let gap = if line.is_empty() { "" } else { PART_GAP };
            let left = room.saturating_sub(line.chars().count() + gap.len());
            if !part.is_empty() && left >= part.chars().count().min(LEAST_DETAIL) {
                line += gap;
                line += &shorten(part, left);
            }
        }
        line
    }
}

fn join_parts(parts: [&String; 4]) -> String {
    let told_parts = parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str);
    told_parts.collect::<Vec<_>>().join(PART_GAP)
}

impl Progress {
    /// `is_terminal`: whether stderr is a terminal that can redraw a line.
    pub fn new(is_terminal: bool, is_silent: bool, style: Style) -> Self {
        let bar = if is_terminal && !is_silent { Some(new_bar(style.letters)) } else { None };
        Self {
            bar,
            width: style.width,
            last_words: ProgressWords::default(),
            last_printed: Time::default(),
            is_silent,
        }
    }

    /// Shows how far the wait is: so many steps of so many, and in words. Where there is no bar, it
    /// returns the line for stderr if that says something new, or has not been said for long.
    pub fn update(
        &mut self,
        position: u64,
        length: u64,
        words: &ProgressWords,
        now: Time,
    ) -> Option<String> {
        if let Some(bar) = &self.bar {
            bar.set_length(length);
            bar.set_position(position);
            let counts = format!("{position}/{length}");
            let room = self.width.saturating_sub(BAR_HEAD + counts.len());
            bar.set_message(words.to_terminal_line(room));
            bar.tick();
            return None;
        }
        let silence = now.since(self.last_printed);
        let has_new_detail = self.last_words.detail != words.detail && silence >= DETAIL_AFTER;
        let is_due =
            self.last_words.headline != words.headline || has_new_detail || silence >= REPEAT_AFTER;
        if self.is_silent || !is_due {
            return None;
        }
        self.last_words.clone_from(words);
        self.last_printed = now;
        Some(words.to_log_line())
    }

    /// Turns the spinner of the bar, so that it is seen to live.
    pub fn spin(&mut self) {
        if let Some(bar) = &self.bar {
            bar.tick();
        }
    }

    /// Takes the bar off the terminal.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(letters: Letters) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let template = "{spinner} {elapsed} {bar:8} {pos}/{len} {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(match letters {
            Letters::Unicode => style,
            Letters::Ascii => style.progress_chars("#>-").tick_chars("/-\\| "),
        });
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(headline: &str, detail: &str, time_left: &str) -> ProgressWords {
        ProgressWords {
            headline: headline.to_owned(),
            stage: "lab-x is installing".to_owned(),
            detail: detail.to_owned(),
            time_left: time_left.to_owned(),
        }
    }

    #[test]
    fn a_log_gets_a_line_at_useful_moments() {
        let mut progress = Progress::new(false, false, Style::default());
        let start = Time(0).plus(Span::hours(1));
        for (seconds, words, is_told) in [
            (0, words("#1", "a", "45m left"), true),
            (1, words("#1", "b", "44m left"), false),
            (60, words("#1", "b", "44m left"), true),
            (61, words("#2", "b", "43m left"), true),
            (200, words("#2", "b", "41m left"), false),
            (361, words("#2", "b", "39m left"), true),
            (362, words("#2", "b", "38m left"), false),
        ] {
            let line = progress.update(0, 1, &words, start.plus(Span::seconds(seconds)));
            assert_eq!(line.is_some(), is_told, "{seconds}: {line:?}");
        }
        let line = words("#1 in the queue", "", "45m left").to_log_line();
        assert_eq!(line, "#1 in the queue; lab-x is installing; 45m left");
        let line = words("#1 in the queue", &"word ".repeat(40), "45m left").to_log_line();
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.chars().count() <= WIDTH, "{line}");
    }

    #[test]
    fn a_terminal_gets_whole_parts() {
        let told = words("3 ready, 2 standby, 5 installing", "", "2s left");
        let whole_line = "lab-x is installing; 2s left; 3 ready, 2 standby, 5 installing";
        assert_eq!(told.to_terminal_line(80), whole_line);
        assert_eq!(told.to_terminal_line(40), "lab-x is installing; 2s left");
        let cut_line = "lab-x is installing; 2s left; 3 ready, 2 standb...";
        assert_eq!(told.to_terminal_line(50), cut_line);
        let told = words("#1", &"x".repeat(80), "");
        assert_eq!(told.to_terminal_line(60).chars().count(), 60);
    }
}

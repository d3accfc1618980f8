//! Shows that a command waits: a bar on a terminal; elsewhere a line for each change of state, and
//! one a minute. It draws the bar itself, but never prints a line.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::time::{Span, Time};

use super::style::Letters;

/// Without a bar, a line that says nothing new is printed again after this long.
const REPEAT_AFTER: Span = Span::minutes(1);

/// What is shown while a command waits.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// The line that was printed last, and when.
    last_line: String,
    last_printed: Time,
    is_silent: bool,
}

impl Progress {
    /// `is_terminal`: whether stderr is a terminal that can redraw a line.
    pub fn new(is_terminal: bool, is_silent: bool, letters: Letters) -> Self {
        let bar = if is_terminal && !is_silent { Some(new_bar(letters)) } else { None };
        Self { bar, last_line: String::new(), last_printed: Time::default(), is_silent }
    }

    /// Shows how far the wait is: so many steps of so many, and in words. Where there is no bar, it
    /// returns the line for stderr if that says something new, or has not been said for long.
    pub fn update(
        &mut self,
        position: u64,
        length: u64,
        message: &str,
        now: Time,
    ) -> Option<String> {
        if let Some(bar) = &self.bar {
            bar.set_length(length);
            bar.set_position(position);
            bar.set_message(message.to_owned());
            bar.tick();
            return None;
        }
        let is_due = self.last_line != message || now.since(self.last_printed) >= REPEAT_AFTER;
        if self.is_silent || !is_due {
            return None;
        }
        message.clone_into(&mut self.last_line);
        self.last_printed = now;
        Some(message.to_owned())
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
    let template = "{spinner} {elapsed} {wide_bar} {pos}/{len} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(match letters {
            Letters::Unicode => style,
            Letters::Ascii => style.progress_chars("#>-").tick_chars("/-\\| "),
        });
    }
    bar
}

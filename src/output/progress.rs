//! How a waiting command shows that it waits: a bar on a terminal; elsewhere a line for each
//! change of state, and one a minute.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::time::{Span, Time};

const QUIET: Span = Span::minutes(1);

pub struct Progress {
    bar: Option<ProgressBar>,
    last: String,
    said: Time,
    silent: bool,
}

impl Progress {
    /// `terminal`: whether stderr is one that can redraw a line.
    pub fn new(terminal: bool, silent: bool) -> Self {
        let bar = (terminal && !silent).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {elapsed} {wide_bar} {pos}/{len} {msg}")
            {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, last: String::new(), said: Time::default(), silent }
    }

    /// Shows how things stand; returns the line for stderr when there is no bar and news.
    pub fn tell(&mut self, done: u64, of: u64, text: &str, now: Time) -> Option<String> {
        if let Some(bar) = &self.bar {
            bar.set_length(of);
            bar.set_position(done);
            bar.set_message(text.to_owned());
            bar.tick();
            return None;
        }
        let news = self.last != text || now.since(self.said) >= QUIET;
        if self.silent || !news {
            return None;
        }
        (self.last, self.said) = (text.to_owned(), now);
        Some(text.to_owned())
    }

    /// Moves the bar's wheel.
    pub fn turn(&mut self) {
        if let Some(bar) = &self.bar {
            bar.tick();
        }
    }

    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

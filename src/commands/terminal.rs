//! What the terminals of a command can show: colours, letters, a width. Everything that draws or
//! colours asks here.

use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;

use crate::output::{Colors, Layout, Letters, Style, WIDTH};

use super::Context;
use super::context::ColorChoice;

/// Text is never broken into shorter lines than this, however narrow the terminal is.
const LEAST_WIDTH: usize = 40;
/// Text is never broken into longer lines than this, however wide the terminal is.
const LARGEST_WIDTH: usize = 100;

impl Context {
    /// Whether stderr is a terminal that can redraw a line.
    pub fn can_redraw(&self) -> bool {
        let is_dumb = self.world.variable("TERM").is_none_or(|term| term == "dumb");
        std::io::stderr().is_terminal() && !is_dumb && self.world.variable("CI").is_none()
    }

    /// Where tables are shown: on a terminal, which has at least 80 columns for them, or elsewhere.
    #[expect(clippy::unused_self, reason = "commands speak through their context")]
    pub fn table_layout(&self) -> Layout {
        let stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return Layout::Pipe;
        }
        let width = tcgetwinsize(&stdout).map_or(WIDTH, |size| usize::from(size.ws_col).max(WIDTH));
        Layout::Terminal(width)
    }

    /// How the answer looks. Every command that draws or colours anything asks here.
    pub fn style(&self) -> Style {
        Style { colors: self.colors(), letters: self.letters(), width: self.width() }
    }

    /// Whether the answer is coloured; documents never are.
    pub fn colors(&self) -> Colors {
        let is_colored = match self.globals.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let is_plain = self.world.variable("NO_COLOR").is_some()
                    || self.world.variable("TERM").is_none_or(|term| term == "dumb");
                std::io::stdout().is_terminal() && !is_plain
            }
        };
        if is_colored && self.globals.output.is_for_people() { Colors::Ansi } else { Colors::Plain }
    }

    /// The letters that what is drawn may use.
    pub fn letters(&self) -> Letters {
        if self.globals.ascii || !self.world.is_locale_utf8() {
            Letters::Ascii
        } else {
            Letters::Unicode
        }
    }

    /// The width of lines: that of the terminal within limits, because long lines are hard to read.
    #[expect(clippy::unused_self, reason = "commands speak through their context")]
    fn width(&self) -> usize {
        let stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return WIDTH;
        }
        let columns = tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
        if columns == 0 { WIDTH } else { columns.clamp(LEAST_WIDTH, LARGEST_WIDTH) }
    }
}

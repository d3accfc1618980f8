//! `status -w`: shows the state again and again. On a terminal it redraws one screen, follows its
//! size and ends with q; elsewhere it prints what has changed. It only reads.

use std::io::{IsTerminal, Read};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::model::refusal::Exit;
use crate::model::time::{Span, Time};
use crate::store::Store;

use crate::commands::status::answer_status;
use crate::commands::{Context, Quit};

/// How often the state is asked whether anything was committed, where nobody types: five times a
/// second.
const POLL_INTERVAL: Span = Span(200_000);
/// The same interval, in which a key is waited for.
const KEY_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Ages and remaining times are drawn again after this long, also if nothing was committed.
const REDRAW_AFTER: Span = Span::seconds(1);
/// The number of lines of a terminal that does not tell its own.
const USUAL_HEIGHT: usize = 24;

/// Shows the state until it is told to end.
pub fn watch_status(context: &Context, store: &Store) -> anyhow::Result<()> {
    context.world.catch_signals();
    let is_drawn = context.wants_rows()
        && context.can_redraw()
        && std::io::stdout().is_terminal()
        && context.is_at_terminal();
    if is_drawn { draw_until_ended(context, store) } else { print_changes(context, store) }
}

/// Prints the answer whenever something was committed that changes it.
fn print_changes(context: &Context, store: &Store) -> anyhow::Result<()> {
    let mut last_revision = None;
    let mut last_text = String::new();
    loop {
        let revision = store.read_revision()?;
        if last_revision != Some(revision) {
            let (answer, _) = answer_status(context, store)?;
            let text = answer.render(&context.globals.output, context.globals.quiet)?;
            if text != last_text {
                let is_first = last_text.is_empty() || !context.wants_rows();
                context.print(if is_first { "" } else { "\n" })?;
                context.print(&text)?;
                last_text = text;
            }
            last_revision = Some(revision);
        }
        if let Some(caught) = context.world.take_signal() {
            return Err(Quit(Exit::by_signal(caught.signal) as u8).into());
        }
        if is_reader_gone() {
            return Ok(());
        }
        context.world.sleep(POLL_INTERVAL);
    }
}

/// Whether nobody reads what is printed any more, as behind `| head`. A pipe tells that before
/// anything is written to it.
fn is_reader_gone() -> bool {
    let stdout = std::io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_told = poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0);
    is_told && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Redraws the screen of the terminal until q is typed or a signal comes.
fn draw_until_ended(context: &Context, store: &Store) -> anyhow::Result<()> {
    let screen = Screen::open(context)?;
    let mut last_revision = None;
    let mut last_size = (0, 0);
    let mut last_drawn = Time::default();
    loop {
        let revision = store.read_revision()?;
        let size = terminal_size();
        let now = context.world.now();
        let is_old = now.since(last_drawn) >= REDRAW_AFTER;
        if last_revision != Some(revision) || size != last_size || is_old {
            let (answer, _) = answer_status(context, store)?;
            let text = answer.render(&context.globals.output, context.globals.quiet)?;
            context.print(&frame_of(&text, size.1))?;
            last_revision = Some(revision);
            last_size = size;
            last_drawn = now;
        }
        if let Some(caught) = context.world.take_signal() {
            drop(screen);
            return Err(Quit(Exit::by_signal(caught.signal) as u8).into());
        }
        if is_end_typed()? {
            return Ok(());
        }
    }
}

/// What replaces the last picture, in one piece, so that nothing flickers. Each line is cleared
/// before it is written: after a line of the full width the cursor stands on its last letter. What
/// does not fit is counted above the last line, which sums up.
fn frame_of(text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let height = height.max(2);
    let mut shown = lines.clone();
    let more_lines = format!("{} more lines", lines.len().saturating_sub(height - 1));
    if lines.len() > height {
        shown.truncate(height - 2);
        shown.push(&more_lines);
        shown.extend(lines.last());
    }
    let mut frame = String::from("\u{1b}[H");
    for (index, line) in shown.iter().enumerate() {
        // A line feed after the last line would scroll the picture.
        frame += if index == 0 { "" } else { "\r\n" };
        frame += "\u{1b}[K";
        frame += line;
    }
    for _ in shown.len()..height {
        frame += "\r\n\u{1b}[K";
    }
    frame
}

/// Columns and lines of the terminal.
fn terminal_size() -> (usize, usize) {
    let Ok(size) = tcgetwinsize(std::io::stdout()) else { return (0, USUAL_HEIGHT) };
    let height = usize::from(size.ws_row);
    (usize::from(size.ws_col), if height == 0 { USUAL_HEIGHT } else { height })
}

/// Waits a moment for a key. Whether it is q, or nobody can type any more.
fn is_end_typed() -> anyhow::Result<bool> {
    let stdin = std::io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    // A signal ends the wait, too; the caller looks for it.
    if !poll(&mut polled, Some(&KEY_INTERVAL)).is_ok_and(|ready| ready > 0) {
        return Ok(false);
    }
    let mut keys = [0; 64];
    let count = stdin.lock().read(&mut keys).context("the keyboard cannot be read")?;
    Ok(count == 0 || keys[..count].contains(&b'q'))
}

/// A screen of its own on the terminal, which is put back as it was at the end.
struct Screen<'a> {
    context: &'a Context,
    modes_before: Termios,
}

impl<'a> Screen<'a> {
    /// Changes to a second screen without a cursor, which cuts lines that are too long and on which
    /// keys are not shown and need no Enter.
    fn open(context: &'a Context) -> anyhow::Result<Self> {
        let stdin = std::io::stdin();
        let modes_before = tcgetattr(&stdin).context("the terminal cannot be asked")?;
        let mut modes = modes_before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        tcsetattr(&stdin, OptionalActions::Now, &modes)
            .context("the terminal cannot be changed")?;
        let screen = Self { context, modes_before };
        context.print("\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l\u{1b}[2J")?;
        Ok(screen)
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        // A terminal that went away needs no mode.
        tcsetattr(std::io::stdin(), OptionalActions::Now, &self.modes_before).ok();
        drop(self.context.print("\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l"));
    }
}

#[cfg(test)]
mod tests {
    use super::frame_of;

    #[test]
    fn a_frame_fits_the_terminal_and_keeps_the_last_line() {
        let whole = frame_of("a\nb\n", 3);
        assert_eq!(whole, "\u{1b}[H\u{1b}[Ka\r\n\u{1b}[Kb\r\n\u{1b}[K");
        let cut = frame_of("a\nb\nc\nd\n", 3);
        assert_eq!(cut, "\u{1b}[H\u{1b}[Ka\r\n\u{1b}[K2 more lines\r\n\u{1b}[Kd");
        // Nothing is cleared behind a line that may fill the terminal.
        assert!(!frame_of(&"x".repeat(80), 3).contains("x\u{1b}[K"));
    }
}

//! The clocks of the simulated machine: the one on the wall, which may be moved, and the time since
//! boot, which nobody moves.

use poolctl::model::clock::Clocks;
use poolctl::model::time::{Span, Time};

/// The instant at which every history begins.
const BEGIN: Time = Time(1_790_000_000_000_000);
/// How long a machine has been up when its first command runs.
const BOOT_TIME: Span = Span::minutes(2);

/// The clocks of the machine, and how long the history has lasted.
#[derive(Default)]
pub struct SimClock {
    /// How much time has really passed since the beginning.
    elapsed: Span,
    /// How many microseconds the clock on the wall is off.
    off: i64,
    /// How often the machine was booted again.
    boots: u32,
    booted_at: Span,
}

impl SimClock {
    /// What the clocks show.
    pub fn read(&self) -> Clocks {
        let since_boot = self.elapsed.0 - self.booted_at.0 + BOOT_TIME.0;
        Clocks {
            wall: Time(BEGIN.0 + self.elapsed.0 + self.off),
            boot: format!("boot-{}", self.boots),
            since_boot,
            ..Clocks::default()
        }
    }

    /// How much time has passed since the beginning of the history.
    pub fn elapsed(&self) -> Span {
        self.elapsed
    }

    pub fn advance(&mut self, span: Span) {
        self.elapsed = Span(self.elapsed.0 + span.0);
    }

    /// Moves the clock on the wall: negative minutes move it back.
    pub fn move_wall(&mut self, minutes: i64) {
        self.off += minutes * Span::minutes(1).0;
    }

    pub fn boot(&mut self) {
        self.boots += 1;
        self.booted_at = self.elapsed;
    }
}

//! The clocks of the machine, and whether the wall clock is believed. It reads no clock.
//!
//! A wall clock that is suddenly far from where the time since boot says it should be was moved by
//! somebody, or is broken. If poolctl followed it at once, every lease could expire. So passes go on
//! with the time since boot, until the wall clock has stayed where it was moved to for an hour.

use super::time::{Span, Time};

/// A wall clock that is off by more than this was moved.
const JUMP: Span = Span::minutes(5);
/// The same for a rehearsed clock, which is moved on purpose, but not by this much.
const LEAP: Span = Span::hours(90 * 24);
/// How long a clock that was moved has to stay there until it is believed.
const TRUST: Span = Span::hours(1);

/// What the clocks of the machine say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    pub wall: Time,
    /// Identifies the boot of the machine. Empty if the wall clock is rehearsed: set by a person, for
    /// tests.
    pub boot: String,
    /// Microseconds since that boot, those included in which the machine slept.
    pub since_boot: i64,
    /// When doubt in the wall clock began, as `steady_micros` counts. 0 while it is believed.
    pub doubted: i64,
    /// How many microseconds the doubted clock is off.
    pub off: i64,
}

/// What an event has to say about the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockNews {
    /// It was moved, and is not believed.
    Moved,
    /// It has stayed where it was moved to. From the next pass on it counts.
    Believed,
}

/// The time of a pass, and the clocks that the next pass is judged by.
#[derive(Debug, PartialEq, Eq)]
pub struct JudgedClocks {
    pub now: Time,
    /// Whether the wall clock was moved, so that nothing may expire in this pass.
    pub jumped: bool,
    pub news: Option<ClockNews>,
    pub clocks: Clocks,
    /// Whether time is counted from these clocks from now on, and no longer from those that were
    /// written last. They are written then even if nothing else is: time would stand still.
    pub begins_anew: bool,
}

/// What a pass looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassExtent {
    Everything,
    /// The scope of a command.
    Part,
}

impl Clocks {
    fn is_rehearsed(&self) -> bool {
        self.boot.is_empty()
    }

    /// The clock that nobody moves by accident: the time since boot, or a rehearsed clock itself.
    fn steady_micros(&self) -> i64 {
        if self.is_rehearsed() { self.wall.0 } else { self.since_boot }
    }

    /// Judges what the clocks say now. `self` is what they said when a pass last wrote, and `last`
    /// is the time of that pass, before which no later one may be.
    ///
    /// A clock that was moved is not believed until it has stayed there for an hour, even over a
    /// boot. A change between a rehearsed and a real clock is believed by the next pass over
    /// everything, which lets nothing expire; but a rehearsed clock that is far away is never
    /// believed that way.
    pub fn judge(&self, last: Time, now: Self, extent: PassExtent) -> JudgedClocks {
        let is_whole = extent == PassExtent::Everything;
        let is_same_boot = now.boot == self.boot;
        let is_other_kind = now.is_rehearsed() != self.is_rehearsed();
        // After a boot there is nothing to compare with, unless the clock was in doubt already.
        let is_comparable =
            self.wall > Time::default() && (is_same_boot || is_other_kind || self.doubted != 0);
        let ticked =
            if is_same_boot && !now.is_rehearsed() { now.since_boot - self.since_boot } else { 0 };
        let elapsed = Span(ticked.max(0));
        let off = now.wall.0 - self.wall.0 - ticked;
        let limit = if is_same_boot && now.is_rehearsed() { LEAP } else { JUMP };
        let steady_time = last.plus(elapsed);
        if !is_comparable || off.abs() <= limit.0 {
            let is_behind = now.wall.plus(JUMP) < last;
            let time = if is_behind { steady_time } else { now.wall.max(last) };
            let begins_anew = is_behind && !is_same_boot;
            return JudgedClocks { now: time, jumped: false, news: None, clocks: now, begins_anew };
        }
        // Doubt begins anew when the clock is moved again, and after a boot.
        let was_moved_again = (off - self.off).abs() > limit.0;
        let goes_on = is_same_boot && self.doubted != 0 && !was_moved_again;
        let doubted_since = if goes_on { self.doubted } else { now.steady_micros() };
        let stayed = Span(now.steady_micros().saturating_sub(doubted_since));
        let is_near = !now.is_rehearsed() || off.abs() <= LEAP.0;
        let is_believed = is_whole && if is_other_kind { is_near } else { stayed >= TRUST };
        let news = if is_believed {
            Some(ClockNews::Believed)
        } else if is_other_kind {
            // A rehearsed clock that is far away is reported by every pass over everything.
            is_whole.then_some(ClockNews::Moved)
        } else {
            (self.doubted == 0).then_some(ClockNews::Moved)
        };
        let clocks = if is_believed {
            now
        } else if is_other_kind {
            self.clone()
        } else {
            Self { wall: self.wall.plus(elapsed), doubted: doubted_since.max(1), off, ..now }
        };
        let begins_anew = clocks.boot != self.boot || clocks.doubted != self.doubted;
        JudgedClocks { now: steady_time, jumped: true, news, clocks, begins_anew }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = Span::hours(1).0;
    const YEAR: i64 = 8760;

    fn clocks(wall: i64, since_boot: i64) -> Clocks {
        Clocks {
            wall: Time(wall * HOUR),
            boot: "this".into(),
            since_boot: since_boot * HOUR,
            ..Clocks::default()
        }
    }

    fn rehearsed(wall: i64) -> Clocks {
        Clocks { wall: Time(wall * HOUR), ..Clocks::default() }
    }

    fn judged(then: &Clocks, now: Clocks) -> (i64, bool) {
        let judged = then.judge(Time(100 * HOUR), now, PassExtent::Everything);
        (judged.now.0 / HOUR, judged.jumped)
    }

    #[test]
    fn a_clock_that_was_moved_is_not_believed() {
        let then = clocks(100, 5);
        // An hour passed on both clocks, however long nobody wrote.
        assert_eq!(judged(&then, clocks(101, 6)), (101, false));
        assert_eq!(judged(&then, clocks(9100, 9005)), (9100, false));
        // The wall was moved forward a year, or back; the machine knows that an hour passed.
        assert_eq!(judged(&then, clocks(101 + YEAR, 6)), (101, true));
        assert_eq!(judged(&then, clocks(50, 6)), (101, true));
        // After a boot there is nothing to compare with, but time never goes back.
        let rebooted = Clocks { boot: "other".into(), ..clocks(50, 0) };
        assert_eq!(judged(&then, rebooted), (100, false));
        // A rehearsed clock goes in leaps, but not by a year.
        assert_eq!(judged(&rehearsed(100), rehearsed(1000)), (1000, false));
        assert_eq!(judged(&rehearsed(100), rehearsed(100 + YEAR)), (100, true));
        // A real clock on a rehearsed state, and the other way round.
        assert_eq!(judged(&rehearsed(100), clocks(101, 5)), (100, true));
        assert_eq!(judged(&then, rehearsed(101)), (100, true));
        for (wall, is_far) in [(101, false), (YEAR, true)] {
            let judged = then.judge(Time(100 * HOUR), rehearsed(wall), PassExtent::Everything);
            assert_eq!(judged.clocks == then, is_far, "{wall}");
        }
    }

    #[test]
    fn time_goes_on_after_a_boot_with_a_clock_that_is_behind() {
        let doubted = Clocks { doubted: 1, ..clocks(100, 5) };
        for then in [clocks(100, 5), doubted] {
            let rebooted = Clocks { boot: "other".into(), ..clocks(50, 0) };
            let judged = then.judge(Time(100 * HOUR), rebooted, PassExtent::Everything);
            assert_eq!((judged.now.0 / HOUR, judged.begins_anew), (100, true));
            let later = Clocks { boot: "other".into(), ..clocks(52, 2) };
            let judged = judged.clocks.judge(judged.now, later, PassExtent::Everything);
            assert_eq!(judged.now.0 / HOUR, 102);
        }
    }

    #[test]
    fn doubt_outlives_a_boot_and_begins_anew_when_the_clock_is_moved_again() {
        let doubted = clocks(100, 5)
            .judge(Time(100 * HOUR), clocks(100 + YEAR, 5), PassExtent::Everything)
            .clocks;
        let rebooted = Clocks { boot: "other".into(), ..clocks(101 + YEAR, 0) };
        let judged = doubted.judge(Time(100 * HOUR), rebooted, PassExtent::Everything);
        assert!(judged.jumped && judged.clocks.doubted > 0, "{judged:?}");
        // Moved again after an hour: it has not stayed anywhere.
        let moved =
            doubted.judge(Time(101 * HOUR), clocks(101 + 2 * YEAR, 6), PassExtent::Everything);
        assert!(moved.jumped && moved.news.is_none() && moved.clocks.doubted > 0, "{moved:?}");
    }

    #[test]
    fn it_stays_doubted_for_an_hour_and_comes_back_as_if_nothing_had_been() {
        let minute = Span::minutes(1).0;
        let mut then = clocks(100, 5);
        let mut last = Time(100 * HOUR);
        let mut news = 0;
        for minutes in 1..=60 {
            let mut now = clocks(100 + YEAR, 5);
            now.wall.0 += minutes * minute;
            now.since_boot += minutes * minute;
            let judged = then.judge(last, now, PassExtent::Everything);
            assert!(judged.jumped && judged.now.0 == 100 * HOUR + minutes * minute, "{minutes}");
            news += i32::from(judged.news.is_some());
            (then, last) = (judged.clocks, judged.now);
        }
        assert_eq!(news, 1, "told once");
        let home = then.judge(last, clocks(102, 7), PassExtent::Everything);
        assert_eq!((home.jumped, home.now.0 / HOUR, home.clocks.doubted), (false, 102, 0));
        let mut now = clocks(101 + YEAR, 6);
        now.wall.0 += minute;
        now.since_boot += minute;
        let believed = then.judge(last, now, PassExtent::Everything);
        assert_eq!((believed.jumped, believed.news), (true, Some(ClockNews::Believed)));
        let after =
            believed.clocks.judge(believed.now, clocks(102 + YEAR, 7), PassExtent::Everything);
        assert_eq!((after.jumped, after.now.0 / HOUR), (false, 102 + YEAR));
    }
}

//! Clocks of the machine, and whether to believe the one on the wall.

use super::time::{Span, Time};

/// A clock that is off by more than this has been moved.
const JUMP: Span = Span::minutes(5);
/// The same for rehearsed clocks, which go in leaps.
const LEAP: Span = Span::hours(90 * 24);
/// A clock that was moved is believed when it has stayed there this long.
const TRUST: Span = Span::hours(1);

/// What the machine's clocks say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    pub wall: Time,
    /// Which boot of the machine; empty under a rehearsed clock.
    pub boot: String,
    /// Microseconds since then, sleep included.
    pub since_boot: i64,
    /// Since when the clock on the wall is not believed, by the other one; 0 while it is.
    pub doubted: i64,
    /// How far off it is then.
    pub off: i64,
}

/// What is to be told of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It was moved, and is not believed.
    Moved,
    /// It has stayed where it was moved to: from the next pass on it counts.
    Believed,
}

/// The time of a pass, and the clocks that the next one is compared with.
#[derive(Debug, PartialEq, Eq)]
pub struct Judged {
    pub now: Time,
    /// The clock on the wall was moved: nothing expires.
    pub jumped: bool,
    pub news: Option<News>,
    pub clocks: Clocks,
}

impl Clocks {
    fn rehearsed(&self) -> bool {
        self.boot.is_empty()
    }

    /// A clock that nobody moves by accident.
    fn beat(&self) -> i64 {
        if self.rehearsed() { self.wall.0 } else { self.since_boot }
    }

    /// Judges what the clocks say now by what they said when passes last wrote, at `last`. Time
    /// never goes back behind that. A clock that was moved is not believed before it has stayed
    /// there for an hour, of whatever boot; one of another kind, rehearsed or real, by the next
    /// pass over everything, the one that lets nothing expire, if it is not far away.
    pub fn judge(&self, last: Time, now: Self, whole: bool) -> Judged {
        let same = now.boot == self.boot;
        let other_kind = now.rehearsed() != self.rehearsed();
        // After a boot there is nothing to compare with, unless the clock was in doubt already.
        let known = self.wall > Time::default() && (same || other_kind || self.doubted != 0);
        let ticked = if same && !now.rehearsed() { now.since_boot - self.since_boot } else { 0 };
        let elapsed = Span(ticked.max(0));
        let off = now.wall.0 - self.wall.0 - ticked;
        let limit = if same && now.rehearsed() { LEAP } else { JUMP };
        let steady = last.plus(elapsed);
        if !known || off.abs() <= limit.0 {
            let behind = now.wall.plus(JUMP) < last;
            let time = if behind { steady } else { now.wall.max(last) };
            return Judged { now: time, jumped: false, news: None, clocks: now };
        }
        // Doubt begins anew when the clock is moved again, and at a boot.
        let moved_again = (off - self.off).abs() > limit.0;
        let since =
            if same && self.doubted != 0 && !moved_again { self.doubted } else { now.beat() };
        let stayed = Span(now.beat().saturating_sub(since));
        let near = !now.rehearsed() || off.abs() <= LEAP.0;
        let believed = whole && if other_kind { near } else { stayed >= TRUST };
        let news = match (believed, other_kind) {
            (true, _) => Some(News::Believed),
            // A rehearsed clock that is far away is told of each time.
            (false, true) => whole.then_some(News::Moved),
            (false, false) => (self.doubted == 0).then_some(News::Moved),
        };
        let clocks = if believed {
            now
        } else if other_kind {
            self.clone()
        } else {
            Self { wall: self.wall.plus(elapsed), doubted: since.max(1), off, ..now }
        };
        Judged { now: steady, jumped: true, news, clocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = Span::hours(1).0;
    const YEAR: i64 = 8760;

    fn clocks(wall: i64, since_boot: i64) -> Clocks {
        let (wall, since_boot) = (Time(wall * HOUR), since_boot * HOUR);
        Clocks { wall, boot: "this".into(), since_boot, ..Clocks::default() }
    }

    fn rehearsed(wall: i64) -> Clocks {
        Clocks { wall: Time(wall * HOUR), ..Clocks::default() }
    }

    fn judged(then: &Clocks, now: Clocks) -> (i64, bool) {
        let judged = then.judge(Time(100 * HOUR), now, true);
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
        let far = |wall| then.judge(Time(100 * HOUR), rehearsed(wall), true).clocks == then;
        assert!(!far(101) && far(YEAR));
    }

    #[test]
    fn doubt_outlives_a_boot_and_begins_anew_when_the_clock_is_moved_again() {
        let doubted = clocks(100, 5).judge(Time(100 * HOUR), clocks(100 + YEAR, 5), true).clocks;
        let rebooted = Clocks { boot: "other".into(), ..clocks(101 + YEAR, 0) };
        let judged = doubted.judge(Time(100 * HOUR), rebooted, true);
        assert!(judged.jumped && judged.clocks.doubted > 0, "{judged:?}");
        // Moved again after an hour: it has not stayed anywhere.
        let moved = doubted.judge(Time(101 * HOUR), clocks(101 + 2 * YEAR, 6), true);
        assert!(moved.jumped && moved.news.is_none() && moved.clocks.doubted > 0, "{moved:?}");
    }

    #[test]
    fn it_stays_doubted_for_an_hour_and_comes_back_as_if_nothing_had_been() {
        let minute = Span::minutes(1).0;
        let (mut then, mut last, mut news) = (clocks(100, 5), Time(100 * HOUR), 0);
        for at in 1..=60 {
            let mut now = clocks(100 + YEAR, 5);
            now.wall.0 += at * minute;
            now.since_boot += at * minute;
            let judged = then.judge(last, now, true);
            assert!(judged.jumped && judged.now.0 == 100 * HOUR + at * minute, "{at}");
            news += i32::from(judged.news.is_some());
            (then, last) = (judged.clocks, judged.now);
        }
        assert_eq!(news, 1, "told once");
        let home = then.judge(last, clocks(102, 7), true);
        assert_eq!((home.jumped, home.now.0 / HOUR, home.clocks.doubted), (false, 102, 0));
        let mut now = clocks(101 + YEAR, 6);
        now.wall.0 += minute;
        now.since_boot += minute;
        let believed = then.judge(last, now, true);
        assert_eq!((believed.jumped, believed.news), (true, Some(News::Believed)));
        let after = believed.clocks.judge(believed.now, clocks(102 + YEAR, 7), true);
        assert_eq!((after.jumped, after.now.0 / HOUR), (false, 102 + YEAR));
    }
}

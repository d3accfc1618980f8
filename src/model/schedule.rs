//! Schedules of a pool: cron lines with a time zone that set the pool's size and runningCount. They
//! say when a line is due and what it sets; they never change a pool.
//!
//! Changes of the clock are handled as cron does: a time that is skipped in spring is due when the
//! clock has skipped it. Of a time that comes twice in autumn the first counts, but a line for every
//! hour is due both times.

use std::collections::BTreeSet;
use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span as Days, Timestamp};

use super::time::{Span, Time};

/// How many days are searched for the next tick. Even 29 February comes within eight years.
const HORIZON: i32 = 8 * 366;

/// What `poolctl.dev/schedule` says.
#[derive(Clone, Debug)]
pub struct Schedule {
    zone: TimeZone,
    lines: Vec<ScheduleLine>,
}

/// One line of a schedule: when it is due, and what it sets.
#[derive(Clone, Debug)]
pub struct ScheduleLine {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: BTreeSet<i8>,
    months: BTreeSet<i8>,
    /// 0 is Sunday.
    weekdays: BTreeSet<i8>,
    /// Whether one of day and weekday is enough, as in cron when neither field begins with `*`.
    is_day_or_weekday_enough: bool,
    text: String,
    pub size: Option<u32>,
    pub running_count: Option<u32>,
}

/// An instant at which a line is due, after it the time that the local clock is meant to show then.
/// The two differ when the clock skips that time: the second one keeps the order of the lines.
type LineTick = (Time, DateTime);

impl Schedule {
    /// The lines in the order in which they were written.
    pub fn lines(&self) -> &[ScheduleLine] {
        &self.lines
    }

    /// The name of its time zone, such as Europe/Berlin.
    pub fn zone_name(&self) -> Option<&str> {
        self.zone.iana_name()
    }
}

impl ScheduleLine {
    /// When it is due, as cron writes it: five fields.
    pub fn cron_fields(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().take(5).collect();
        words.join(" ")
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(schedule: &str) -> Result<Self, String> {
        let mut zone = None;
        let mut lines = Vec::new();
        for line in schedule.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix("TZ=") {
                let named =
                    TimeZone::get(name).map_err(|_| format!("`{name}` is not a time zone"))?;
                if zone.replace(named).is_some() {
                    return Err("it has two time zones; one is used for all its lines".into());
                }
            } else if !line.starts_with('#') {
                lines.push(line.parse().map_err(|error| format!("`{line}`: {error}"))?);
            }
        }
        if lines.is_empty() {
            return Err("it has no line like `0 6 * * 1-5 size=10`".into());
        }
        Ok(Self { zone: zone.unwrap_or(TimeZone::UTC), lines })
    }
}

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

impl FromStr for ScheduleLine {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((fields, settings)) =
            words.split_at_checked(5).filter(|(_, settings)| !settings.is_empty())
        else {
            return Err("it needs five time fields, then size=N or runningCount=N".into());
        };
        let mut size = None;
        let mut running_count = None;
        for word in settings {
            let (name, number) = word.split_once('=').unwrap_or((word, ""));
            let number = number.parse().map_err(|_| format!("`{word}` is not NAME=NUMBER"))?;
            match name {
                "size" => size = Some(number),
                "runningCount" => running_count = Some(number),
                _ => return Err(format!("`{name}` is neither size nor runningCount")),
            }
        }
        let mut weekdays = WEEKDAY.parse(fields[4])?;
        // Sunday is 0 and 7.
        if weekdays.remove(&7) {
            weekdays.insert(0);
        }
        Ok(Self {
            minutes: MINUTE.parse(fields[0])?,
            hours: HOUR.parse(fields[1])?,
            days: DAY.parse(fields[2])?,
            months: MONTH.parse(fields[3])?,
            weekdays,
            is_day_or_weekday_enough: !fields[2].starts_with('*') && !fields[4].starts_with('*'),
            text: line.into(),
            size,
            running_count,
        })
    }
}

/// A field of a cron line: its least and greatest number, and names for the numbers from
/// `first_named` on.
struct CronField {
    least: i8,
    most: i8,
    names: &'static [&'static str],
    first_named: i8,
}

const MINUTE: CronField = CronField { least: 0, most: 59, names: &[], first_named: 0 };
const HOUR: CronField = CronField { least: 0, most: 23, names: &[], first_named: 0 };
const DAY: CronField = CronField { least: 1, most: 31, names: &[], first_named: 0 };
const MONTH: CronField = CronField { least: 1, most: 12, names: &MONTHS, first_named: 1 };
const WEEKDAY: CronField = CronField { least: 0, most: 7, names: &WEEKDAYS, first_named: 0 };

impl CronField {
    /// Reads `*`, `5`, `1-5`, `*/15`, `1-30/2`, `mon`, and lists of these.
    fn parse(&self, field: &str) -> Result<BTreeSet<i8>, String> {
        let mut numbers = BTreeSet::new();
        for part in field.split(',') {
            let Some(part_numbers) = self.parse_part(part) else {
                let Self { least, most, .. } = self;
                return Err(format!("`{field}` is not a cron field from {least} to {most}"));
            };
            numbers.extend(part_numbers);
        }
        Ok(numbers)
    }

    /// One part of a list: a number, a range or `*`, and perhaps a step.
    fn parse_part(&self, part: &str) -> Option<BTreeSet<i8>> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().ok()?)),
            None => (part, None),
        };
        let (first, last) = if range == "*" {
            (self.least, self.most)
        } else if let Some((first, last)) = range.split_once('-') {
            (self.parse_number(first)?, self.parse_number(last)?)
        } else {
            let number = self.parse_number(range)?;
            // Steps from a single number go on to the end, so `5/15` is 5, 20, 35 and 50.
            (number, if step.is_some() { self.most } else { number })
        };
        let step = step.unwrap_or(1);
        (first <= last && step > 0).then(|| (first..=last).step_by(step).collect())
    }

    /// A number of this field, by its name or in digits.
    fn parse_number(&self, word: &str) -> Option<i8> {
        let position = self.names.iter().position(|name| word.eq_ignore_ascii_case(name));
        let number = match position {
            Some(position) => i8::try_from(position).ok()? + self.first_named,
            None => word.parse().ok()?,
        };
        (self.least..=self.most).contains(&number).then_some(number)
    }
}

impl ScheduleLine {
    fn is_due_on(&self, date: Date) -> bool {
        let by_day = self.days.contains(&date.day());
        let by_weekday = self.weekdays.contains(&date.weekday().to_sunday_zero_offset());
        let by_date =
            if self.is_day_or_weekday_enough { by_day || by_weekday } else { by_day && by_weekday };
        by_date && self.months.contains(&date.month())
    }

    /// All ticks of a day, in no particular order.
    fn ticks_on(&self, date: Date, zone: &TimeZone) -> Vec<LineTick> {
        let mut ticks = Vec::new();
        for hour in &self.hours {
            for minute in &self.minutes {
                let local = date.at(*hour, *minute, 0, 0);
                let ambiguous = zone.to_ambiguous_timestamp(local);
                let Ok(first) = ambiguous.compatible() else { continue };
                match ambiguous.offset() {
                    AmbiguousOffset::Gap { .. } => {
                        // The clock never shows this time. `first` lies as far after the change
                        // of the clock as the time lies in the gap, so the last change until then
                        // is the one that skips it.
                        let mut changes = zone.preceding(first + Days::new().seconds(1));
                        if let Some(change) = changes.next() {
                            ticks.push((to_time(change.timestamp()), local));
                        }
                    }
                    AmbiguousOffset::Fold { .. } if self.hours.len() == 24 => {
                        ticks.push((to_time(first), local));
                        if let Ok(second) = ambiguous.later() {
                            ticks.push((to_time(second), local));
                        }
                    }
                    AmbiguousOffset::Fold { .. } | AmbiguousOffset::Unambiguous { .. } => {
                        ticks.push((to_time(first), local));
                    }
                }
            }
        }
        ticks
    }
}

fn to_time(timestamp: Timestamp) -> Time {
    Time(timestamp.as_microsecond())
}

/// What the ticks of a time have set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueCounts {
    /// When the last line was due.
    pub last_tick: Time,
    /// The last size that was set, if any line sets it.
    pub size: Option<u32>,
    /// The last runningCount that was set, if any line sets it.
    pub running_count: Option<u32>,
}

impl Schedule {
    /// Refuses a line that is never due, such as one for 31 February.
    pub fn check(&self) -> Result<(), String> {
        for line in &self.lines {
            if self.ticks_by_day(line, Time::default(), HORIZON).next().is_none() {
                return Err(format!("`{}` is never due: no year has such a day", line.text));
            }
        }
        Ok(())
    }

    /// The size and the runningCount that each line sets.
    pub fn counts(&self) -> impl Iterator<Item = (Option<u32>, Option<u32>)> {
        self.lines.iter().map(|line| (line.size, line.running_count))
    }

    /// What was due after `then`, until `now`. Of two lines that are due at the same time the later
    /// counts.
    pub fn due_since(&self, then: Time, now: Time) -> Option<DueCounts> {
        let mut last_ticks: Vec<(LineTick, &ScheduleLine)> = Vec::new();
        for line in &self.lines {
            if let Some(tick) = self.last_tick_since(line, then, now) {
                last_ticks.push((tick, line));
            }
        }
        // A stable sort: lines that are due at the same time keep their order.
        last_ticks.sort_by_key(|(tick, _)| *tick);
        let ((last_time, _), _) = *last_ticks.last()?;
        let size = last_ticks.iter().rev().find_map(|(_, line)| line.size);
        let running_count = last_ticks.iter().rev().find_map(|(_, line)| line.running_count);
        Some(DueCounts { last_tick: last_time, size, running_count })
    }

    fn last_tick_since(&self, line: &ScheduleLine, then: Time, now: Time) -> Option<LineTick> {
        // A day more on each side, because local days begin at other times than those of UTC.
        let days = (now.0.saturating_sub(then.0) / Span::hours(24).0).saturating_add(2);
        let days = i32::try_from(days).unwrap_or(HORIZON).min(HORIZON);
        let mut ticks_by_day = self.ticks_by_day(line, now, -days);
        let last = ticks_by_day
            .find_map(|ticks| ticks.into_iter().filter(|(time, _)| *time <= now).max())?;
        (last.0 > then).then_some(last)
    }

    /// The first tick after `now`, and its line; of several at that time the first line.
    pub fn next_tick(&self, now: Time) -> Option<(Time, &ScheduleLine)> {
        let next_ticks =
            self.lines.iter().filter_map(|line| Some((self.next_tick_of(line, now)?, line)));
        next_ticks.min_by_key(|(time, _)| *time)
    }

    fn next_tick_of(&self, line: &ScheduleLine, now: Time) -> Option<Time> {
        let mut ticks_by_day = self.ticks_by_day(line, now, HORIZON);
        ticks_by_day.find_map(|ticks| {
            ticks.into_iter().map(|(time, _)| time).filter(|time| *time > now).min()
        })
    }

    /// The ticks of each day on which a line is due, from that of `now` on. A negative number of
    /// days goes back in time.
    fn ticks_by_day<'a>(
        &'a self,
        line: &'a ScheduleLine,
        now: Time,
        days: i32,
    ) -> impl Iterator<Item = Vec<LineTick>> + 'a {
        let dates = self.local_dates(now, days).filter(|date| line.is_due_on(*date));
        dates.map(|date| line.ticks_on(date, &self.zone))
    }

    /// Local dates from that of `now` on. A negative number of days goes back in time.
    fn local_dates(&self, now: Time, days: i32) -> impl Iterator<Item = Date> {
        let instant = Timestamp::from_microsecond(now.0).unwrap_or_default();
        let today = instant.to_zoned(self.zone.clone()).date();
        let offsets = (0..=days.abs()).map(move |distance| distance * days.signum());
        offsets.filter_map(move |offset| today.checked_add(Days::new().days(offset)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Time {
        time.parse().unwrap()
    }

    #[test]
    fn ticks_follow_the_clock_on_the_wall() {
        let office = "TZ=Europe/Berlin\n0 6 * * 1-5 size=10 runningCount=5\n0 20 * * * size=2";
        let night = "TZ=Europe/Berlin\n30 2 * * * size=1";
        let hourly = "TZ=Europe/Berlin\n30 * * * * size=1";
        for (lines, now, last, next) in [
            // A Monday in winter: one hour ahead of UTC.
            (office, "2026-03-02T12:00:00Z", "2026-03-02T05:00:00Z", "2026-03-02T19:00:00Z"),
            (office, "2026-03-02T05:00:00Z", "2026-03-02T05:00:00Z", "2026-03-02T19:00:00Z"),
            (office, "2026-03-02T04:59:59Z", "2026-03-01T19:00:00Z", "2026-03-02T05:00:00Z"),
            // A Saturday has no morning.
            (office, "2026-03-07T12:00:00Z", "2026-03-06T19:00:00Z", "2026-03-07T19:00:00Z"),
            // In summer two hours.
            (office, "2026-07-01T12:00:00Z", "2026-07-01T04:00:00Z", "2026-07-01T18:00:00Z"),
            // 02:30 is skipped on 29 March 2026: it comes when the clock shows 03:00.
            (night, "2026-03-29T00:59:59Z", "2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z"),
            (night, "2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"),
            // and comes twice on 25 October: the first counts, unless every hour does.
            (night, "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
            (hourly, "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            (
                "0 0 29 2 * size=1",
                "2026-03-01T00:00:00Z",
                "2024-02-29T00:00:00Z",
                "2028-02-29T00:00:00Z",
            ),
            (
                "0 0 1 * mon size=1",
                "2026-03-03T00:00:00Z",
                "2026-03-02T00:00:00Z",
                "2026-03-09T00:00:00Z",
            ),
            // A field that begins with a star restricts, and both must hold.
            (
                "0 0 */2 * mon size=1",
                "2026-03-04T00:00:00Z",
                "2026-02-23T00:00:00Z",
                "2026-03-09T00:00:00Z",
            ),
            (
                "*/20 8-9 * * * size=1",
                "2026-03-03T08:50:00Z",
                "2026-03-03T08:40:00Z",
                "2026-03-03T09:00:00Z",
            ),
        ] {
            let schedule: Schedule = lines.parse().unwrap();
            let never = Time(i64::MIN);
            let last_tick = schedule.due_since(never, at(now)).unwrap().last_tick;
            let (next_tick, _) = schedule.next_tick(at(now)).unwrap();
            assert_eq!((last_tick, next_tick), (at(last), at(next)), "{lines} at {now}");
        }
    }

    #[test]
    fn nothing_is_lost_when_cron_comes_late_or_lines_share_a_minute() {
        let both = "0 6 * * * size=10\n0 6 * * * runningCount=5\n1 6 * * * runningCount=6";
        let both: Schedule = both.parse().unwrap();
        let then = at("2026-03-02T05:00:00Z");
        let now = at("2026-03-02T06:05:00Z");
        let last = at("2026-03-02T06:01:00Z");
        let due = DueCounts { last_tick: last, size: Some(10), running_count: Some(6) };
        assert_eq!(both.due_since(then, now), Some(due));
        assert_eq!(both.due_since(last, now), None);
        // On the day without 02:30 the later line holds as on any other.
        let morning = "TZ=Europe/Berlin\n0 3 * * * size=5\n30 2 * * * size=1";
        let morning: Schedule = morning.parse().unwrap();
        let then = at("2026-03-29T00:00:00Z");
        let now = at("2026-03-29T01:00:00Z");
        let due = DueCounts { last_tick: now, size: Some(5), running_count: None };
        assert_eq!(morning.due_since(then, now), Some(due));
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for wrong in [
            "",
            "0 6 * * *",
            "0 24 * * * size=1",
            "0 6 * * 1-5 sise=1",
            "TZ=Mars/Base\n0 6 * * * size=1",
            "5-1 * * * * size=1",
            "* * * * * size=x",
            "0 0 31 2 * size=1",
            "TZ=UTC\nTZ=Europe/Berlin\n0 6 * * * size=1",
        ] {
            let checked = wrong.parse::<Schedule>().and_then(|schedule| schedule.check());
            assert!(checked.is_err(), "{wrong}");
        }
    }
}

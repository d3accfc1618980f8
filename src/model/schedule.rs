//! Schedules of a pool: cron lines with a time zone that set size and runningCount. As with cron,
//! a time that the clock skips in spring comes when it has skipped it; of one that it shows twice
//! in autumn the first counts, unless the line is for every hour.

use std::collections::BTreeSet;
use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span as Days, Timestamp};

use super::time::{Span, Time};

pub use super::annotations::SCHEDULE;

/// Days that are looked through: a 29 February comes within eight years.
const HORIZON: i32 = 8 * 366;

#[derive(Clone, Debug)]
pub struct Schedule {
    zone: TimeZone,
    lines: Vec<Line>,
}

/// When, and what the pool is to be then.
#[derive(Clone, Debug)]
pub struct Line {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: BTreeSet<i8>,
    months: BTreeSet<i8>,
    /// 0 is Sunday.
    weekdays: BTreeSet<i8>,
    /// Either of the days will do, as cron has it when neither field begins with `*`.
    either: bool,
    text: String,
    pub size: Option<u32>,
    pub running_count: Option<u32>,
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut zone, mut lines) = (None, Vec::new());
        for line in text.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix("TZ=") {
                let found = TimeZone::get(name).map_err(|_| format!("`{name}` is no time zone"))?;
                if zone.replace(found).is_some() {
                    return Err("it has two time zones; one holds for all its lines".into());
                }
            } else if !line.starts_with('#') {
                lines.push(line.parse().map_err(|why| format!("`{line}`: {why}"))?);
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

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((when, what)) = words.split_at_checked(5).filter(|(_, what)| !what.is_empty())
        else {
            return Err("five fields and size=N or runningCount=N are needed".into());
        };
        let (mut size, mut running_count) = (None, None);
        for word in what {
            let (name, number) = word.split_once('=').unwrap_or((word, ""));
            let number = number.parse().map_err(|_| format!("`{word}` is not NAME=NUMBER"))?;
            match name {
                "size" => size = Some(number),
                "runningCount" => running_count = Some(number),
                _ => return Err(format!("`{name}` is neither size nor runningCount")),
            }
        }
        let mut weekdays = field(when[4], 0, 7, &WEEKDAYS, 0)?;
        // Sunday is 0 and 7.
        if weekdays.remove(&7) {
            weekdays.insert(0);
        }
        Ok(Self {
            minutes: field(when[0], 0, 59, &[], 0)?,
            hours: field(when[1], 0, 23, &[], 0)?,
            days: field(when[2], 1, 31, &[], 0)?,
            months: field(when[3], 1, 12, &MONTHS, 1)?,
            weekdays,
            either: ![when[2], when[4]].iter().any(|days| days.starts_with('*')),
            text: text.into(),
            size,
            running_count,
        })
    }
}

/// `*`, `5`, `1-5`, `*/15`, `1-30/2`, `mon`, and lists of them.
fn field(
    text: &str,
    least: i8,
    most: i8,
    names: &[&str],
    first: i8,
) -> Result<BTreeSet<i8>, String> {
    let wrong = || format!("`{text}` is not a cron field from {least} to {most}");
    let number = |word: &str| {
        let place = names.iter().position(|name| word.eq_ignore_ascii_case(name));
        let place = place.and_then(|at| i8::try_from(at).ok()).map(|at| at + first);
        let found = place.or_else(|| word.parse().ok());
        found.filter(|found| (least..=most).contains(found)).ok_or_else(wrong)
    };
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(a, b)| (a, Some(b)));
        let step: usize = step.map_or(Ok(1), str::parse).map_err(|_| wrong())?;
        let (from, to) = match (range, range.split_once('-')) {
            ("*", _) => (least, most),
            (_, Some((from, to))) => (number(from)?, number(to)?),
            (one, None) => (number(one)?, if part.contains('/') { most } else { number(one)? }),
        };
        if from > to || step == 0 {
            return Err(wrong());
        }
        all.extend((from..=to).step_by(step));
    }
    Ok(all)
}

impl Line {
    fn on(&self, date: Date) -> bool {
        let by_day = self.days.contains(&date.day());
        let by_weekday = self.weekdays.contains(&date.weekday().to_sunday_zero_offset());
        let day = if self.either { by_day || by_weekday } else { by_day && by_weekday };
        day && self.months.contains(&date.month())
    }

    /// Every instant of a day, and what the clock on the wall is meant to show then.
    fn instants(&self, date: Date, zone: &TimeZone) -> Vec<(Time, DateTime)> {
        let time = |at: Timestamp| Time(at.as_microsecond());
        let mut all = Vec::new();
        for hour in &self.hours {
            for minute in &self.minutes {
                let local = date.at(*hour, *minute, 0, 0);
                let found = zone.to_ambiguous_timestamp(local);
                let Ok(first) = found.compatible() else { continue };
                match found.offset() {
                    AmbiguousOffset::Gap { .. } => {
                        // The change itself is the last one until then.
                        let mut changes = zone.preceding(first + Days::new().seconds(1));
                        all.extend(changes.next().map(|at| (time(at.timestamp()), local)));
                    }
                    AmbiguousOffset::Fold { .. } if self.hours.len() == 24 => {
                        let second = found.later().ok();
                        all.extend(
                            [Some(first), second].into_iter().flatten().map(|at| (time(at), local)),
                        );
                    }
                    _ => all.push((time(first), local)),
                }
            }
        }
        all
    }
}

impl Schedule {
    /// Refuses lines that never come.
    pub fn check(&self) -> Result<(), String> {
        let comes = |line: &&Line| self.ticks(line, Time::default(), HORIZON).next().is_some();
        match self.lines.iter().find(|line| !comes(line)) {
            Some(never) => Err(format!("day and month of `{}` never come", never.text)),
            None => Ok(()),
        }
    }

    /// What has come since, until now: the time of the last tick, and the last size and
    /// runningCount; of two at the same time the later line's.
    pub fn since(&self, then: Time, now: Time) -> Option<(Time, Option<u32>, Option<u32>)> {
        // A day more on each side: local days begin at other times.
        let passed = (now.0.saturating_sub(then.0) / Span::hours(24).0).saturating_add(2);
        let passed = i32::try_from(passed).unwrap_or(HORIZON).min(HORIZON);
        let last = |line: &Line| {
            let mut days = self.ticks(line, now, -passed);
            let found = days.find_map(|day| day.into_iter().filter(|(at, _)| *at <= now).max());
            found.filter(|(at, _)| *at > then)
        };
        let ticks: Vec<((Time, DateTime), &Line)> =
            self.lines.iter().filter_map(|line| Some((last(line)?, line))).collect();
        let of = |field: fn(&Line) -> Option<u32>| {
            let set = ticks.iter().filter_map(|(at, line)| Some((*at, field(line)?)));
            set.max_by_key(|(at, _)| *at).map(|(_, value)| value)
        };
        let last = ticks.iter().map(|((at, _), _)| *at).max()?;
        Some((last, of(|line| line.size), of(|line| line.running_count)))
    }

    /// The first tick after now, and its line.
    pub fn next(&self, now: Time) -> Option<(Time, &Line)> {
        let first = |line| {
            let mut days = self.ticks(line, now, HORIZON);
            days.find_map(|day| day.into_iter().map(|(at, _)| at).filter(|at| *at > now).min())
        };
        let ticks = self.lines.iter().filter_map(|line| Some((first(line)?, line)));
        ticks.min_by_key(|(time, _)| *time)
    }

    /// The ticks of each day that has some, from now on, forwards or backwards.
    fn ticks<'a>(
        &'a self,
        line: &'a Line,
        now: Time,
        days: i32,
    ) -> impl Iterator<Item = Vec<(Time, DateTime)>> + 'a {
        let days = self.dates(now, days).filter(|date| line.on(*date));
        days.map(|date| line.instants(date, &self.zone))
    }

    /// Local days from now on, forwards or backwards.
    fn dates(&self, now: Time, days: i32) -> impl Iterator<Item = Date> {
        let now = Timestamp::from_microsecond(now.0).unwrap_or_default();
        let today = now.to_zoned(self.zone.clone()).date();
        let days = (0..=days.abs()).map(move |at| at * days.signum());
        days.filter_map(move |at| today.checked_add(Days::new().days(at)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn ticks_follow_the_clock_on_the_wall() {
        let office = "TZ=Europe/Berlin\n0 6 * * 1-5 size=10 runningCount=5\n0 20 * * * size=2";
        let night = "TZ=Europe/Berlin\n30 2 * * * size=1";
        let hourly = "TZ=Europe/Berlin\n30 * * * * size=1";
        for (text, now, last, next) in [
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
            let schedule: Schedule = text.parse().unwrap();
            let never = Time(i64::MIN);
            let found =
                (schedule.since(never, at(now)).unwrap().0, schedule.next(at(now)).unwrap().0);
            assert_eq!(found, (at(last), at(next)), "{text} at {now}");
        }
    }

    #[test]
    fn nothing_is_lost_when_cron_comes_late_or_lines_share_a_minute() {
        let both = "0 6 * * * size=10\n0 6 * * * runningCount=5\n1 6 * * * runningCount=6";
        let both: Schedule = both.parse().unwrap();
        let (then, now) = (at("2026-03-02T05:00:00Z"), at("2026-03-02T06:05:00Z"));
        let last = at("2026-03-02T06:01:00Z");
        assert_eq!(both.since(then, now), Some((last, Some(10), Some(6))));
        assert_eq!(both.since(last, now), None);
        // On the day without 02:30 the later line holds as on any other.
        let morning = "TZ=Europe/Berlin\n0 3 * * * size=5\n30 2 * * * size=1";
        let morning: Schedule = morning.parse().unwrap();
        let (then, now) = (at("2026-03-29T00:00:00Z"), at("2026-03-29T01:00:00Z"));
        assert_eq!(morning.since(then, now), Some((now, Some(5), None)));
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
            let read = wrong.parse::<Schedule>().and_then(|schedule| schedule.check());
            assert!(read.is_err(), "{wrong}");
        }
    }
}

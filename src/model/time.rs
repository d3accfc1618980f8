//! Instants and durations, and their spellings on the wire. It never reads a clock.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const MICROS: i64 = 1_000_000;

/// An instant: microseconds since 1970-01-01 UTC. The wire has whole seconds (RFC 3339).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// A length of time in microseconds, never negative. The wire has Go's form, `8h0m0s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl Time {
    /// The time as it is on the wire, without its microseconds.
    #[must_use]
    pub const fn in_whole_seconds(self) -> Self {
        Self(self.0.div_euclid(MICROS) * MICROS)
    }

    /// The time with its microseconds, for values whose order counts. `Display` has whole seconds.
    pub fn to_exact_text(self) -> String {
        jiff::Timestamp::from_microsecond(self.0).unwrap_or_default().to_string()
    }

    /// The instant after a span. It stops at the end of time instead of overflowing.
    #[must_use]
    pub fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How much later this time is than another one; zero if it is earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl Span {
    /// A span of whole seconds.
    #[must_use]
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds * MICROS)
    }

    /// A span of whole minutes.
    #[must_use]
    pub const fn minutes(minutes: i64) -> Self {
        Self::seconds(minutes * 60)
    }

    /// A span of whole hours.
    #[must_use]
    pub const fn hours(hours: i64) -> Self {
        Self::minutes(hours * 60)
    }

    /// The duration as tables show it, in its one or two largest units: `3d4h`, `18m`, `5s`.
    pub fn to_short_text(self) -> String {
        let seconds = self.0 / MICROS;
        let minutes = seconds / 60;
        let hours = seconds / 3600;
        let days = seconds / 86400;
        match seconds {
            ..120 => format!("{seconds}s"),
            120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
            120..7200 => format!("{minutes}m"),
            7200..86400 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
            7200..172_800 => format!("{hours}h"),
            172_800..864_000 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
            _ => format!("{days}d"),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_second(self.0.div_euclid(MICROS)).unwrap_or_default();
        write!(out, "{instant}")
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(time: &str) -> Result<Self, String> {
        let instant = match parse_usual_form(time) {
            Some(instant) => instant,
            None => time
                .parse()
                .map_err(|_| format!("`{time}` is not a time like 2026-01-31T08:00:00Z"))?,
        };
        Ok(Self(instant.as_microsecond()))
    }
}

/// Reads the form that poolctl writes, `2026-01-31T08:00:00Z`. Documents are full of times, and to
/// read any form of RFC 3339 takes ten times as long. None for another form.
fn parse_usual_form(time: &str) -> Option<jiff::Timestamp> {
    let bytes: &[u8; 20] = time.as_bytes().try_into().ok()?;
    let signs = [bytes[4], bytes[7], bytes[10], bytes[13], bytes[16], bytes[19]];
    if signs != *b"--T::Z" {
        return None;
    }
    let year = read_digits(&bytes[..2])? * 100 + read_digits(&bytes[2..4])?;
    let [month, day, hour, minute, second] = [5, 8, 11, 14, 17].map(|start| {
        let number = read_digits(&bytes[start..start + 2])?;
        i8::try_from(number).ok()
    });
    let time_of_day = jiff::civil::Time::new(hour?, minute?, second?, 0).ok()?;
    let date = jiff::civil::Date::new(year, month?, day?).ok()?;
    jiff::tz::Offset::UTC.to_timestamp(date.to_datetime(time_of_day)).ok()
}

/// The number that two digits are.
fn read_digits(digits: &[u8]) -> Option<i16> {
    let mut number = 0;
    for digit in digits {
        number = number * 10 + i16::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    Some(number)
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total_seconds = self.0 / MICROS;
        let hours = total_seconds / 3600;
        let minutes = total_seconds / 60 % 60;
        let seconds = total_seconds % 60;
        let micros = self.0 % MICROS;
        if hours > 0 {
            write!(out, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(out, "{minutes}m")?;
        }
        if micros == 0 {
            return write!(out, "{seconds}s");
        }
        let fraction = format!("{micros:06}");
        write!(out, "{seconds}.{}s", fraction.trim_end_matches('0'))
    }
}

impl FromStr for Span {
    type Err = String;

    /// Reads numbers with units, as people write them (`90s`, `2d`, `1w`, `1h30m`, `1.5h`) and as Go
    /// does (`8h0m0s`, `300ms`, `0`).
    fn from_str(duration: &str) -> Result<Self, String> {
        if duration == "0" {
            return Ok(Self(0));
        }
        let Some(micros) = parse_micros(duration) else {
            return Err(format!("`{duration}` is not a duration like 90s, 30m, 8h, 2d or 1h30m"));
        };
        // No lease lasts a century, and an i64 holds far more microseconds than that has.
        if micros > 100.0 * 365.0 * 86400.0 * 1e6 {
            return Err(format!("`{duration}` is longer than 100 years"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "bounded just above")]
        Ok(Self(micros.round() as i64))
    }
}

/// The sum of one or more numbers with units, in microseconds.
fn parse_micros(duration: &str) -> Option<f64> {
    if duration.is_empty() {
        return None;
    }
    let mut micros = 0_f64;
    let mut remaining = duration;
    while !remaining.is_empty() {
        let number_end =
            remaining.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after_number) = remaining.split_at(number_end);
        let unit_end =
            after_number.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after_number.len());
        let (unit, after_unit) = after_number.split_at(unit_end);
        micros += number.parse::<f64>().ok()? * micros_of_unit(unit)?;
        remaining = after_unit;
    }
    Some(micros)
}

fn micros_of_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-3,
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        "d" => 86400e6,
        "w" => 7.0 * 86400e6,
        _ => return None,
    })
}

/// Parses a text where it stands, without a copy of it.
struct TextVisitor<T>(PhantomData<fn() -> T>);

impl<T: FromStr<Err: fmt::Display>> de::Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Has a type written to the wire, and read from there, as the text that it displays.
macro_rules! string_on_the_wire {
    ($type:ty, $format:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextVisitor(PhantomData))
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $format.into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "format": $format})
            }
        }
    };
}
string_on_the_wire!(Time, "date-time");
string_on_the_wire!(Span, "duration");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_and_as_people_write_them() {
        for (duration, seconds, go) in [
            ("90s", 90, "1m30s"),
            ("8h", 28800, "8h0m0s"),
            ("8h0m0s", 28800, "8h0m0s"),
            ("1.5h", 5400, "1h30m0s"),
            ("2d", 172_800, "48h0m0s"),
            ("1w", 604_800, "168h0m0s"),
            ("1h30m", 5400, "1h30m0s"),
            ("0s", 0, "0s"),
            ("0", 0, "0s"),
        ] {
            let span: Span = duration.parse().unwrap();
            assert_eq!(
                (span, span.to_string().as_str()),
                (Span::seconds(seconds), go),
                "{duration}"
            );
        }
        assert_eq!("300ms".parse::<Span>().unwrap().to_string(), "0.3s");
        for wrong in ["", "10", "-1h", "1x", "h", "1h-", "99999999h", "1..5h"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_the_same_in_the_usual_form_and_in_any_other() {
        for (time, other) in [
            ("2026-03-02T12:01:30Z", "2026-03-02T13:01:30.000+01:00"),
            ("1969-12-31T23:59:59Z", "1969-12-31 23:59:59Z"),
            ("2024-02-29T00:00:00Z", "2024-02-28T23:00:00-01:00"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ] {
            let parsed: Time = time.parse().unwrap();
            assert_eq!(parsed, other.parse().unwrap(), "{time}");
        }
        assert_eq!(
            "2026-03-02T12:01:30Z".parse::<Time>().unwrap().to_string(),
            "2026-03-02T12:01:30Z"
        );
        for wrong in [
            "2026-02-30T00:00:00Z",
            "2026-1-30T00:00:000Z",
            "+026-01-30T00:00:00Z",
            "é026-01-30T00:00:0Z",
        ] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_have_two_units() {
        for (seconds, age) in [(5, "5s"), (130, "2m10s"), (1080, "18m"), (273_600, "3d4h")] {
            assert_eq!(Span::seconds(seconds).to_short_text(), age);
        }
    }
}

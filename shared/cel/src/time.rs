//! Timestamps and durations of expressions, within the range CEL gives them: years 1 to 9999.

use chrono::{DateTime, Datelike as _, SecondsFormat, TimeDelta, Timelike as _, Utc};

/// First and last second of the range, as Unix time.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Longest duration in either direction, in nanoseconds: what 64 bits hold (some 292 years).
const MAX_NANOS: i128 = i64::MAX as i128;

/// A part of a timestamp or duration that a `get…` method answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    FullYear,
    Month,
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

impl Part {
    pub(super) const ALL: [(&'static str, Self); 10] = [
        ("getFullYear", Self::FullYear),
        ("getMonth", Self::Month),
        ("getDate", Self::Date),
        ("getDayOfMonth", Self::DayOfMonth),
        ("getDayOfWeek", Self::DayOfWeek),
        ("getDayOfYear", Self::DayOfYear),
        ("getHours", Self::Hours),
        ("getMinutes", Self::Minutes),
        ("getSeconds", Self::Seconds),
        ("getMilliseconds", Self::Milliseconds),
    ];

    /// The part at an offset of `offset` seconds from UTC.
    pub(super) fn of_timestamp(self, at: DateTime<Utc>, offset: i32) -> i64 {
        // A day at most is added to a year of four digits: far inside the type's range.
        let at = at.naive_utc() + TimeDelta::seconds(i64::from(offset));
        i64::from(match self {
            Self::FullYear => return i64::from(at.year()),
            Self::Month => at.month0(),
            Self::Date => at.day(),
            Self::DayOfMonth => at.day0(),
            Self::DayOfWeek => at.weekday().num_days_from_sunday(),
            Self::DayOfYear => at.ordinal0(),
            Self::Hours => at.hour(),
            Self::Minutes => at.minute(),
            Self::Seconds => at.second(),
            Self::Milliseconds => at.nanosecond() / 1_000_000 % 1_000,
        })
    }

    /// The whole length in that unit; only the four units of time have one.
    pub(super) fn of_duration(self, length: TimeDelta) -> Option<i64> {
        match self {
            Self::Hours => Some(length.num_hours()),
            Self::Minutes => Some(length.num_minutes()),
            Self::Seconds => Some(length.num_seconds()),
            Self::Milliseconds => Some(length.num_milliseconds() % 1_000),
            _ => None,
        }
    }
}

pub(super) fn in_range(at: DateTime<Utc>) -> Option<DateTime<Utc>> {
    RANGE.contains(&at.timestamp()).then_some(at)
}

pub(super) fn bounded(length: TimeDelta) -> Option<TimeDelta> {
    length.num_nanoseconds().map(|_| length)
}

pub(super) fn from_unix(seconds: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(seconds, 0).and_then(in_range)
}

pub(super) fn parse_timestamp(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .and_then(|at| in_range(at.with_timezone(&Utc)))
}

pub(super) fn timestamp_text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

pub(super) fn duration_text(length: TimeDelta) -> String {
    let nanos =
        i128::from(length.num_seconds()) * 1_000_000_000 + i128::from(length.subsec_nanos());
    let (sign, nanos) = if nanos < 0 {
        ("-", -nanos)
    } else {
        ("", nanos)
    };
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// Reads `[-](number unit)+` with the units h, m, s, ms, us and ns, as in `-1h30m` or `1.5s`; also `0`.
pub(super) fn parse_duration(text: &str) -> Option<TimeDelta> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut nanos: i128 = 0;
    if rest != "0" {
        loop {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, tail) = rest.split_at(digits);
            let end = tail
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(end);
            nanos = nanos.checked_add(scaled(number, unit_nanos(unit)?)?)?;
            if nanos > MAX_NANOS {
                return None;
            }
            if tail.is_empty() {
                break;
            }
            rest = tail;
        }
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(TimeDelta::nanoseconds(nanos))
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return None,
    })
}

/// `number` times `unit`, with the fraction cut below a nanosecond.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        i128::from(whole.parse::<u64>().ok()?)
    };
    let mut nanos = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        nanos += i128::from(digit.to_digit(10)?) * place;
    }
    Some(nanos)
}

/// Reads `UTC`, `Z` or `[+|-]hh:mm` as seconds east of UTC.
pub(super) fn parse_offset(zone: &str) -> Option<i32> {
    if matches!(zone, "UTC" | "Z" | "") {
        return Some(0);
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |s: &str| {
        (s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit()))
            .then(|| s.parse::<i32>().ok())
            .flatten()
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

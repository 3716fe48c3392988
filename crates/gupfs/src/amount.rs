//! Sizes, times and counts: parsing and printing.

use serde::de::{Deserialize, Deserializer, Error};
use std::str::FromStr;
use std::time::Duration;

/// A size in a configuration file: a string as `parse_size` reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        let text = String::deserialize(from)?;
        parse_size(&text).map(Size).map_err(D::Error::custom)
    }
}

fn from_text<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}

/// How long a call may wait: a time, or `none` for no limit. In a configuration file it is a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline(Option<Duration>);

impl Deadline {
    /// Longer than a server takes to restart.
    pub const DEFAULT: Deadline = Deadline(Some(Duration::from_secs(60)));

    pub fn time(self) -> Option<Duration> {
        self.0
    }
}

impl<'de> Deserialize<'de> for Deadline {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Deadline, D::Error> {
        from_text(from)
    }
}

/// "60s", "1500 ms", "2min", "1h", "none". A number alone counts seconds.
impl FromStr for Deadline {
    type Err = String;

    fn from_str(text: &str) -> Result<Deadline, String> {
        let text = text.trim();
        if text == "none" {
            return Ok(Deadline(None));
        }
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let bad =
            || format!("'{text}' is not a deadline; write a number and s, min, h or d, or none");
        let number: u64 = text[..digits].parse().map_err(|_| bad())?;
        let millis = match text[digits..].trim() {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(bad()),
        };
        match number.checked_mul(millis) {
            Some(0) => Err(format!(
                "'{text}' is not a deadline: calls would not wait at all; write none for no deadline"
            )),
            // At most a year, so that adding it to a time cannot overflow.
            Some(millis) if millis <= 31_536_000_000 => {
                Ok(Deadline(Some(Duration::from_millis(millis))))
            }
            _ => Err(bad()),
        }
    }
}

/// After how long something that is not done by then is done in another way, or never. In a configuration file it is a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimit(Option<Duration>);

impl TimeLimit {
    pub fn time(self) -> Option<Duration> {
        self.0
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TimeLimit, D::Error> {
        from_text(from)
    }
}

/// As a deadline; "0" or "never" for none.
impl FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeLimit, String> {
        match text.trim() {
            "0" | "never" => Ok(TimeLimit(None)),
            // A limit of one is `never` here.
            "none" => Err("write never, or a number and s, min, h or d".into()),
            limit => limit.parse::<Deadline>().map(|time| TimeLimit(time.0)),
        }
    }
}

/// How long to poll for the next message before sleeping, or `none`. In a configuration file it is a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusyPoll(Option<Duration>);

impl BusyPoll {
    /// About as long as a server on the same network takes to reply (docs/performance.md).
    pub const DEFAULT: BusyPoll = BusyPoll(Some(Duration::from_micros(100)));

    /// For a metadata server: between two requests a client does what it can by itself, and uses the object servers.
    pub const OF_METADATA_SERVER: BusyPoll = BusyPoll(Some(Duration::from_millis(1)));

    pub fn time(self) -> Option<Duration> {
        self.0
    }
}

impl<'de> Deserialize<'de> for BusyPoll {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BusyPoll, D::Error> {
        from_text(from)
    }
}

/// "100us", "1 ms", "none".
impl FromStr for BusyPoll {
    type Err = String;

    fn from_str(text: &str) -> Result<BusyPoll, String> {
        let text = text.trim();
        if text == "none" {
            return Ok(BusyPoll(None));
        }
        let bad = || {
            format!("'{text}' is not possible; write a number and us or ms, at most 10ms, or none")
        };
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = text[..digits].parse().map_err(|_| bad())?;
        let micros = match text[digits..].trim() {
            "us" | "µs" => Some(number),
            "ms" => number.checked_mul(1_000),
            _ => None,
        };
        match micros {
            Some(micros @ 1..=10_000) => Ok(BusyPoll(Some(Duration::from_micros(micros)))),
            _ => Err(bad()),
        }
    }
}

const UNITS: [(&str, u32); 7] = [
    ("B", 0),
    ("KiB", 10),
    ("MiB", 20),
    ("GiB", 30),
    ("TiB", 40),
    ("PiB", 50),
    ("EiB", 60),
];

/// A rate on the command line: "200MiB", "200MiB/s".
///
/// # Errors
/// As of `parse_size`.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse_size(text.strip_suffix("/s").unwrap_or(text))
}

/// "4096", "4KiB", "1 MiB", "8G": only binary units, so that 1M means the same as in `ls -h` and `dd`.
///
/// # Errors
/// If the text is not a size, or the size does not fit into 64 bits.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let bad = || format!("'{text}' is not a size; write a number and one of B, KiB, MiB, GiB, TiB");
    let number: u64 = number.parse().map_err(|_| bad())?;
    let shift = UNITS
        .iter()
        .find(|(name, _)| {
            unit.is_empty() && *name == "B"
                || unit.eq_ignore_ascii_case(name)
                || *name != "B" && unit.eq_ignore_ascii_case(&name[..1])
        })
        .map(|(_, shift)| *shift)
        .ok_or_else(bad)?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' does not fit into 64 bits"))
}

/// Three digits and a unit: "1.25 MiB", "950 B".
pub fn show_size(bytes: u64) -> String {
    let step = UNITS
        .iter()
        .rposition(|(_, shift)| bytes >> shift > 0)
        .unwrap_or(0);
    let (unit, shift) = UNITS[step];
    if shift == 0 {
        return format!("{bytes} B");
    }
    let value = bytes as f64 / (1u64 << shift) as f64;
    match value {
        v if v < 9.995 => format!("{v:.2} {unit}"),
        v if v < 99.95 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// One unit with one or two significant digits: "0.4 s", "12 s", "3 min", "5.1 h", "12 days".
pub fn show_time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 0.1 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// 1234567 → "1,234,567".
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_and_without_units() {
        let sizes = ["4096", "4KiB", "1 mib", "8G", "0", "2 TiB"].map(|t| parse_size(t).unwrap());
        assert_eq!(sizes, [4096, 4096, 1 << 20, 8 << 30, 0, 2 << 40]);
        for wrong in ["", "x", "1.5MiB", "1MB", "-1", "99999999999E"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_polling_time_has_a_unit_and_a_limit() {
        let read = |text: &str| text.parse().map(BusyPoll::time);
        let micros = |micros| Ok(Some(Duration::from_micros(micros)));
        assert_eq!(read("100us"), micros(100));
        assert_eq!(read("10 ms"), micros(10_000));
        assert_eq!(read("none"), Ok(None));
        for wrong in [
            "",
            "0us",
            "100",
            "11ms",
            "1s",
            "-1us",
            "99999999999999999ms",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn deadlines_are_parsed_with_and_without_units() {
        let read = |text: &str| text.parse().map(Deadline::time);
        let millis = |millis| Ok(Some(Duration::from_millis(millis)));
        assert_eq!(read("60s"), millis(60_000));
        assert_eq!(read("5"), millis(5_000));
        assert_eq!(read("1500 ms"), millis(1_500));
        assert_eq!(read("2min"), millis(120_000));
        assert_eq!(read("1h"), millis(3_600_000));
        assert_eq!(read("none"), Ok(None));
        for wrong in [
            "",
            "0",
            "0ms",
            "soon",
            "1.5s",
            "-1s",
            "99999999999h",
            "60 S",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_printed_with_three_digits() {
        let shown = [0, 999, 1024, 1_310_720, 104_857_600, u64::MAX].map(show_size);
        assert_eq!(
            shown,
            [
                "0 B", "999 B", "1.00 KiB", "1.25 MiB", "100 MiB", "16.0 EiB"
            ]
        );
    }

    #[test]
    fn times_are_printed_with_one_unit() {
        let shown = [410, 12_000, 86_400_000 * 12].map(|ms| show_time(Duration::from_millis(ms)));
        assert_eq!(shown, ["0.4 s", "12 s", "12 days"]);
    }

    #[test]
    fn counts_are_printed_with_commas() {
        assert_eq!(
            [0, 999, 1000, 1234567].map(show_count),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}

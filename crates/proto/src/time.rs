//! Time stamps of files.

use serde::{Deserialize, Serialize};

/// Seconds and nanoseconds since 1970 (negative seconds before it). `nanos` < 1,000,000,000.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Timestamp {
    pub secs: i64,
    pub nanos: u32,
}

impl Timestamp {
    pub const fn new(secs: i64, nanos: u32) -> Timestamp {
        Timestamp { secs, nanos }
    }

    /// Nanoseconds since 1970; saturates beyond ± 292 years.
    pub fn as_nanos(self) -> i64 {
        self.secs
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::from(self.nanos))
    }

    pub fn from_nanos(nanos: i64) -> Timestamp {
        Timestamp {
            secs: nanos.div_euclid(1_000_000_000),
            nanos: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// "2026-11-24", in UTC.
    pub fn format_date(self) -> String {
        let (year, month, day) = civil_from_days(self.secs.div_euclid(DAY));
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// "2026-11-24 14:05 UTC".
    pub fn format_minute(self) -> String {
        let minutes = self.secs.rem_euclid(DAY) / 60;
        format!(
            "{} {:02}:{:02} UTC",
            self.format_date(),
            minutes / 60,
            minutes % 60
        )
    }
}

/// Seconds.
const DAY: i64 = 86_400;

/// Year, month and day of a day number counted from 1970-01-01, in the proleptic Gregorian calendar. Years begin in March here,
/// so that the leap day is the last day of the year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // since 0000-03-01
    let era = days.div_euclid(146_097); // 400 years each
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_date() {
        for (secs, shown) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_700_000_000, "2023-11-14 22:13 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (-1, "1969-12-31 23:59 UTC"),
        ] {
            assert_eq!(Timestamp::new(secs, 0).format_minute(), shown);
        }
    }
}

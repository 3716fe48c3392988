//! Dates in file names and in results, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// `YYYYMMDD_HHMMSS` of now.
pub fn stamp() -> String {
    show(now())
}

/// `YYYY-MM-DDTHH:MM:SSZ` of now.
pub fn iso() -> String {
    let stamp = stamp();
    let (day, time) = (&stamp[..8], &stamp[9..]);
    let day = [&day[..4], &day[4..6], &day[6..]].join("-");
    let time = [&time[..2], &time[2..4], &time[4..]].join(":");
    format!("{day}T{time}Z")
}

/// `YYYY-MM-DD` of today.
pub fn day() -> String {
    iso()[..10].to_owned()
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// `YYYYMMDD_HHMMSS` of a number of seconds since 1970.
fn show(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
}

/// Year, month and day of a number of days since 1970. Years are counted from March, so that a leap day is a year's last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let era = days / 146_097; // 400 years
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::show;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(show(0), "19700101_000000");
        assert_eq!(show(951_782_399), "20000228_235959");
        assert_eq!(show(951_782_400), "20000229_000000");
        assert_eq!(show(1_709_251_199), "20240229_235959");
        assert_eq!(show(1_735_689_600), "20250101_000000");
    }
}

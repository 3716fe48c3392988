//! Sizes as the report writes them: nnnX.

use std::fmt;
use std::str::FromStr;

/// Bytes in one MB of every report: the source counts 1024 × 1024.
pub const MB: f64 = 1024.0 * 1024.0;

/// Largest size of one call: Linux moves at most 2 GiB in one, and the caller has memory of this size.
pub const CALL_MAX: u64 = 1 << 30;

/// A number of bytes, written as digits and K, M or G for 1024, 1024² or 1024³.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let bad = || {
            format!(
                "'{text}' is not a size; write digits, and K, M or G behind them for 1024, 1024² or 1024³ bytes"
            )
        };
        let number: u64 = text[..digits].parse().map_err(|_| bad())?;
        let unit = match &text[digits..] {
            "" => 1,
            "K" | "k" => 1 << 10,
            "M" | "m" => 1 << 20,
            "G" | "g" => 1 << 30,
            _ => return Err(bad()),
        };
        number
            .checked_mul(unit)
            .map(Size)
            .ok_or_else(|| format!("'{text}' is more bytes than 64 bits can count"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0"),
            bytes if bytes.is_multiple_of(1 << 30) => write!(f, "{}G", bytes >> 30),
            bytes if bytes.is_multiple_of(1 << 20) => write!(f, "{}M", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(f, "{}K", bytes >> 10),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// A size that is not zero: what has to make progress.
pub fn parse_positive(text: &str) -> Result<Size, String> {
    match text.parse()? {
        Size(0) => Err("it must be more than 0 bytes".into()),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_the_source_writes_them() {
        let read = ["64K", "1G", "512M", "77", "0"].map(|text| text.parse::<Size>().unwrap().0);
        assert_eq!(read, [65_536, 1 << 30, 512 << 20, 77, 0]);
        for wrong in ["64Q", "", "K", "-1", "1.5M", "64 K", "64KB", "99999999999G"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
        assert!(parse_positive("0").is_err());
    }

    #[test]
    fn sizes_show_as_they_are_read() {
        for text in ["64K", "1G", "77", "0", "1025M"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }
}

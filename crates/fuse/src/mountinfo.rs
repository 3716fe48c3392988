//! The kernel's mount table, as the mount namespace of this thread shows it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const TABLE: &str = "/proc/thread-self/mountinfo";

/// A device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

/// One mount of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    pub device: DeviceNumber,
    pub path: PathBuf,
    /// `fuse.gupfs`, `ext4`, …
    pub kind: String,
    pub source: String,
}

/// All mounts in mount order: a mount that covers another comes after it.
///
/// # Errors
/// The error of reading /proc: it is not mounted, or this process may not read it.
pub fn mounts() -> std::io::Result<Vec<MountEntry>> {
    Ok(parse_table(&std::fs::read(TABLE)?))
}

pub(crate) fn parse_table(table: &[u8]) -> Vec<MountEntry> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(parse_line).collect()
}

/// The topmost mount at exactly this path.
///
/// # Errors
/// As `mounts`.
pub fn mount_at(path: &Path) -> std::io::Result<Option<MountEntry>> {
    Ok(mounts()?.into_iter().rfind(|mount| mount.path == path))
}

/// `id parent major:minor root path options optional… - kind source options`
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let path = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = String::from_utf8_lossy(&unescape(fields.next()?)).into_owned();
    let device = DeviceNumber {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    };
    Some(MountEntry {
        device,
        path,
        kind,
        source,
    })
}

/// Space, tab, newline and backslash are written as `\` and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        if let (b'\\', Some((digits, after))) = (*first, tail.split_first_chunk::<3>())
            && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        {
            bytes.push(digits.iter().fold(0u8, |value, digit| {
                value.wrapping_mul(8).wrapping_add(digit - b'0')
            }));
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_parsed_with_and_without_optional_fields() {
        let line = br"36 35 0:52 / /mnt/a\040b rw,nosuid shared:7 master:1 - fuse.gupfs my\134disk rw,user_id=0";
        let expected = MountEntry {
            device: DeviceNumber {
                major: 0,
                minor: 52,
            },
            path: "/mnt/a b".into(),
            kind: "fuse.gupfs".into(),
            source: "my\\disk".into(),
        };
        assert_eq!(parse_line(line), Some(expected));
        let entry = parse_line(b"21 1 8:1 / / rw - ext4 /dev/sda1 rw").unwrap();
        assert_eq!(
            (entry.path.as_path(), entry.kind.as_str()),
            (Path::new("/"), "ext4")
        );
        assert_eq!(super::parse_line(b"garbage"), None);
        assert_eq!(super::parse_line(b""), None);
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(mount_at(Path::new("/")).unwrap().is_some());
    }
}

//! Fixtures: the files that a check begins with, and a few comparisons of them, under short names such as `file` and `dir`.

use crate::outcome::{Answer, Outcome, failed, same, skipped};
use crate::sys::*;

/// A new file of mode 0644 with these bytes.
#[track_caller]
pub fn file(name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Outcome {
    file_with_mode(name, bytes, 0o644)
}

/// A new file with these bytes and exactly this mode, setuid bits and all.
#[track_caller]
pub fn file_with_mode(name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>, mode: u32) -> Outcome {
    let (name, bytes) = (name.as_ref(), bytes.as_ref());
    let fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0o600)?;
    write_all(&fd, bytes)?;
    fchmod(&fd, mode)?;
    fd.close()?;
    Ok(())
}

/// A new file that belongs to this user and the group of the same number.
#[track_caller]
pub fn file_of(uid: u32, name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>, mode: u32) -> Outcome {
    let name = name.as_ref();
    file_with_mode(name, bytes, mode)?;
    give(uid, name)?;
    // chown may clear setuid and setgid.
    chmod(name, mode)?;
    Ok(())
}

/// A new directory of mode 0755.
#[track_caller]
pub fn dir(name: impl AsRef<[u8]>) -> Outcome {
    dir_with_mode(name, 0o755)
}

/// A new directory with exactly this mode.
#[track_caller]
pub fn dir_with_mode(name: impl AsRef<[u8]>, mode: u32) -> Outcome {
    let name = name.as_ref();
    mkdir(name, 0o700)?;
    chmod(name, mode)?;
    Ok(())
}

/// A new directory that belongs to this user and the group of the same number.
#[track_caller]
pub fn dir_of(uid: u32, name: impl AsRef<[u8]>, mode: u32) -> Outcome {
    let name = name.as_ref();
    mkdir(name, 0o700)?;
    give(uid, name)?;
    chmod(name, mode)?;
    Ok(())
}

/// chown to a user and their group; skips without root.
#[track_caller]
pub fn give(uid: u32, name: impl AsRef<[u8]>) -> Outcome {
    if geteuid() != 0 && geteuid() != uid {
        return skipped("needs root, to give files away");
    }
    lchown(name, uid, uid)?;
    Ok(())
}

/// Write everything or say what happened.
#[track_caller]
pub fn write_all(fd: &Fd, bytes: &[u8]) -> Outcome {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(fd, rest)? {
            0 => return Err(failed("write takes bytes", "it took none")),
            taken => rest = &rest[taken..],
        }
    }
    Ok(())
}

/// The bytes of a file, however long.
#[track_caller]
pub fn contents(name: impl AsRef<[u8]>) -> Answer<Vec<u8>> {
    let fd = open(name, O_RDONLY, 0)?;
    contents_of(&fd)
}

/// The bytes of an open file from its beginning; the descriptor's offset stays.
pub fn contents_of(fd: &Fd) -> Answer<Vec<u8>> {
    const PIECE: usize = 1 << 20;
    let mut all = Vec::new();
    loop {
        let some = pread(fd, PIECE, all.len() as i64)?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}

/// The file holds exactly these bytes.
#[track_caller]
pub fn holds(name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Outcome {
    let name = name.as_ref();
    let found = contents(name)?;
    same_bytes(&String::from_utf8_lossy(name), &found, bytes.as_ref())
}

/// Long byte strings compared; a failure tells the length and the first byte that differs, not the bytes.
#[track_caller]
pub fn same_bytes(what: &str, found: &[u8], expected: &[u8]) -> Outcome {
    if found == expected {
        return Ok(());
    }
    if found.len() <= 64 && expected.len() <= 64 {
        return same(
            what,
            found.escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
        );
    }
    let first = found
        .iter()
        .zip(expected)
        .position(|(a, b)| a != b)
        .unwrap_or(found.len().min(expected.len()));
    let show = |bytes: &[u8]| match bytes.get(first) {
        Some(byte) => format!("{what}: {} bytes, byte {first} is {byte:#04x}", bytes.len()),
        None => format!("{what}: {} bytes, none at {first}", bytes.len()),
    };
    Err(failed(show(expected), show(found)))
}

/// The size that stat tells.
pub fn size_of_file(name: impl AsRef<[u8]>) -> Answer<i64> {
    stat(name).map(|facts| facts.size)
}

/// All entries of an open directory from where it stands.
pub fn rest_of(directory: &Fd) -> Answer<Vec<Entry>> {
    const ROOM: usize = 32 * 1024;
    let mut all = Vec::new();
    loop {
        let some = getdents(directory, ROOM)?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}

/// All entries of a directory with "." and "..", in its own order.
pub fn entries(name: impl AsRef<[u8]>) -> Answer<Vec<Entry>> {
    rest_of(&open(name, O_RDONLY | O_DIRECTORY, 0)?)
}

/// The names in a directory without "." and "..", sorted.
pub fn names(name: impl AsRef<[u8]>) -> Answer<Vec<String>> {
    let mut names: Vec<String> = entries(name)?
        .into_iter()
        .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort();
    Ok(names)
}

/// The name leads nowhere, not even to a dangling link.
#[track_caller]
pub fn gone(name: impl AsRef<[u8]>) -> Outcome {
    let name = name.as_ref();
    let shown = String::from_utf8_lossy(name).into_owned();
    match lstat(name) {
        Err(refused) if refused.errno == crate::errno::ENOENT => Ok(()),
        Err(refused) => Err(failed(
            format!("{shown} is gone: ENOENT"),
            refused.errno.to_string(),
        )),
        Ok(_) => Err(failed(format!("{shown} is gone: ENOENT"), "it is there")),
    }
}

/// Bytes that no shift or zeroing leaves equal: each 8-byte word holds its own number and a seed.
pub fn pattern(seed: u8, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    let mut word = 0u64;
    while bytes.len() < length {
        bytes.extend((word << 8 | u64::from(seed) | 1 << 63).to_be_bytes());
        word += 1;
    }
    bytes.truncate(length);
    bytes
}

/// A moment long ago, different from [`LATER`], with nanoseconds.
pub const EARLY: Time = Time::new(1_000_000_000, 123_456_789);
/// Another one.
pub const LATER: Time = Time::new(1_100_000_000, 987_654_321);

/// Longer than one tick of every clock that file systems take times from (10 ms at 100 Hz).
pub fn let_the_clock_tick() {
    sleep(std::time::Duration::from_millis(12));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::NotPassed;

    #[test]
    fn a_pattern_differs_in_every_word_and_by_seed() {
        let bytes = pattern(7, 4096);
        let mut words: Vec<&[u8]> = bytes.chunks(8).collect();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), 512);
        assert_ne!(pattern(8, 4096), bytes);
    }

    #[test]
    fn a_long_comparison_tells_the_first_byte_that_differs() {
        let mut other = pattern(1, 1000);
        other[700] ^= 0xff;
        let Err(NotPassed::Failed(failure)) = same_bytes("f", &other, &pattern(1, 1000)) else {
            panic!("must fail")
        };
        assert!(failure.found.contains("byte 700"), "{failure:?}");
    }
}

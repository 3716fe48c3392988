//! Interprets an input as changes of a disk's files: each change has a file, an offset and bytes.

use gupfs_platform::fake::FakeDisk;

/// Applies the changes to the files whose path `which` accepts. A change is: number of the file, offset (u32,
/// little-endian), length, bytes.
pub fn lay(disk: &FakeDisk, input: &[u8], which: impl Fn(&str) -> bool) {
    let mut files = disk.files();
    files.retain(|path| which(path));
    let mut rest = input;
    while let [file, a, b, c, d, length, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        if files.is_empty() {
            return;
        }
        let path = &files[usize::from(*file) % files.len()];
        let size = disk.bytes(path).len() as u64;
        if size > 0 && !bytes.is_empty() {
            let at = u64::from(u32::from_le_bytes([*a, *b, *c, *d])) % size;
            let fits = bytes.len().min((size - at) as usize);
            disk.overwrite(path, at, &bytes[..fits]);
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let change = |file: u8, at: u32, bytes: &[u8]| {
        let mut change = vec![file];
        change.extend(at.to_le_bytes());
        change.push(bytes.len() as u8);
        change.extend(bytes);
        change
    };
    vec![
        Vec::new(),
        change(0, 4096, &[0xff]),
        change(0, 4096 + 48, &[1, 2, 3, 4]),
        [change(0, 40, &[0; 8]), change(1, 4096, &[0; 64])].concat(),
        change(2, 8, &[9]),
    ]
}

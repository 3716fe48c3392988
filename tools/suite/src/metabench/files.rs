//! Names of files, made without allocation: no work of ours between two system calls is timed.

use std::ffi::CStr;

/// `f` and eight digits or more, with the zero that the kernel wants.
pub struct Name {
    bytes: [u8; 24],
    end: usize,
}

impl Name {
    /// The name of a process's file: no two processes share one, also in one directory.
    pub fn new(process: usize, index: u64) -> Name {
        let mut name = Name {
            bytes: [0; 24],
            end: 0,
        };
        name.push(b'f', process as u64, 1);
        name.push(b'.', index, 6);
        name
    }

    fn push(&mut self, before: u8, mut number: u64, digits: usize) {
        // The last byte stays zero. Ranks and counts of files stay far below what has no room here.
        let mut text = [b'0'; 20];
        let mut start = text.len();
        while number > 0 || text.len() - start < digits {
            start -= 1;
            text[start] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        let text = &text[start..];
        self.bytes[self.end] = before;
        self.bytes[self.end + 1..][..text.len()].copy_from_slice(text);
        self.end += 1 + text.len();
    }

    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).expect("the last byte stays zero")
    }
}

#[test]
fn names_are_short_and_differ_by_process_and_number() {
    let name = |process, index| Name::new(process, index).as_c_str().to_owned();
    assert_eq!(name(0, 0), *c"f0.000000");
    assert_eq!(name(12, 1_234_567), *c"f12.1234567");
    assert_eq!(name(1023, 999_999_999_999), *c"f1023.999999999999");
}

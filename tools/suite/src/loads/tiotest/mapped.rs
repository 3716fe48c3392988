//! A file mapped into memory.
//!
//! Unsafe: the mapping is this value's alone and unmapped with it; its memory is only reached by copying to and from, never lent out,
//! since another process may change the file at any time. If another process truncates the file meanwhile, the kernel ends this
//! process with SIGBUS, and with it the run.

use std::ffi::c_void;
use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

pub struct Mapped {
    start: *mut c_void,
    length: usize,
}

impl Mapped {
    /// The first bytes of a file, so many of which there are.
    pub fn new(file: &File, length: usize, writes: bool) -> io::Result<Mapped> {
        let protection = match writes {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        // SAFETY: the kernel chooses a place that nothing else has.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Mapped { start, length })
    }

    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "within the mapping"
        );
        self.start.cast::<u8>().wrapping_add(offset)
    }

    pub fn write(&mut self, bytes: &[u8], offset: usize) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `at` has checked the bounds, and `bytes` is memory of ours that does not overlap the mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    pub fn read(&self, bytes: &mut [u8], offset: usize) {
        let from = self.at(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) }
    }

    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: the whole mapping, which lives.
        Ok(unsafe { msync(self.start, self.length, MsyncFlags::SYNC) }?)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which no code uses any more. It cannot fail for what mmap returned.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

#[test]
fn what_is_written_into_the_memory_is_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, [0; 10_000]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut mapped = Mapped::new(&file, 10_000, true).unwrap();
    mapped.write(b"here", 9_996);
    mapped.sync().unwrap();
    drop(mapped);
    assert_eq!(std::fs::read(&path).unwrap()[9_996..], *b"here");
    let mut found = [0; 5];
    Mapped::new(&file, 10_000, false)
        .unwrap()
        .read(&mut found, 9_995);
    assert_eq!(&found, b"\0here");
}

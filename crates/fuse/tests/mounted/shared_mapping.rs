//! Shared mappings; the only unsafe code of these tests.

use std::fs::File;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

pub struct SharedMapping {
    address: *mut std::ffi::c_void,
    length: usize,
}

impl SharedMapping {
    pub fn shared(file: &File, length: usize) -> SharedMapping {
        // SAFETY: the kernel chooses a free address; no other code knows it, and it is unmapped in `drop`.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        SharedMapping {
            address: address.unwrap(),
            length,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped and readable for `length` bytes while `self` lives; the tests change the file only while no
        // slice of it is alive.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.length) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and writable.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.length) }
    }

    pub fn sync(&self) {
        // SAFETY: the range is mapped.
        unsafe { msync(self.address, self.length, MsyncFlags::SYNC) }.unwrap();
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `shared`, and no slice outlives `self`.
        unsafe { munmap(self.address, self.length) }.unwrap();
    }
}

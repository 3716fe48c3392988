//! Shared mappings: the only unsafe code of this crate.

use std::fs::File;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

pub(crate) struct SharedMapping {
    address: *mut std::ffi::c_void,
    length: usize,
}

impl SharedMapping {
    pub fn shared(file: &File, length: usize) -> rustix::io::Result<SharedMapping> {
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
        Ok(SharedMapping {
            address: address?,
            length,
        })
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped, readable and writable for `length` bytes while `self` lives, and borrowed mutably by one user at a
        // time.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.length) }
    }
}

// SAFETY: the address is used through `&mut self` only, on whichever thread.
unsafe impl Send for SharedMapping {}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `shared`, and no slice outlives `self`.
        let unmapped = unsafe { munmap(self.address, self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

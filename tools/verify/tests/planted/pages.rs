//! The pages that the kernels of both mounts keep of a file, and how they lose them before it changes.
//!
//! Linux fills its page cache for sendfile, splice and copy_file_range, also where a file is open for direct I/O. Such a READ has no
//! lock owner; a direct one has. A change waits until both kernels have dropped their pages and filled none meanwhile; so no page
//! shows what was before it.

use std::sync::{MutexGuard, OnceLock};

use fuser::{INodeNo, Notifier};

use crate::faults::Fault;
use crate::served::Served;
use crate::state::State;

/// The way to each mount's kernel, once it is mounted.
pub type Kernels = [OnceLock<Notifier>; 2];

impl Served {
    /// A kernel fills a page of this file.
    pub(crate) fn page_is_read(&self, inode: u64) {
        let mut state = self.state();
        state.page_reads += 1;
        let read = state.page_reads;
        state.pages.insert(inode, read);
    }

    /// The state, when a file may change: no kernel has a page of it. The lock is not held meanwhile: a kernel drops a page that is being
    /// filled when READ is answered.
    pub(crate) fn state_without_pages(&self, inode: u64) -> MutexGuard<'_, State> {
        let mut dropped = None;
        let mut keeps = false;
        loop {
            let mut state = self.state();
            let read = state.pages.get(&inode).copied();
            if read.is_none() {
                return state;
            }
            if read == dropped {
                // What the fault keeps is dropped at the next change.
                if !keeps {
                    state.pages.remove(&inode);
                }
                return state;
            }
            drop(state);
            dropped = read;
            keeps = self.switch.strikes(Fault::PagesKept, 20);
            for (mount, kernel) in self.kernels.iter().enumerate() {
                if let Some(kernel) = kernel.get()
                    && (mount == self.mount || !keeps)
                {
                    let told = kernel.inval_inode(INodeNo(inode), 0, 0);
                    told.expect("the kernel takes an invalidation");
                }
            }
        }
    }
}

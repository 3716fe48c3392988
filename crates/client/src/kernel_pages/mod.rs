//! # kernel_pages: which files' pages the kernel may have
//!
//! Owns   the ledger of files of which bytes went to the kernel's page cache; having these dropped.
//! Never  decides whether pages are current: `file::read_pages` checks the lease.
//! Enter  at `KernelPages::start_read` before a READ for the page cache is answered, at `KernelPages::close` before its lease ends.
//!
//! The kernel locks a page while a READ fills it, and dropping pages waits for that lock. So a READ must not wait for anything that
//! waits for the pages to be dropped. While a file is closed, new READs wait, and those that are being answered wait for no lease. While the
//! kernel drops all pages, each READ is answered at once. Then READs wait again, and the kernel drops only what was answered meanwhile; if
//! it does not get on, a READ that waits has locked one of these pages, and they are answered again.

mod ledger;

pub use ledger::PageRange;

use crate::kernel_attributes::{Invalidated, KernelInodes};
use crate::limits::{KERNEL_PAGES_MAX, PAGES_DROP_MAX, PAGES_HELD_MAX};
use gupfs_platform::hash::Map;
use gupfs_platform::{BootTime, Clock, Tasks};
use gupfs_proto::InodeId;
use ledger::{ALL_PAGES, FilePages, Gate, NextPass};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, OwnedMutexGuard};

/// Files that are closed at the same time: each may block a thread of the pool.
const CLOSED_AT_ONCE: usize = 32;

/// Pause before the kernel is told again to drop pages, after it has failed to.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

pub struct KernelPages {
    /// None before the file system is mounted, and for clients without a kernel.
    kernel: OnceLock<Arc<dyn KernelInodes>>,
    files: Mutex<Map<InodeId, Arc<TrackedFile>>>,
    clock: Clock,
    tasks: Tasks,
}

struct TrackedFile {
    pages: Mutex<FilePages>,
    /// Notified when its gate changes, and when a READ ends while it has one.
    changed: Notify,
    /// Held by the task that closes the file.
    closing: Arc<tokio::sync::Mutex<()>>,
}

impl KernelPages {
    pub fn new(clock: Clock, tasks: Tasks) -> Arc<KernelPages> {
        Arc::new(KernelPages {
            kernel: OnceLock::new(),
            files: Mutex::default(),
            clock,
            tasks,
        })
    }

    /// From here on READs for the page cache are counted.
    pub fn set_kernel(&self, kernel: Arc<dyn KernelInodes>) {
        // A client is mounted once.
        let _ = self.kernel.set(kernel);
    }

    /// Whether the kernel's pages follow leases.
    pub fn is_tracked(&self) -> bool {
        self.kernel.get().is_some()
    }

    /// Number of files of which the kernel may have pages.
    pub fn files(&self) -> usize {
        self.files.lock().len()
    }

    /// Whether the kernel has pages of the file, or is about to get some.
    pub fn may_have_pages(&self, ino: InodeId) -> bool {
        let file = self.files.lock().get(&ino).cloned();
        file.is_some_and(|file| file.pages.lock().may_have_pages())
    }

    /// The kernel has forgotten the file, and so has no pages of it.
    pub fn forget(&self, ino: InodeId) {
        let mut files = self.files.lock();
        let Some(file) = files.get(&ino) else { return };
        let is_idle = {
            let mut pages = file.pages.lock();
            pages.forget();
            pages.is_idle()
        };
        // Otherwise a task has got the entry, and will remove it.
        if is_idle && Arc::strong_count(file) == 1 {
            files.remove(&ino);
        }
    }

    /// A READ for the page cache is about to be answered. Waits while the file is closed; meanwhile the caller must hold nothing.
    pub async fn start_read(self: &Arc<Self>, ino: InodeId, range: PageRange) -> PageRead {
        loop {
            let file = self.tracked(ino);
            let mut changed = pin!(file.changed.notified());
            changed.as_mut().enable();
            if file.pages.lock().start_read() {
                return self.page_read(ino, range, &file);
            }
            changed.await;
        }
    }

    /// The same without waiting, for a READ whose lease was just acquired: also if the file is closed since the lease is about to end. The
    /// caller holds a lock that a task needs to end the lease.
    pub fn start_granted_read(self: &Arc<Self>, ino: InodeId, range: PageRange) -> PageRead {
        let file = self.tracked(ino);
        file.pages.lock().start_granted_read();
        self.page_read(ino, range, &file)
    }

    fn page_read(
        self: &Arc<Self>,
        ino: InodeId,
        range: PageRange,
        file: &Arc<TrackedFile>,
    ) -> PageRead {
        PageRead {
            pages: self.clone(),
            ino,
            range: Some(range),
            file: file.clone(),
        }
    }

    /// Returns while the file is closed, once its READs must be answered.
    pub async fn wait_for_closing(self: &Arc<Self>, ino: InodeId) {
        let file = self.tracked(ino);
        file.wait_for(|gate| gate == Some(Gate::Answering)).await;
    }

    /// Has the kernel drop the file's pages. Until the guard is dropped, no READ for the page cache is answered.
    ///
    /// `kept`: the time for which the kernel may keep pages that it has got, so that programs can use them once. None if there is no kernel.
    pub async fn close(self: &Arc<Self>, ino: InodeId, kept: Duration) -> Option<ClosedPages> {
        let kernel = self.kernel.get()?.clone();
        let file = self.tracked(ino);
        let alone = file.closing.clone().lock_owned().await;
        let closed = ClosedPages {
            pages: self.clone(),
            ino,
            file,
            kept,
            _alone: alone,
        };
        let now = self.clock.boot();
        if closed.file.pages.lock().start_closing(now) {
            tracing::trace!(target: "walk", file = file!(), "close");
            closed.notify();
            self.wait_for_reads(&closed).await;
            self.wait_for_use(&closed).await;
            closed.file.pages.lock().answer_held();
            closed.notify();
            self.drop_range(&*kernel, ino, ALL_PAGES, None).await;
            self.drop_answered(&*kernel, &closed).await;
        }
        Some(closed)
    }

    /// The READs that are being answered wait for nothing any more (`PageRead::wait_for_closing`).
    async fn wait_for_reads(&self, closed: &ClosedPages) {
        let file = &closed.file;
        loop {
            let mut changed = pin!(file.changed.notified());
            changed.as_mut().enable();
            if !file.pages.lock().has_reads() {
                return;
            }
            changed.await;
        }
    }

    async fn wait_for_use(&self, closed: &ClosedPages) {
        let given = closed.file.pages.lock().given_since();
        if let Some(given) = given.filter(|_| closed.kept > Duration::ZERO) {
            self.clock.sleep_until(given + closed.kept).await;
        }
    }

    /// Has the kernel drop what was answered while the file was closed.
    async fn drop_answered(&self, kernel: &dyn KernelInodes, closed: &ClosedPages) {
        let (ino, file) = (closed.ino, &closed.file);
        loop {
            let mut changed = pin!(file.changed.notified());
            changed.as_mut().enable();
            let next = file.pages.lock().end_pass();
            match next {
                NextPass::Drop(ranges) => {
                    self.wait_for_use(closed).await;
                    for range in ranges {
                        self.drop_range(kernel, ino, range, Some(file)).await;
                    }
                }
                NextPass::WaitForReads => changed.await,
                NextPass::Closed => return,
            }
        }
    }

    /// One pass. `held`: the file whose READs wait; if the kernel does not get on, they are answered.
    async fn drop_range(
        &self,
        kernel: &dyn KernelInodes,
        ino: InodeId,
        range: PageRange,
        held: Option<&TrackedFile>,
    ) {
        let give_up = self.clock.boot() + PAGES_DROP_MAX;
        loop {
            let mut dropped = kernel.drop_pages(ino, range.clone());
            let dropped = match held {
                None => dropped.await,
                Some(file) => {
                    tokio::select! {
                        biased;
                        dropped = &mut dropped => dropped,
                        () = self.clock.sleep(PAGES_HELD_MAX) => {
                            file.pages.lock().answer_held();
                            file.changed.notify_waiters();
                            dropped.await
                        }
                    }
                }
            };
            match dropped {
                // A kernel that does not know the inode has no pages of it.
                Invalidated::Done | Invalidated::Unmounted | Invalidated::Unknown => return,
                Invalidated::Failed(error) if self.clock.boot() >= give_up => {
                    tracing::error!(inode = %ino, %error, "could not drop a file's pages in the kernel; mappings of it may show old bytes");
                    return;
                }
                Invalidated::Failed(error) => {
                    tracing::warn!(inode = %ino, %error, "could not drop a file's pages in the kernel; a change waits for it");
                    self.clock.sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Has the kernel drop the pages of these files, all at once.
    pub async fn drop_pages(self: &Arc<Self>, inodes: &[InodeId]) {
        if self.is_tracked() {
            let with_pages = inodes.iter().filter(|ino| self.may_have_pages(**ino));
            let with_pages: Vec<InodeId> = with_pages.copied().collect();
            let at_once = with_pages.len().min(CLOSED_AT_ONCE);
            let left = Mutex::new(with_pages.into_iter());
            let close_some = || async {
                loop {
                    let next = left.lock().next();
                    let Some(ino) = next else { return };
                    drop(self.close(ino, Duration::ZERO).await);
                }
            };
            let closing = (0..at_once).map(|_| close_some());
            crate::join::all(closing.collect()).await;
        }
    }

    /// The same for all files, at most for this time: a READ that waits for the metadata server may delay it. `is_writable`: the kernel may have to
    /// write pages of the file first, which may take long if the session's term is over. The others do not wait for these.
    pub async fn drop_all(
        self: &Arc<Self>,
        at_most: Duration,
        is_writable: impl Fn(InodeId) -> bool,
    ) {
        let mut all: Vec<InodeId> = self.files.lock().keys().copied().collect();
        if all.is_empty() {
            return;
        }
        all.sort_unstable();
        let (writable, others): (Vec<InodeId>, Vec<InodeId>) =
            all.into_iter().partition(|ino| is_writable(*ino));
        let dropped = [others, writable].map(|files| {
            let this = self.clone();
            (self.tasks).spawn("drop all pages in the kernel", async move {
                this.drop_pages(&files).await;
            })
        });
        let dropped = async {
            for task in dropped {
                // It ends early only with the process.
                let _ = task.await;
            }
        };
        tokio::select! {
            biased;
            () = dropped => {}
            () = self.clock.sleep(at_most) => {
                tracing::warn!("the kernel has not dropped all pages yet: a mapping may show old bytes for a moment");
            }
        }
    }

    /// The entry of the file. Above the bound another file's pages are dropped in the background.
    fn tracked(self: &Arc<Self>, ino: InodeId) -> Arc<TrackedFile> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(&ino) {
            return file.clone();
        }
        if files.len() >= KERNEL_PAGES_MAX
            && let Some(other) = files.keys().next().copied()
        {
            let this = self.clone();
            self.tasks
                .spawn("drop pages of one file of many", async move {
                    drop(this.close(other, Duration::ZERO).await);
                });
        }
        let file = files.entry(ino).or_insert_with(|| {
            Arc::new(TrackedFile {
                pages: Mutex::default(),
                changed: Notify::new(),
                closing: Arc::default(),
            })
        });
        file.clone()
    }

    fn forget_if_idle(&self, ino: InodeId, file: &Arc<TrackedFile>) {
        let mut files = self.files.lock();
        // The map and the caller have the entry. Another task that has got it will use it.
        if Arc::strong_count(file) == 2 && file.pages.lock().is_idle() {
            files.remove(&ino);
        }
    }
}

impl TrackedFile {
    async fn wait_for(&self, is_reached: impl Fn(Option<Gate>) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if is_reached(self.pages.lock().gate()) {
                return;
            }
            changed.await;
        }
    }
}

/// A READ for the page cache that is being answered. Dropped before `finish`, it is not.
pub struct PageRead {
    pages: Arc<KernelPages>,
    ino: InodeId,
    /// None once it has ended.
    range: Option<PageRange>,
    file: Arc<TrackedFile>,
}

impl PageRead {
    /// Whether the file is being closed: then the READ must be answered at once.
    pub fn is_closing(&self) -> bool {
        self.file.pages.lock().gate().is_some()
    }

    /// Since when it is being closed.
    pub fn closing_since(&self) -> BootTime {
        self.file.pages.lock().closed_at()
    }

    /// Returns when the file is being closed.
    pub async fn wait_for_closing(&self) {
        self.file.wait_for(|gate| gate.is_some()).await;
    }

    /// Its reply is about to be sent.
    pub fn finish(mut self) {
        if let Some(range) = self.range.take() {
            let now = self.pages.clock.boot();
            self.file.pages.lock().finish_read(range, now);
            self.notify();
        }
    }

    fn notify(&self) {
        if self.is_closing() {
            self.file.changed.notify_waiters();
        }
    }
}

impl Drop for PageRead {
    fn drop(&mut self) {
        if self.range.take().is_some() {
            self.file.pages.lock().withdraw_read();
            self.notify();
            self.pages.forget_if_idle(self.ino, &self.file);
        }
    }
}

/// The kernel has no pages of the file, and gets none.
pub struct ClosedPages {
    pages: Arc<KernelPages>,
    ino: InodeId,
    file: Arc<TrackedFile>,
    kept: Duration,
    _alone: OwnedMutexGuard<()>,
}

impl ClosedPages {
    fn notify(&self) {
        self.file.changed.notify_waiters();
    }

    /// Whether a READ was answered all the same, or is about to be (`KernelPages::start_granted_read`).
    pub fn may_have_pages(&self) -> bool {
        self.file.pages.lock().may_have_pages()
    }

    /// Has the kernel drop these pages, too.
    pub async fn drop_again(&self) {
        if let Some(kernel) = self.pages.kernel.get() {
            self.pages.drop_answered(&**kernel, self).await;
        }
    }
}

impl Drop for ClosedPages {
    fn drop(&mut self) {
        self.file.pages.lock().open_gate();
        self.notify();
        self.pages.forget_if_idle(self.ino, &self.file);
    }
}

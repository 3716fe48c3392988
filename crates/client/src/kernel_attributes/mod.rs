//! # kernel_attributes: what the kernel caches of inodes' attributes
//!
//! Owns   the ledger of attributes that went to the kernel with a lifetime; invalidating them.
//! Never  decides whether attributes are current: the lease cache does.
//! Enter  at `KernelAttributes::give` before a reply, at `invalidate` before a change or the answer to a revocation.
//!
//! A reply with a lifetime that is under way while the kernel invalidates the inode is cached by no kernel that knows the inode
//! (crate `contract`, rule `Invalidations`). A kernel that does not know it yet says so; then the invalidation is repeated until the
//! kernel has taken the reply.

mod ledger;

use crate::lease_cache::AffectedInodes;
use crate::lookup_counts::LookupCounts;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::InodeId;
use ledger::{AttributeLedger, GivenAttributes};
use parking_lot::Mutex;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The shortest and the longest wait before the client repeats an invalidation; it doubles each time. The kernel takes a reply within
/// microseconds.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Inodes that are invalidated under the ledger's lock at a time: a write(2) each.
const BATCH: usize = 64;

/// The kernel above this client, or a model of one.
pub trait KernelInodes: Send + Sync {
    /// Invalidates the attributes of an inode. Waits for nothing.
    fn invalidate_attributes(&self, ino: InodeId) -> Invalidated;

    /// Drops the pages of a file in this range of bytes, and its attributes. Writes dirty pages before that, and waits for READs that fill
    /// some. It goes on when the future is dropped.
    fn drop_pages(
        &self,
        ino: InodeId,
        range: Range<u64>,
    ) -> Pin<Box<dyn Future<Output = Invalidated> + Send>>;
}

/// What became of an invalidation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invalidated {
    Done,
    /// The kernel does not know the inode, or not yet.
    Unknown,
    /// The file system is not mounted any more.
    Unmounted,
    Failed(String),
}

pub struct KernelAttributes {
    /// None before the file system is mounted, and for clients without a kernel.
    kernel: OnceLock<Arc<dyn KernelInodes>>,
    ledger: Mutex<AttributeLedger>,
    lookup_counts: Arc<Mutex<LookupCounts>>,
    clock: Clock,
}

impl KernelAttributes {
    pub fn new(lookup_counts: Arc<Mutex<LookupCounts>>, clock: Clock) -> KernelAttributes {
        KernelAttributes {
            kernel: OnceLock::new(),
            ledger: Mutex::default(),
            lookup_counts,
            clock,
        }
    }

    /// From here on replies may have lifetimes.
    pub fn set_kernel(&self, kernel: Arc<dyn KernelInodes>) {
        // A client is mounted once.
        let _ = self.kernel.set(kernel);
    }

    /// A reply is about to contain attributes of this inode with a lifetime that ends at `until`. False: it must have none. To be called
    /// before the caller checks that the attributes are current: then either the check fails, or the invalidation before their next
    /// change finds them here.
    pub fn give(&self, ino: InodeId, until: BootTime, now: BootTime) -> bool {
        self.kernel.get().is_some() && self.ledger.lock().give(ino, until, now)
    }

    /// Number of inodes whose attributes the kernel may have.
    pub fn given(&self) -> usize {
        self.ledger.lock().len()
    }

    /// When this returns, the kernel uses none of the attributes of these inodes that it has got so far.
    pub async fn invalidate(&self, inodes: &[InodeId]) {
        let Some(kernel) = self.kernel.get() else {
            return;
        };
        let mut waiting = Vec::new();
        for (number, some) in inodes.chunks(BATCH).enumerate() {
            if number > 0 {
                // Replies need the ledger, too.
                tokio::task::yield_now().await;
            }
            let mut ledger = self.ledger.lock();
            for ino in some {
                let Some(given) = ledger.given(*ino) else {
                    continue;
                };
                match self.try_invalidate(&**kernel, &mut ledger, *ino, given) {
                    Invalidated::Done | Invalidated::Unmounted => {}
                    Invalidated::Unknown => waiting.push((*ino, given)),
                    Invalidated::Failed(error) => {
                        tracing::warn!(inode = %ino, %error, "could not invalidate an inode's attributes in the kernel; a change waits until their lifetime is over");
                        waiting.push((*ino, given));
                    }
                }
            }
        }
        self.wait(&**kernel, waiting).await;
    }

    pub async fn invalidate_affected(&self, inodes: AffectedInodes) {
        match inodes {
            AffectedInodes::These(inodes) => self.invalidate(&inodes).await,
            AffectedInodes::All => self.invalidate_all().await,
        }
    }

    /// The same for all inodes.
    pub async fn invalidate_all(&self) {
        let all = self.ledger.lock().all_given();
        self.invalidate(&all).await;
    }

    /// `Done` and `Unmounted`: the kernel has none of these attributes any more. `Unknown`: it may be about to take a reply that contains
    /// them.
    fn try_invalidate(
        &self,
        kernel: &dyn KernelInodes,
        ledger: &mut AttributeLedger,
        ino: InodeId,
        given: GivenAttributes,
    ) -> Invalidated {
        let mut invalidated = kernel.invalidate_attributes(ino);
        if invalidated == Invalidated::Unknown && !self.lookup_counts.lock().has_lookups(ino) {
            invalidated = Invalidated::Done;
        }
        if let Invalidated::Done | Invalidated::Unmounted = invalidated {
            ledger.remove(ino, given);
        }
        invalidated
    }

    async fn wait(&self, kernel: &dyn KernelInodes, mut waiting: Vec<(InodeId, GivenAttributes)>) {
        let mut pause = PAUSES[0];
        while !waiting.is_empty() {
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES[1]);
            let now = self.clock.boot();
            let mut ledger = self.ledger.lock();
            waiting.retain(|(ino, given)| {
                if given.has_expired(now) {
                    return false;
                }
                let invalidated = self.try_invalidate(kernel, &mut ledger, *ino, *given);
                !matches!(invalidated, Invalidated::Done | Invalidated::Unmounted)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::Platform;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const INO: InodeId = InodeId(7);

    /// A kernel that answers like this, one after the other, and then that it is done.
    #[derive(Clone, Default)]
    struct Answers {
        answers: Arc<Mutex<Vec<Invalidated>>>,
        asked: Arc<AtomicUsize>,
    }

    impl KernelInodes for Answers {
        fn invalidate_attributes(&self, ino: InodeId) -> Invalidated {
            assert_eq!(ino, INO);
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.answers.lock().pop().unwrap_or(Invalidated::Done)
        }

        fn drop_pages(
            &self,
            _: InodeId,
            _: Range<u64>,
        ) -> Pin<Box<dyn Future<Output = Invalidated> + Send>> {
            unreachable!("attributes alone are invalidated")
        }
    }

    /// Gives attributes for 20 s, with or without a counted lookup, and invalidates them; how often the kernel was told, and how
    /// long it took.
    async fn invalidate(answers: Vec<Invalidated>, has_lookups: bool) -> (usize, Duration) {
        let clock = Platform::real().clock;
        let counts: Arc<Mutex<LookupCounts>> = Arc::default();
        if has_lookups {
            counts.lock().add_lookup(INO);
        }
        let attributes = KernelAttributes::new(counts, clock.clone());
        let kernel = Answers::default();
        *kernel.answers.lock() = answers;
        let now = clock.boot();
        let until = now + Duration::from_millis(200);
        assert!(
            !attributes.give(INO, until, now),
            "before a kernel is known"
        );
        attributes.set_kernel(Arc::new(kernel.clone()));
        assert!(attributes.give(INO, until, now));
        attributes.invalidate(&[INO, InodeId(8)]).await;
        let took = clock.boot().since(now);
        let asked = kernel.asked.load(Ordering::SeqCst);
        if kernel.answers.lock().is_empty() || !has_lookups {
            assert_eq!(attributes.given(), 0);
        }
        (asked, took)
    }

    #[tokio::test]
    async fn an_invalidation_is_repeated_until_the_kernel_has_taken_the_reply() {
        let not_yet = vec![Invalidated::Unknown; 3];
        assert_eq!(invalidate(not_yet.clone(), true).await.0, 4);
        // It has forgotten the inode.
        assert_eq!(invalidate(not_yet, false).await.0, 1);
        assert_eq!(invalidate(Vec::new(), true).await.0, 1);
        assert_eq!(invalidate(vec![Invalidated::Unmounted], true).await.0, 1);
    }

    #[tokio::test]
    async fn a_change_waits_for_the_end_of_the_lifetime_if_the_kernel_cannot_be_told() {
        let failing = vec![Invalidated::Failed("no".into()); 10_000];
        let (asked, took) = invalidate(failing, true).await;
        assert!(asked > 10 && took >= Duration::from_secs(1), "{took:?}");
    }
}

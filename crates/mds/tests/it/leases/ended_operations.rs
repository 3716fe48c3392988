//! However a change ends, what it has closed to grants is open again.

use super::session::*;
use crate::fixture::{ServerInstance, Simulated, simulate};
use gupfs_proto::attr::FileMode;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// A file `f` of which one session holds name and attributes, and answers no revocation.
struct Held {
    instance: ServerInstance,
    holder: Arc<LeaseSession>,
    changer: Arc<LeaseSession>,
    watcher: Arc<LeaseSession>,
    file: InodeId,
}

impl Held {
    async fn new(seed: u64) -> Held {
        let fixture = Simulated::new(seed);
        let instance = start(&fixture).await;
        let holder = LeaseSession::open(&instance.mds).await;
        let changer = LeaseSession::open(&instance.mds).await;
        let watcher = LeaseSession::open(&instance.mds).await;
        let file = holder.client.create(0, InodeId::ROOT, "f").await.unwrap();
        holder.look_up(InodeId::ROOT, "f").await;
        holder.connection.hold_answers();
        quiet().await;
        Held {
            instance,
            holder,
            changer,
            watcher,
            file,
        }
    }

    async fn assert_open(&self) {
        let status = lease_status(&self.instance.mds).await;
        assert_eq!((status.closed_keys, status.waiting_for), (0, 0));
        // Two sessions have changed it by turns.
        quiet().await;
        let found = self.watcher.look_up(InodeId::ROOT, "f").await;
        let expected = if found.outcome.is_ok() { 2 } else { 1 };
        assert_eq!(found.grants.len(), expected, "{found:?}");
    }
}

#[test]
fn a_change_that_fails_after_its_wait_opens_what_it_has_closed() {
    simulate(async {
        let all = Held::new(1).await;
        let changing = all.changer.begin(unlink(InodeId::ROOT, "f"));
        all.holder.connection.wait_for_revocations(1).await;
        assert!(lease_status(&all.instance.mds).await.closed_keys >= 2);
        // Meanwhile the holder removes the name itself.
        let removal = all.holder.send(unlink(InodeId::ROOT, "f")).await;
        assert!(removal.outcome.is_ok(), "{removal:?}");
        all.holder.connection.answer();
        let refused = changing.await.unwrap();
        assert_eq!(refused.outcome, Err(FsError::NotFound));
        all.assert_open().await;
    });
}

#[test]
fn a_change_whose_client_disconnects_opens_what_it_has_closed() {
    simulate(async {
        let all = Held::new(2).await;
        let changing = all.changer.begin(chmod(all.file, 0o600));
        all.holder.connection.wait_for_revocations(1).await;
        assert_eq!(lease_status(&all.instance.mds).await.closed_keys, 1);
        changing.abort();
        assert!(changing.await.unwrap_err().is_cancelled());
        all.assert_open().await;
        // The holder is asked again by the next change, and nothing was changed before.
        let next = all.changer.begin(chmod(all.file, 0o640));
        all.holder.connection.wait_for_revocations(2).await;
        assert_eq!(
            all.watcher.attr(all.file).await.attr().mode,
            FileMode::from_bits(0o644)
        );
        all.holder.connection.answer();
        assert!(next.await.unwrap().outcome.is_ok());
    });
}

/// Two changes close the same key: the end of the first does not open it.
#[test]
fn what_two_changes_have_closed_opens_with_the_second() {
    simulate(async {
        let all = Held::new(3).await;
        let first = all.changer.begin(chmod(all.file, 0o600));
        all.holder.connection.wait_for_revocations(1).await;
        let second = all.watcher.begin(chmod(all.file, 0o640));
        all.holder.connection.wait_for_revocations(2).await;
        first.abort();
        assert!(first.await.is_err());
        assert_eq!(all.changer.attr(all.file).await.grants, []);
        all.holder.connection.answer();
        assert!(second.await.unwrap().outcome.is_ok());
        all.assert_open().await;
    });
}

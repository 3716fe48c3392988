//! An owner whose own disk fails.

use super::cluster::Cluster;
use super::seeds::simulate;
use bytes::Bytes;
use gupfs_proto::Seq;
use std::time::Duration;

#[test]
fn an_owner_whose_log_fails_answers_nothing_any_more_and_a_copy_goes_on() {
    simulate(async {
        let cluster = Cluster::started(12).await;
        let owners = || {
            cluster
                .hosts
                .iter()
                .find_map(|host| Some((host, host.owned()?)))
        };
        let (host, (process, owned)) = owners().expect("there is an owner");
        let batch = vec![(
            Bytes::from_static(b"key"),
            Some(Bytes::from_static(b"value")),
        )];
        let seq = owned.kv.stage(0, batch).unwrap();
        assert!(process.send_deadline.may_send());
        host.fail_next_sync();
        let synced = owned.kv.wait_durable(seq).await;
        assert!(synced.is_err(), "{synced:?}");
        // Before a task learns of the failure.
        assert!(!process.send_deadline.may_send());
        let failed = owned.epoch;
        drop(owned);
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if let Some((_, (_, next))) = owners()
                && next.epoch > failed
            {
                // Every copy that counts had the batch.
                let value = next.kv.get(b"key").unwrap();
                assert_eq!(value.as_deref(), Some(&b"value"[..]));
                assert!(next.kv.last_seq() >= Seq(seq.0));
                return;
            }
        }
    });
}

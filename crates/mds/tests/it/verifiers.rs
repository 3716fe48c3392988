//! The metadata server records retired write verifiers, since the target's own disk may fail to record them.

use crate::fixture::{Simulated, simulate};
use gupfs_mds::Mds;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, ClusterRequest, TargetVerifier};
use gupfs_proto::{Incarnation, OstId, WriteVerifier};
use gupfs_rpc::Service;
use std::sync::Arc;

async fn report_verifier(
    mds: &Arc<Mds>,
    incarnation: u64,
    number: u64,
    over: bool,
) -> Option<WriteVerifier> {
    let target = TargetVerifier {
        ost: OstId(0),
        incarnation: Incarnation(incarnation),
        verifier: WriteVerifier(number),
        retired: over,
    };
    let request = ClusterRequest::Verifiers {
        targets: vec![target],
    };
    let reply: ClusterReply = mds.clone().handle(request).await;
    let Ok(ClusterReplyBody::Verifiers { retired: over }) = reply else {
        panic!("{reply:?}");
    };
    over.first().map(|(ost, upto)| {
        assert_eq!(*ost, OstId(0));
        *upto
    })
}

#[test]
fn a_retired_write_verifier_survives_a_power_loss() {
    simulate(async {
        let fixture = Simulated::new(7);
        let instance = fixture.start().await;
        assert_eq!(report_verifier(&instance.mds, 5, 3, false).await, None);
        assert_eq!(
            report_verifier(&instance.mds, 5, 3, true).await,
            Some(WriteVerifier(3))
        );
        drop(instance.mds);
        fixture.lose_power(&instance.platform).await;

        let instance = fixture.start().await;
        // The target lost its own record, and reports that its verifier is valid.
        assert_eq!(
            report_verifier(&instance.mds, 5, 3, false).await,
            Some(WriteVerifier(3))
        );
        assert_eq!(
            report_verifier(&instance.mds, 5, 4, false).await,
            Some(WriteVerifier(3))
        );
        // An old report does not undo a retirement.
        assert_eq!(
            report_verifier(&instance.mds, 5, 2, true).await,
            Some(WriteVerifier(3))
        );
        assert_eq!(
            report_verifier(&instance.mds, 5, 6, true).await,
            Some(WriteVerifier(6))
        );
        // A target that was initialised anew starts counting again.
        assert_eq!(report_verifier(&instance.mds, 9, 1, false).await, None);
        assert_eq!(
            report_verifier(&instance.mds, 9, 1, true).await,
            Some(WriteVerifier(1))
        );
        instance.mds.stop().await.unwrap();
    });
}

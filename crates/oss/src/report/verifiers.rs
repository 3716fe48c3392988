//! The write verifiers of this process's targets, reported to the metadata server and compared with its records: a retired
//! verifier is retired even if the target could not record that on its own disk.

use crate::targets::Oss;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, ClusterRequest, TargetVerifier};
use gupfs_proto::{FsError, OstId, WriteVerifier};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reports the write verifiers of this process's targets.
pub struct VerifierReporter {
    oss: Arc<Oss>,
    mds: Peer<ClusterRequest, ClusterReply>,
    /// The verifiers that the metadata server has acknowledged.
    acknowledged: Mutex<BTreeMap<OstId, TargetVerifier>>,
}

impl VerifierReporter {
    /// No verifier is acknowledged yet.
    pub fn new(oss: Arc<Oss>, mds: Peer<ClusterRequest, ClusterReply>) -> Arc<VerifierReporter> {
        Arc::new(VerifierReporter {
            oss,
            mds,
            acknowledged: Mutex::default(),
        })
    }

    /// Reports changed write verifiers, and gives a target a new verifier where the metadata server has retired the current one.
    /// To be called before a target serves, and repeatedly while it serves; sends no request if nothing has changed.
    ///
    /// # Errors
    /// The metadata server's errors. The next call reports the same changes again.
    pub async fn report_changes(&self) -> Result<(), FsError> {
        let changed: Vec<TargetVerifier> = {
            let acknowledged = self.acknowledged.lock();
            let current = self.current().into_iter();
            current
                .filter(|verifier| acknowledged.get(&verifier.ost) != Some(verifier))
                .collect()
        };
        if changed.is_empty() {
            return Ok(());
        }
        let request = ClusterRequest::Verifiers {
            targets: changed.clone(),
        };
        let ClusterReplyBody::Verifiers { retired } = self.mds.call(request).await? else {
            return Err(FsError::Malformed(
                "the reply to 'verifiers' has the wrong type".into(),
            ));
        };
        for (ost, upto) in retired {
            self.retire(ost, upto).await?;
        }
        self.acknowledged
            .lock()
            .extend(changed.into_iter().map(|verifier| (verifier.ost, verifier)));
        Ok(())
    }

    fn current(&self) -> Vec<TargetVerifier> {
        let verifier = |ost: OstId| {
            // Skips a target that is not adopted: the metadata server has sent no verdict on it. Includes a target whose disk
            // failed during adoption.
            let objects = self
                .oss
                .objects(ost)
                .ok()
                .filter(|objects| objects.is_adopted() || objects.is_verifier_retired())?;
            Some(TargetVerifier {
                ost,
                incarnation: objects.incarnation(),
                verifier: objects.write_verifier(),
                retired: objects.is_verifier_retired(),
            })
        };
        self.oss.osts().into_iter().filter_map(verifier).collect()
    }

    async fn retire(&self, ost: OstId, upto: WriteVerifier) -> Result<(), FsError> {
        match self.oss.objects(ost) {
            // A failed target gets its next verifier when it is opened again.
            Ok(objects)
                if objects.failure().is_none()
                    && !objects.is_verifier_retired()
                    && !objects.is_refused() =>
            {
                objects.take_verifier_after(upto).await
            }
            _ => Ok(()),
        }
    }
}

//! Targets that their server is about to stop in order.

use crate::osts::Targets;
use crate::osts::entry::TargetCondition;
use gupfs_proto::OstId;
use gupfs_proto::cluster::StoppingTarget;

impl Targets {
    /// Marks targets as expected that serve as the open instances that their server names; returns these. Their server's next report shows that
    /// it did not stop.
    pub fn note_stopping(&self, stopping: &[StoppingTarget]) -> Vec<OstId> {
        let mut list = self.list.lock();
        let mut noted = Vec::new();
        for target in stopping {
            let Some(entry) = list.get_mut(&target.ost) else {
                continue;
            };
            let serving = entry.serving.as_ref();
            let serving = serving.filter(|serving| serving.opening == target.open_instance);
            if let Some(serving) = serving
                && entry.condition.is_up()
            {
                let why = format!("its server at {} is being stopped", serving.address);
                entry.condition = TargetCondition::Expected(why);
                noted.push(target.ost);
            }
        }
        drop(list);
        if !noted.is_empty() {
            tracing::info!(osts = ?noted, "targets are about to be stopped in order");
            self.changed.notify_waiters();
        }
        noted
    }
}

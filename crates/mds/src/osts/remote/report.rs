//! One target's part of a report of its server.

use crate::limits::TARGET_REPORT_TIMEOUT;
use crate::osts::Targets;
use crate::osts::entry::{
    OlderCopy, RemoteServer, ServingInstance, TargetCondition, TargetEntry, UnknownSpace,
};
use crate::osts::identity::{Acceptance, IdentityVerdict, check_identity, copy_of};
use crate::osts::{accept_loss, lost};
use gupfs_namespace::KnownTarget;
use gupfs_proto::cluster::{OpenTargetReport, TargetIdentity, TargetReport, TargetVerdict};
use gupfs_proto::{DomainName, FsError};
use std::sync::atomic::Ordering::AcqRel;

/// The server that reports, of an `OssReport`.
#[derive(Clone, Copy)]
pub(crate) struct ReportingServer<'a> {
    pub(crate) address: &'a str,
    /// The failure domain that it names.
    pub(crate) domain: Option<DomainName>,
    /// It has stopped its targets, and ends.
    pub(crate) stopping: bool,
}

/// The result of one target's part of a report.
#[expect(
    clippy::large_enum_variant,
    reason = "the larger variant is the usual one, and lives as long as a report"
)]
pub(crate) enum ReportOutcome {
    /// What the target must do, and what to record before it is told so; with `true` the record must survive a power loss.
    Verdict(TargetVerdict, Option<(KnownTarget, bool)>),
    /// The target has served a later state of the store than this one.
    StoreOutdated(String),
}

impl ReportOutcome {
    fn wait(why: String) -> ReportOutcome {
        ReportOutcome::Verdict(TargetVerdict::Wait(why), None)
    }

    fn refused(why: impl Into<String>) -> ReportOutcome {
        ReportOutcome::Verdict(TargetVerdict::Refused(why.into()), None)
    }
}

impl Targets {
    /// Handles the report of a server on one of its targets. A report that is not believed does not change the target's address or
    /// failure domain.
    ///
    /// # Errors
    /// `NotSupported` if this server uses local targets only.
    pub(crate) fn report(
        &self,
        server: ReportingServer,
        report: &TargetReport,
    ) -> Result<ReportOutcome, FsError> {
        let address = server.address;
        if self.dial.is_none() {
            return Err(FsError::NotSupported);
        }
        let mut list = self.list.lock();
        let Some(entry) = list.get_mut(&report.ost) else {
            return Ok(ReportOutcome::refused(
                "no target with this number was ever added",
            ));
        };
        if entry.remote.is_none() && entry.peer.is_some() {
            return Ok(ReportOutcome::refused(
                "the metadata server's own process serves it",
            ));
        }
        if let Some(known) = entry.recorded
            && let Some(since) = known.lost_since
        {
            let why = lost::refusal(report.ost, known.is_removed, since);
            return Ok(ReportOutcome::refused(why));
        }
        let open = match &report.open {
            Ok(open) => open,
            Err(why) => {
                // A copy at another address that cannot be opened says nothing about the recorded target.
                let is_accepted = entry.recorded.is_some_and(|known| known.accepted.is_some());
                let condition = match is_accepted {
                    // It was refused, and has closed the copy that was accepted since.
                    true => TargetCondition::Expected(accept_loss::restart_of(address)),
                    false => TargetCondition::Down(why.clone()),
                };
                self.set_condition_at(entry, address, condition);
                return Ok(ReportOutcome::wait(why.clone()));
            }
        };
        let accepts = match self.identity_context.accept_loss && !entry.condition.is_up() {
            true => Acceptance::Metadata,
            false => Acceptance::None,
        };
        let verdict = check_identity(
            &self.identity_context,
            report.ost,
            entry.recorded,
            &open.identity,
            accepts,
        );
        let (known, verdict) = match verdict {
            IdentityVerdict::Adopt(known) => (known, TargetVerdict::Adopt),
            IdentityVerdict::Serve(known) => (known, TargetVerdict::Serve),
            IdentityVerdict::Refused(why) => {
                self.set_condition_at(entry, address, TargetCondition::Refused(why.clone()));
                return Ok(ReportOutcome::refused(why));
            }
            IdentityVerdict::OlderCopy(why) => {
                // At the target's own address no other process serves it any more.
                if !entry.condition.is_up() || entry.is_known_at(address) {
                    entry.older_copy = Some(OlderCopy {
                        copy: copy_of(&open.identity),
                        why: why.clone(),
                        address: Some(address.to_owned()),
                        objects: open.space.map(|space| space.objects),
                    });
                }
                self.set_condition_at(entry, address, TargetCondition::Refused(why.clone()));
                return Ok(ReportOutcome::refused(why));
            }
            IdentityVerdict::StoreOutdated(why) => return Ok(ReportOutcome::StoreOutdated(why)),
        };
        if let Some(why) = self.other_instance_serves(entry, address, &open.identity) {
            tracing::warn!(ost = %report.ost, address, why, "an open instance of a target must wait");
            return Ok(ReportOutcome::wait(why));
        }
        let domain = server.domain;
        let record = entry.record(KnownTarget { domain, ..known });
        let verdict = self.note_believed(entry, address, open, verdict, server.stopping);
        Ok(ReportOutcome::Verdict(verdict, record))
    }

    /// Sets the condition of a target whose server is at this address or not known.
    fn set_condition_at(&self, entry: &mut TargetEntry, address: &str, condition: TargetCondition) {
        if entry.is_known_at(address) {
            entry.condition = condition;
            self.changed.notify_waiters();
        }
    }

    /// Notes the report of an open instance that is believed; returns what it must do.
    fn note_believed(
        &self,
        entry: &mut TargetEntry,
        address: &str,
        open: &OpenTargetReport,
        verdict: TargetVerdict,
        leaves: bool,
    ) -> TargetVerdict {
        let now = self.clock.boot();
        let contended = (entry.serving.as_ref()).is_some_and(|serving| serving.is_contended);
        entry.serving = (!leaves).then(|| ServingInstance {
            opening: open.identity.open_instance,
            address: address.to_string(),
            last_heard: now,
            is_contended: false,
        });
        self.changed.notify_waiters();
        if leaves {
            let why = format!("its server at {address} was stopped");
            entry.condition = TargetCondition::Expected(why);
            return verdict;
        }
        if verdict == TargetVerdict::Adopt {
            entry.condition = TargetCondition::Expected("its server is opening it".into());
            return verdict;
        }
        match &mut entry.remote {
            Some(remote) if remote.address == address => remote.last_heard = now,
            // The same target, opened again elsewhere, and the former instance is gone.
            _ => {
                entry.peer = self.dial.as_ref().map(|dial| dial.dial(address));
                entry.remote = Some(RemoteServer {
                    address: address.to_string(),
                    last_heard: now,
                });
                self.epoch.fetch_add(1, AcqRel);
            }
        }
        (entry.condition, entry.older_copy) = (TargetCondition::Up, None);
        entry.space = open
            .space
            .ok_or_else(|| UnknownSpace::NotYet("its disk has not reported its free space".into()));
        match contended {
            true => TargetVerdict::RaiseStamp,
            false => verdict,
        }
    }

    /// Why an open instance must wait: another instance of the target may still serve. None if surely none does: the other is
    /// silent for its term, or was at this very address.
    fn other_instance_serves(
        &self,
        entry: &mut TargetEntry,
        address: &str,
        reported: &TargetIdentity,
    ) -> Option<String> {
        let now = self.clock.boot();
        match &mut entry.serving {
            Some(serving) if serving.opening == reported.open_instance => None,
            Some(serving) if serving.address == address => None,
            Some(serving) if now.since(serving.last_heard) < TARGET_REPORT_TIMEOUT => {
                // Raising the stamp makes the serving instance differ from the copy, which then is an older copy for good.
                serving.is_contended = true;
                Some(format!(
                    "another opening of it is served at {}",
                    serving.address
                ))
            }
            Some(_) => None,
            // Since our start no instance reported, and the one that served before may do so any moment.
            None if !reported.is_adopted()
                && !reported.stopped
                && reported.run != 0
                && now.since(self.started) < TARGET_REPORT_TIMEOUT =>
            {
                Some("another opening of it may be served: it waits for one report timeout".into())
            }
            None => None,
        }
    }
}

//! What the metadata server knows of one target.

use super::OstPeer;
use gupfs_namespace::{AcceptedCopy, KnownTarget};
use gupfs_platform::BootTime;
use gupfs_proto::data::TargetCapacity;

pub(super) struct TargetEntry {
    pub(super) peer: Option<OstPeer>,
    /// The server of a remote target, and when it reported last; None for a local target.
    pub(super) remote: Option<RemoteServer>,
    pub(super) recorded: Option<KnownTarget>,
    /// What is recorded survives a power loss, as far as it identifies the target.
    pub(super) is_durable: bool,
    /// The open instance that was believed last, of a remote target.
    pub(super) serving: Option<ServingInstance>,
    pub(super) condition: TargetCondition,
    /// The copy of it that was refused last, until an instance of it is believed.
    pub(super) older_copy: Option<OlderCopy>,
    /// Since when the target has not been up, as far as a look every second shows; None while it is up.
    pub(super) down_since: Option<BootTime>,
    pub(super) space: Result<TargetCapacity, UnknownSpace>,
}

/// Why a target's free space is not known. Unknown is not full.
#[derive(Clone, Debug)]
pub(super) enum UnknownSpace {
    /// The target may report it any moment.
    NotYet(String),
    Failed(String),
}

impl UnknownSpace {
    pub(super) fn not_reported() -> UnknownSpace {
        UnknownSpace::NotYet("its free space is not known yet".into())
    }

    pub(super) fn why(&self) -> &str {
        match self {
            UnknownSpace::NotYet(why) | UnknownSpace::Failed(why) => why,
        }
    }
}

/// An open copy of a target that may lack what the target has served.
pub(super) struct OlderCopy {
    pub(super) copy: AcceptedCopy,
    pub(super) why: String,
    /// Of its server; None: this process.
    pub(super) address: Option<String>,
    /// Number of its objects, if its disk has replied.
    pub(super) objects: Option<u64>,
}

pub(super) struct ServingInstance {
    pub(super) opening: u64,
    pub(super) address: String,
    pub(super) last_heard: BootTime,
    /// Another open instance of the target reported in the meantime.
    pub(super) is_contended: bool,
}

pub(super) struct RemoteServer {
    pub(super) address: String,
    pub(super) last_heard: BootTime,
}

pub(super) enum TargetCondition {
    /// Its identity is verified, and it can be used.
    Up,
    /// It is remote, and its server has not reported yet that it serves it: a request that needs it waits.
    Expected(String),
    /// It cannot be reached.
    Down(String),
    /// Its identity does not match the recorded one: its bytes must not be used.
    Refused(String),
    /// An administrator declared it lost for ever.
    Lost(String),
}

impl TargetCondition {
    pub(super) fn is_up(&self) -> bool {
        matches!(self, TargetCondition::Up)
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self, TargetCondition::Lost(_))
    }
}

impl TargetEntry {
    /// Stores the new identity; returns it if it must be written to the store, with true if the record must survive a power loss.
    pub(super) fn record(&mut self, known: KnownTarget) -> Option<(KnownTarget, bool)> {
        let before = self.recorded.replace(known);
        // The same run reports a lost stamp again.
        let without_stamp = |known: KnownTarget| KnownTarget { stamp: 0, ..known };
        self.is_durable &= before.map(without_stamp) == Some(without_stamp(known));
        match self.is_durable {
            true => (before != Some(known)).then_some((known, false)),
            false => Some((known, true)),
        }
    }

    /// Whether new files are laid out here.
    pub(super) fn is_usable(&self) -> bool {
        self.why_not().is_none()
    }

    pub(super) fn is_draining(&self) -> bool {
        (self.recorded).is_some_and(|known| known.draining_since.is_some())
    }

    /// Why no new file is laid out here.
    pub(super) fn why_not(&self) -> Option<String> {
        match (&self.condition, &self.space) {
            (
                TargetCondition::Down(why)
                | TargetCondition::Refused(why)
                | TargetCondition::Lost(why)
                | TargetCondition::Expected(why),
                _,
            ) => Some(why.clone()),
            (TargetCondition::Up, Err(unknown)) => Some(unknown.why().to_owned()),
            (TargetCondition::Up, Ok(_)) if self.is_draining() => {
                Some("it is being drained".into())
            }
            (TargetCondition::Up, Ok(space)) if space.available == 0 => Some("it is full".into()),
            (TargetCondition::Up, Ok(_)) => None,
        }
    }

    /// Whether new files may be laid out here any moment, though not now.
    pub(super) fn may_become_usable(&self) -> bool {
        matches!(
            (&self.condition, &self.space),
            (TargetCondition::Expected(_), _) | (TargetCondition::Up, Err(UnknownSpace::NotYet(_)))
        )
    }

    /// Whether a server at this address may report that the target is down or refused.
    pub(super) fn is_known_at(&self, address: &str) -> bool {
        self.remote
            .as_ref()
            .is_none_or(|remote| remote.address == address)
    }
}

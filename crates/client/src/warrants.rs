//! What this client shows to OSTs: its session's pass, and the capabilities of the files it uses.
//!
//! Both come with answers of the metadata server. What is forgotten, or not believed any more, is asked for anew.

use gupfs_platform::hash::Map;
use gupfs_proto::capability::{Capability, Pass, Rights, Warrant};
use gupfs_proto::data::Op;
use gupfs_proto::{InodeId, OstId};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// Capabilities of one generation; there are two.
const KEPT: usize = 8 << 10;

#[derive(Default)]
pub struct Warrants {
    /// None where OSTs ask for nothing.
    pass: RwLock<Option<Pass>>,
    kept: Mutex<Kept>,
}

/// When the young are many they become the old ones, and those are forgotten: who is used stays.
#[derive(Default)]
struct Kept {
    young: Map<InodeId, Arc<Capability>>,
    old: Map<InodeId, Arc<Capability>>,
}

/// The right to a file that an operation needs; None for those that need none.
pub fn needed(op: &Op) -> Option<(InodeId, Rights)> {
    let rights = match op.changes() {
        true => Rights::WRITE,
        false => Rights::READ,
    };
    op.file().map(|ino| (ino, rights))
}

impl Warrants {
    /// A pass that comes late is older than the one there is.
    pub fn passed(&self, pass: Option<Pass>) {
        let Some(pass) = pass else { return };
        let mut current = self.pass.write();
        let is_newer = |known: &Pass| (pass.epoch, pass.until) > (known.epoch, known.until);
        if current.as_ref().is_none_or(is_newer) {
            *current = Some(pass);
        }
    }

    pub fn may(&self, ino: InodeId, capability: Option<Capability>) {
        if let Some(capability) = capability
            && capability.is_for_osts()
        {
            self.kept.lock().put(ino, Arc::new(capability));
        }
    }

    /// A new session: what was given to the former one is nothing.
    pub fn begin_anew(&self) {
        *self.pass.write() = None;
        *self.kept.lock() = Kept::default();
    }

    /// What goes with an operation. None: the capability that it needs must be got before.
    pub fn show(&self, ost: OstId, op: &Op) -> Option<Warrant> {
        let Some(pass) = *self.pass.read() else {
            return Some(Warrant::None);
        };
        let Some((ino, rights)) = needed(op) else {
            return Some(Warrant::Client { pass, grant: None });
        };
        let capability = self.kept.lock().get(ino)?;
        let grant = capability.at(ost)?;
        grant.rights.contains(rights).then_some(Warrant::Client {
            pass,
            grant: Some(grant),
        })
    }
}

impl Kept {
    fn get(&mut self, ino: InodeId) -> Option<Arc<Capability>> {
        if let Some(capability) = self.young.get(&ino) {
            return Some(capability.clone());
        }
        let capability = self.old.remove(&ino)?;
        self.put(ino, capability.clone());
        Some(capability)
    }

    fn put(&mut self, ino: InodeId, capability: Arc<Capability>) {
        if self.young.len() >= KEPT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(ino, capability);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::capability::Tag;
    use gupfs_proto::{Generation, ObjectId, OwnerEpoch};

    fn pass(epoch: u64, until: u64) -> Pass {
        Pass {
            epoch: OwnerEpoch(epoch),
            until,
            tag: Tag([0; 16]),
        }
    }

    fn capability(rights: Rights) -> Option<Capability> {
        Some(Capability {
            epoch: OwnerEpoch(1),
            rights,
            tags: vec![(OstId(2), Tag([2; 16]))],
        })
    }

    fn stat(ino: InodeId) -> Op {
        Op::Stat {
            object: ObjectId {
                ino,
                generation: Generation(1),
                stripe: 0,
            },
        }
    }

    fn shown(warrants: &Warrants, ost: u16, op: &Op) -> &'static str {
        match warrants.show(OstId(ost), op) {
            Some(Warrant::None) => "nothing",
            Some(Warrant::Client { grant: None, .. }) => "a pass",
            Some(_) => "a capability",
            None => "lacks it",
        }
    }

    #[test]
    fn each_operation_shows_what_it_needs() {
        let warrants = Warrants::default();
        let (ino, read) = (InodeId(9), stat(InodeId(9)));
        assert_eq!(shown(&warrants, 2, &read), "nothing");
        warrants.passed(Some(pass(1, 100)));
        assert_eq!(shown(&warrants, 2, &Op::Space), "a pass");
        assert_eq!(shown(&warrants, 2, &read), "lacks it");
        warrants.may(ino, capability(Rights::READ));
        assert_eq!(shown(&warrants, 2, &read), "a capability");
        assert_eq!(shown(&warrants, 3, &read), "lacks it");
        let cut = Op::Cut {
            object: ObjectId {
                ino,
                generation: Generation(1),
                stripe: 0,
            },
            to: 0,
        };
        assert_eq!(shown(&warrants, 2, &cut), "lacks it");
        warrants.may(ino, capability(Rights::all()));
        assert_eq!(shown(&warrants, 2, &cut), "a capability");
        warrants.begin_anew();
        assert_eq!(shown(&warrants, 2, &cut), "nothing");
    }

    #[test]
    fn a_late_pass_does_not_replace_a_newer_one() {
        let warrants = Warrants::default();
        for (epoch, until) in [(1, 100), (1, 90), (2, 5), (1, 200)] {
            warrants.passed(Some(pass(epoch, until)));
        }
        assert_eq!(*warrants.pass.read(), Some(pass(2, 5)));
    }

    #[test]
    fn those_in_use_are_kept_and_their_number_is_bounded() {
        let warrants = Warrants::default();
        warrants.passed(Some(pass(1, 1)));
        for ino in 0..(4 * KEPT as u64) {
            warrants.may(InodeId(ino), capability(Rights::READ));
            assert_eq!(shown(&warrants, 2, &stat(InodeId(0))), "a capability");
        }
        let kept = warrants.kept.lock();
        assert!(kept.young.len() + kept.old.len() <= 2 * KEPT + 1);
        drop(kept);
        assert_eq!(shown(&warrants, 2, &stat(InodeId(1))), "lacks it");
    }
}

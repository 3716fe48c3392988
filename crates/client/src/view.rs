//! What this client has seen of the metadata server, and the changes it keeps in case a power cut makes the server forget them.
//!
//! Changes are numbered in one *life* of the server, from a start to its end. When the server is found to live another
//! life, the client comes back (`back`): it says again what it keeps, and counts anew from there.

use gupfs_proto::meta::{self, Kept};
use gupfs_proto::{MapEpoch, OwnerEpoch, Seq};
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct View(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    life: OwnerEpoch,
    /// The newest over all replies of this life.
    seq: Seq,
    durable: Seq,
    map_epoch: MapEpoch,
    /// Our changes that are not known to be durable.
    kept: BTreeMap<Seq, Kept>,
    /// What is kept is being said to another life: nothing can be added any more.
    leaving: bool,
}

/// What a reply was worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// `newer_map`: it names a map that was not known.
    Seen { newer_map: bool },
    /// It is of a life that has ended: nobody will say this change again.
    OfAnotherLife,
}

impl View {
    /// A session was opened in this life: whatever was before counts no more.
    pub fn begin(&self, life: OwnerEpoch, reply: &meta::Reply) {
        let map_epoch = self.map_epoch();
        *self.0.lock() = Seen {
            life,
            seq: reply.seq,
            durable: reply.durable,
            map_epoch: map_epoch.max(reply.map_epoch),
            ..Seen::default()
        };
    }

    /// A reply to a request of `life`, and what to keep of it.
    pub fn see(&self, life: OwnerEpoch, reply: &meta::Reply, kept: Option<Kept>) -> Sight {
        let mut seen = self.0.lock();
        if seen.life != life || (seen.leaving && kept.is_some()) {
            return Sight::OfAnotherLife;
        }
        let newer_map = reply.map_epoch > seen.map_epoch;
        seen.seq = seen.seq.max(reply.seq);
        seen.durable = seen.durable.max(reply.durable);
        seen.map_epoch = seen.map_epoch.max(reply.map_epoch);
        let durable = seen.durable;
        if let Some(kept) = kept
            && kept.change.seq > durable
        {
            seen.kept.insert(kept.change.seq, kept);
        }
        while let Some(first) = seen.kept.first_entry()
            && *first.key() <= durable
        {
            first.remove();
        }
        Sight::Seen { newer_map }
    }

    /// What is kept, in its order, and of which life. From here on it stays as it is until `arrive`.
    pub fn leave(&self) -> (OwnerEpoch, Vec<Kept>) {
        let mut seen = self.0.lock();
        seen.leaving = true;
        (seen.life, seen.kept.values().cloned().collect())
    }

    /// Everything that was kept is durable in the new life.
    pub fn arrive(&self, life: OwnerEpoch, reply: &meta::Reply) {
        self.begin(life, reply);
    }

    /// The life that is counted on, and the newest change seen in it.
    pub fn now(&self) -> (OwnerEpoch, Seq) {
        let seen = self.0.lock();
        (seen.life, seen.seq)
    }

    pub fn kept(&self) -> usize {
        self.0.lock().kept.len()
    }

    pub fn seq(&self) -> Seq {
        self.0.lock().seq
    }

    pub fn durable(&self) -> Seq {
        self.0.lock().durable
    }

    pub fn map_epoch(&self) -> MapEpoch {
        self.0.lock().map_epoch
    }

    /// The newest change seen, unless it is known to survive a power cut.
    pub fn not_durable(&self) -> Option<Seq> {
        let seen = self.0.lock();
        (seen.durable < seen.seq).then_some(seen.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gupfs_proto::meta::{Answer, Change, Lane};
    use gupfs_proto::{Caller, Slot, Timestamp};

    fn reply(seq: u64, durable: u64) -> meta::Reply {
        meta::Reply {
            seq: Seq(seq),
            durable: Seq(durable),
            map_epoch: MapEpoch(1),
            change: None,
            result: Ok(Answer::Done),
        }
    }

    fn kept(seq: u64) -> Option<Kept> {
        Some(Kept {
            change: Change {
                seq: Seq(seq),
                at: Timestamp::default(),
            },
            lane: Lane {
                slot: Slot(0),
                sequence: seq,
            },
            caller: Caller::root(),
            op: Bytes::new(),
            made: None,
            layout: None,
        })
    }

    fn numbers(view: &View) -> Vec<u64> {
        let (_, kept) = view.leave();
        kept.iter().map(|kept| kept.change.seq.0).collect()
    }

    #[test]
    fn changes_are_kept_until_they_are_durable() {
        let (view, life) = (View::default(), OwnerEpoch(4));
        view.begin(life, &reply(1, 1));
        for seq in [3, 2, 5] {
            view.see(life, &reply(seq, 1), kept(seq));
        }
        view.see(life, &reply(5, 2), None);
        view.see(life, &reply(2, 2), kept(2));
        assert_eq!(numbers(&view), [3, 5]);
    }

    #[test]
    fn what_is_answered_by_a_life_that_ended_is_nobodys_to_say_again() {
        let (view, life) = (View::default(), OwnerEpoch(4));
        view.begin(life, &reply(1, 1));
        view.see(life, &reply(9, 1), kept(9));
        assert_eq!(numbers(&view), [9]);
        let late = view.see(life, &reply(8, 1), kept(8));
        assert_eq!(late, Sight::OfAnotherLife);
        view.arrive(OwnerEpoch(5), &reply(3, 3));
        let late = view.see(life, &reply(10, 1), kept(10));
        assert_eq!(
            (late, view.now()),
            (Sight::OfAnotherLife, (OwnerEpoch(5), Seq(3)))
        );
        assert_eq!((numbers(&view), view.not_durable()), (vec![], None));
    }
}

//! What a host does next about the register, as a pure function of it.

use crate::register::{Register, Standing};
use gupfs_proto::{CopyId, CopyRun, OwnerEpoch};

/// What this host knows of itself.
#[derive(Clone, Copy, Debug)]
pub struct OwnView {
    pub id: CopyId,
    pub run: CopyRun,
    /// It has the metadata, or is to be initialised with it.
    pub may_begin: bool,
    /// It has the metadata now.
    pub is_open: bool,
    /// The newest owner that it has heard of.
    pub epoch: OwnerEpoch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Write the first register, with this host as the owner.
    Begin,
    /// Nothing to do until the register changes.
    Wait,
    /// Ask the owner to bring this process up to date.
    Join,
    /// This process counts, and there is no owner any more.
    TakeOver,
    /// As `TakeOver`, but another copy is to be the first.
    Yield,
    /// This host counted, and its process lost its memory. If all others lost theirs, too, the most advanced log goes on.
    Elect,
    /// There is no register, and this host may not begin one.
    NoCluster,
    /// The register is older than what this host has seen.
    RegisterOlder,
}

/// `register`: None if nothing was written yet. `is_held`: an owner's lease is alive.
pub fn next_step(register: Option<&Register>, is_held: bool, own: &OwnView) -> Step {
    let Some(register) = register else {
        return match own.may_begin && own.is_open {
            true => Step::Begin,
            false => Step::NoCluster,
        };
    };
    if register.epoch < own.epoch {
        return Step::RegisterOlder;
    }
    let member = register.member(own.id);
    let is_known = member.is_some_and(|member| member.run == own.run);
    let standing = member.map(|member| member.standing);
    match (is_held, is_known, standing) {
        // The lease of this host's former process.
        (true, false, _) if register.owner == own.id => Step::Wait,
        (true, false, _) | (true, true, Some(Standing::Struck)) => Step::Join,
        (true, ..) => Step::Wait,
        (false, true, Some(Standing::Counting)) if own.is_open => {
            match register
                .preferred
                .is_none_or(|preferred| preferred == own.id)
            {
                true => Step::TakeOver,
                false => Step::Yield,
            }
        }
        (false, false, Some(Standing::Counting)) if own.is_open => Step::Elect,
        (false, ..) => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::register::Member;
    use gupfs_proto::{ClusterId, Incarnation, VirtualShards};

    const ME: CopyId = CopyId(1);
    const OTHER: CopyId = CopyId(2);

    fn own() -> OwnView {
        OwnView {
            id: ME,
            run: CopyRun(7),
            may_begin: false,
            is_open: true,
            epoch: OwnerEpoch(5),
        }
    }

    fn register(owner: CopyId, mine: Option<(u64, Standing)>) -> Register {
        let mut register = Register {
            cluster: ClusterId(1),
            incarnation: Incarnation(1),
            shards: VirtualShards(1),
            epoch: OwnerEpoch(5),
            owner,
            preferred: None,
            members: Vec::new(),
        };
        let member = |id, run, standing| Member {
            id,
            run: CopyRun(run),
            address: String::new(),
            standing,
        };
        register.put(member(OTHER, 9, Standing::Counting));
        if let Some((run, standing)) = mine {
            register.put(member(ME, run, standing));
        }
        register
    }

    fn step(owner: CopyId, mine: Option<(u64, Standing)>, is_held: bool) -> Step {
        next_step(Some(&register(owner, mine)), is_held, &own())
    }

    #[test]
    fn only_a_process_that_counts_takes_over_and_only_without_an_owner() {
        use Standing::{Counting, Joining, Struck};
        assert_eq!(step(OTHER, Some((7, Counting)), false), Step::TakeOver);
        assert_eq!(step(OTHER, Some((7, Counting)), true), Step::Wait);
        let mut moving = register(OTHER, Some((7, Counting)));
        for (preferred, expected) in [(ME, Step::TakeOver), (OTHER, Step::Yield)] {
            moving.preferred = Some(preferred);
            assert_eq!(next_step(Some(&moving), false, &own()), expected);
        }
        for standing in [Joining, Struck] {
            assert_eq!(step(OTHER, Some((7, standing)), false), Step::Wait);
        }
        assert_eq!(step(OTHER, None, false), Step::Wait);
    }

    #[test]
    fn a_process_that_lost_its_memory_joins_an_owner_and_never_takes_over_by_itself() {
        use Standing::{Counting, Joining, LeftOut, Struck};
        for mine in [Some((6, Counting)), Some((6, Struck)), None] {
            assert_eq!(step(OTHER, mine, true), Step::Join);
        }
        assert_eq!(step(OTHER, Some((7, Struck)), true), Step::Join);
        assert_eq!(step(OTHER, Some((7, Joining)), true), Step::Wait);
        // Only a new process of a copy that was left out asks again.
        assert_eq!(step(OTHER, Some((7, LeftOut)), true), Step::Wait);
        assert_eq!(step(OTHER, Some((6, LeftOut)), true), Step::Join);
        assert_eq!(step(OTHER, Some((7, LeftOut)), false), Step::Wait);
        assert_eq!(step(OTHER, Some((6, Counting)), false), Step::Elect);
        assert_eq!(step(OTHER, Some((6, Struck)), false), Step::Wait);
        // The former process of this host was the owner, and its lease is not over.
        assert_eq!(step(ME, Some((6, Counting)), true), Step::Wait);
        assert_eq!(step(ME, Some((6, Counting)), false), Step::Elect);
    }

    #[test]
    fn without_a_register_only_the_first_host_begins_one() {
        assert_eq!(next_step(None, false, &own()), Step::NoCluster);
        let first = OwnView {
            may_begin: true,
            ..own()
        };
        assert_eq!(next_step(None, false, &first), Step::Begin);
        let closed = OwnView {
            is_open: false,
            ..first
        };
        assert_eq!(next_step(None, false, &closed), Step::NoCluster);
    }

    #[test]
    fn a_register_older_than_the_copies_is_refused() {
        let newer = OwnView {
            epoch: OwnerEpoch(6),
            ..own()
        };
        let register = register(OTHER, Some((7, Standing::Counting)));
        assert_eq!(
            next_step(Some(&register), false, &newer),
            Step::RegisterOlder
        );
    }
}

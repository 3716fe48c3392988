//! No copy that counts has kept its memory, as after a power loss of the whole site: which log goes on.
//!
//! Every durable batch is in every log of those that count. What was answered and not synced may be in some: the most advanced log goes on,
//! and clients say again what they were answered.

use crate::register::Register;
use gupfs_proto::copy::{CopyLogState, CopyState, LogPosition};
use gupfs_proto::{CopyId, OwnerEpoch};

/// What a member that counts said about itself; None: it does not answer.
pub type Vote = (CopyId, Option<CopyState>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Election {
    /// This host goes on.
    Won,
    /// Another host goes on, or has kept its memory, or is the owner.
    Lost,
    /// Too few answer.
    Undecided,
}

/// `own`: this host's log. `is_late`: the wait for those that do not answer is over; a majority of those that count suffices.
pub fn decide(
    register: &Register,
    (own, end, epoch): (CopyId, LogPosition, OwnerEpoch),
    votes: &[Vote],
    is_late: bool,
) -> Election {
    let mut answers = 1;
    let mut others = 0;
    let rank = |epoch: OwnerEpoch, end: LogPosition, id: CopyId| (epoch, end.last, id);
    for member in register.counting().filter(|member| member.id != own) {
        others += 1;
        let vote = votes.iter().find(|(id, _)| *id == member.id);
        let Some((_, Some(state))) = vote else {
            continue;
        };
        answers += 1;
        match &state.log {
            CopyLogState::Owner => return Election::Lost,
            // It takes over by itself.
            _ if state.run == member.run => return Election::Lost,
            CopyLogState::Open {
                end: theirs,
                newest,
                ..
            } => {
                if rank(*newest, *theirs, state.copy) > rank(epoch, end, own) {
                    return Election::Lost;
                }
            }
            CopyLogState::Unusable(_) => {}
        }
    }
    let is_majority = answers * 2 > others + 1;
    match answers == others + 1 || (is_late && is_majority) {
        true => Election::Won,
        false => Election::Undecided,
    }
}

//! What a metadata server asks a client, over the connection that the client opened.
//!
//! A session that holds a file for writing (`meta::Op::BeginWrite`) is the only one whose word on size, times and objects
//! counts. Before another session is answered about that file, the holder is asked to tell, or to give it back.

use crate::ids::{InodeId, OwnerEpoch, SessionId};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Somebody looks at this file: tell what was not told yet (`EndWrite` with `keep`), and go on holding it. Answered
    /// when the server has heard it.
    Tell { ino: InodeId },
    /// Somebody else is to write, cut or set times: finish what is under way, tell all, and hold it no more (`EndWrite`
    /// without `keep`). Answered when the server has heard it. Also answered, at once, by who holds nothing.
    GiveBack { ino: InodeId },
    /// These have lost their last name: which of them has this client open? Whoever opens one from here on is refused by
    /// the server, so the answer waits for the opens under way and for no others.
    Removed { inodes: Vec<InodeId> },
    /// The lock that the request of number `take` waited for is taken, as the thing of this turn (`lock::Said`). Answered by who
    /// waits no more as well: what it said about that decides.
    Granted {
        session: SessionId,
        life: OwnerEpoch,
        take: u64,
        turn: u64,
    },
}

impl Request {
    /// The question's name, for spans and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Tell { .. } => "tell",
            Request::GiveBack { .. } => "give_back",
            Request::Removed { .. } => "removed",
            Request::Granted { .. } => "granted",
        }
    }
}

pub type Reply = Result<Answer, Refusal>;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    /// To Removed: for each, in their order, whether this client has it open. It says `meta::Op::Forgotten` of those later.
    Open(Vec<bool>),
}

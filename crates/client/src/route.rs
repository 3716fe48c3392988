//! Which peer answers.

use gupfs_proto::{OstId, Refusal, data, meta};
use gupfs_rpc::Peer;

pub type Mds = Peer<meta::Request, meta::Reply>;
pub type Ost = Peer<data::Request, data::Reply>;

pub struct Route {
    pub mds: Mds,
    /// In ascending order.
    osts: Vec<(OstId, Ost)>,
}

impl Route {
    pub fn new(mds: Mds, mut osts: Vec<(OstId, Ost)>) -> Route {
        osts.sort_by_key(|(ost, _)| *ost);
        Route { mds, osts }
    }

    /// # Errors
    /// `TargetDown` for a target this client was not told of.
    pub fn ost(&self, ost: OstId) -> Result<&Ost, Refusal> {
        match self.osts.binary_search_by_key(&ost, |(id, _)| *id) {
            Ok(index) => Ok(&self.osts[index].1),
            Err(_) => Err(Refusal::TargetDown {
                ost,
                why: "this client knows no such target".to_string(),
            }),
        }
    }

    pub fn osts(&self) -> impl Iterator<Item = OstId> + '_ {
        self.osts.iter().map(|(ost, _)| *ost)
    }
}

//! Who this process is among the others.

use gupfs_rpc::{ClusterKey, Myself, Role};
use gupfs_world::{Net, World};

/// What every connection of this process has in common.
#[derive(Clone)]
pub struct Identity {
    pub world: World,
    pub net: Net,
    pub key: Option<ClusterKey>,
    who: u128,
}

impl Identity {
    pub fn new(world: &World, key: Option<ClusterKey>) -> Identity {
        let mut who = [0; 16];
        world.dice.fill(&mut who);
        Identity {
            world: world.clone(),
            net: Net::real(),
            key,
            who: u128::from_le_bytes(who),
        }
    }

    /// As somebody in a role; `what` it serves or mounts is shown to people.
    pub fn myself(&self, role: Role, what: &str) -> Myself {
        Myself {
            who: self.who,
            role,
            name: format!("{}:{what}", host_name()),
        }
    }
}

pub fn host_name() -> String {
    let host = rustix::system::uname();
    host.nodename().to_string_lossy().into_owned()
}

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

    /// With the same key, and a name of its own among connections.
    pub fn another(&self) -> Identity {
        Identity::new(&self.world, self.key.clone())
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

/// The same for all processes of this machine, and another on others: made of its machine id, or else of its name.
pub fn host_number() -> u64 {
    let id = std::fs::read("/etc/machine-id").unwrap_or_default();
    let id = if id.is_empty() {
        host_name().into_bytes()
    } else {
        id
    };
    // FNV-1a: it only has to differ.
    id.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

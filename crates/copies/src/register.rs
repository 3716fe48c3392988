//! What the arbiter stores: who owns the metadata, and which copies count.

use crate::limits::MEMBERS_MAX;
use bytes::Bytes;
pub use gupfs_proto::copy::CopyStanding as Standing;
use gupfs_proto::limits::ADDRESS_MAX;
use gupfs_proto::{ClusterId, CopyId, CopyRun, Incarnation, OwnerEpoch, VirtualShards};
use serde::{Deserialize, Serialize};

/// The version of the encoding, its first byte.
const VERSION: u8 = 1;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Register {
    pub cluster: ClusterId,
    /// Of the metadata store.
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
    /// It rises with each owner.
    pub epoch: OwnerEpoch,
    pub owner: CopyId,
    /// The copy that is to own the metadata next; the others let it be the first.
    pub preferred: Option<CopyId>,
    /// The copies, the owner among them, in the order of their ids.
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    pub id: CopyId,
    /// The process that the standing is about: everything that was answered is in the memory of one that counts, and everything that was said to be durable
    /// is on its disk.
    pub run: CopyRun,
    /// "host:port", where other hosts reach it.
    pub address: String,
    pub standing: Standing,
}

/// Why the register's value cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "the register has format version {0}, which this gupfs does not know: start the newer gupfs"
    )]
    UnknownVersion(u8),
    #[error("the register cannot be decoded: another program has written it")]
    Malformed,
}

impl Register {
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        bytes.extend(postcard::to_stdvec(self).expect("a register is plain data"));
        bytes.into()
    }

    /// # Errors
    /// `UnknownVersion` for a newer program's register, `Malformed` for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Register, RegisterError> {
        let (version, body) = bytes.split_first().ok_or(RegisterError::Malformed)?;
        if *version != VERSION {
            return Err(RegisterError::UnknownVersion(*version));
        }
        let (register, rest): (Register, _) =
            postcard::take_from_bytes(body).map_err(|_| RegisterError::Malformed)?;
        let in_order = register.members.is_sorted_by(|a, b| a.id < b.id);
        let fits = (register.members.iter()).all(|member| member.address.len() <= ADDRESS_MAX);
        match rest.is_empty() && in_order && fits && register.members.len() <= MEMBERS_MAX {
            true => Ok(register),
            false => Err(RegisterError::Malformed),
        }
    }

    pub fn member(&self, id: CopyId) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Adds the member, or replaces the one with its id.
    pub fn put(&mut self, member: Member) {
        match (self.members).binary_search_by_key(&member.id, |member| member.id) {
            Ok(at) => self.members[at] = member,
            Err(at) => self.members.insert(at, member),
        }
    }

    pub fn remove(&mut self, id: CopyId) {
        self.members.retain(|member| member.id != id);
    }

    /// Changes the standing of this process of the member; whether the register has it.
    pub fn set_standing(&mut self, id: CopyId, run: CopyRun, standing: Standing) -> bool {
        let mut members = self.members.iter_mut();
        let found = members.find(|member| member.id == id && member.run == run);
        found.map(|member| member.standing = standing).is_some()
    }

    /// The members that count.
    pub fn counting(&self) -> impl Iterator<Item = &Member> {
        let counts = |member: &&Member| member.standing == Standing::Counting;
        self.members.iter().filter(counts)
    }

    /// The addresses of all members, the owner's first.
    pub fn addresses(&self) -> Vec<String> {
        let (owner, others): (Vec<&Member>, Vec<&Member>) =
            (self.members.iter()).partition(|member| member.id == self.owner);
        let all = owner.into_iter().chain(others);
        all.map(|member| member.address.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register() -> Register {
        let member = |id, standing| Member {
            id: CopyId(id),
            run: CopyRun(id * 10),
            address: format!("mds{id}:7700"),
            standing,
        };
        Register {
            cluster: ClusterId(1),
            incarnation: Incarnation(2),
            shards: VirtualShards(64),
            epoch: OwnerEpoch(9),
            owner: CopyId(3),
            preferred: None,
            members: vec![member(1, Standing::Counting), member(3, Standing::Counting)],
        }
    }

    #[test]
    fn a_register_reads_back_and_other_bytes_do_not() {
        let mut register = register();
        let bytes = register.encode();
        assert_eq!(Register::decode(&bytes), Ok(register.clone()));
        assert!(bytes.len() < 100);
        let mut newer = bytes.to_vec();
        newer[0] = 2;
        assert_eq!(
            Register::decode(&newer),
            Err(RegisterError::UnknownVersion(2))
        );
        for bytes in [&bytes[..bytes.len() - 1], b"", &[&bytes[..], b"x"].concat()] {
            assert_eq!(Register::decode(bytes), Err(RegisterError::Malformed));
        }
        register.members.swap(0, 1);
        let unsorted = register.encode();
        assert_eq!(Register::decode(&unsorted), Err(RegisterError::Malformed));
    }

    #[test]
    fn members_stay_in_order_and_the_owner_is_the_first_address() {
        let mut register = register();
        register.put(Member {
            id: CopyId(2),
            run: CopyRun(5),
            address: "mds2:7700".into(),
            standing: Standing::Joining,
        });
        assert_eq!(
            register.addresses(),
            ["mds3:7700", "mds1:7700", "mds2:7700"]
        );
        assert_eq!(Register::decode(&register.encode()), Ok(register.clone()));
        assert!(!register.set_standing(CopyId(2), CopyRun(4), Standing::Counting));
        assert!(register.set_standing(CopyId(2), CopyRun(5), Standing::Counting));
        assert_eq!(register.counting().count(), 3);
        register.remove(CopyId(2));
        assert_eq!(register.member(CopyId(2)), None);
    }
}

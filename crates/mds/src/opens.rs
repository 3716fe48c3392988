//! What sessions have open: proved by what each was given for its open, so nothing of it is kept here, and a restart of the server
//! takes nothing of it away.

use crate::core::Core;
use crate::records::damaged;
use gupfs_namespace::rights::{self, Opens, Rule};
use gupfs_namespace::{Inode, Key, Record};
use gupfs_proto::capability::{Fault, OpenProof, Rights, SealKey, Statement, Tag};
use gupfs_proto::limits::PROOFS_MAX;
use gupfs_proto::meta::{Access, Op, Request};
use gupfs_proto::{Caller, Incarnation, InodeId, Refusal, SessionId, wire};
use gupfs_rpc::ClusterKey;

/// What a key that open proofs are sealed with is made for.
const SEALING: &[u8] = b"gupfs open proof 1";

/// Seals that a session opened an inode. The same key at each start: of the cluster's key and of this store. (Without a cluster
/// key servers listen on their own host alone, and who knows the store's incarnation could make proofs.)
pub struct OpenSeal(SealKey);

impl OpenSeal {
    pub fn new(cluster: Option<&ClusterKey>, store: Incarnation) -> OpenSeal {
        let none = ClusterKey::new([0; 32]);
        let key = cluster.unwrap_or(&none);
        OpenSeal(SealKey::new(&key.prove(&[SEALING, &store.0.to_le_bytes()])))
    }

    pub fn tag(&self, session: SessionId, ino: InodeId, rights: Rights) -> Tag {
        self.0.seal(&statement(session, ino, rights))
    }

    fn verifies(&self, session: SessionId, proof: &OpenProof) -> bool {
        let said = statement(session, proof.ino, proof.rights);
        self.0.verifies(&said, &proof.tag)
    }
}

fn statement(session: SessionId, ino: InodeId, rights: Rights) -> Statement {
    Statement::Open {
        session,
        ino,
        rights,
    }
}

impl Core {
    /// The request itself, and what it proves to be open.
    ///
    /// # Errors
    /// `Capability` for a proof that this server did not give to this session.
    pub fn take_proofs(&self, mut request: Request) -> Result<(Request, Opens), Refusal> {
        let Op::Proven { proofs, op } = &request.op else {
            return Ok((request, Opens::default()));
        };
        let (op, opens) = self.proven(request.session, proofs, op)?;
        request.op = op;
        Ok((request, opens))
    }

    /// The operation that was written down beside proofs.
    ///
    /// # Errors
    /// As `take_proofs`.
    pub fn proven(
        &self,
        session: SessionId,
        proofs: &[OpenProof],
        op: &[u8],
    ) -> Result<(Op, Opens), Refusal> {
        if proofs.len() > PROOFS_MAX {
            let many = proofs.len();
            return Err(Refusal::Malformed(format!("{many} proofs of open files")));
        }
        let op = wire::op_of(op).map_err(|error| Refusal::Malformed(error.to_string()))?;
        let needs_none = match &op {
            Op::Proven { .. } | Op::OpenSession { .. } | Op::CloseSession => true,
            // Changes that are said again have their proofs each in itself.
            Op::Return { kept, .. } => !kept.is_empty(),
            _ => false,
        };
        if needs_none {
            let why = format!("{} with proofs of open files", op.name());
            return Err(Refusal::Malformed(why));
        }
        let Some(permits) = self.targets.permits() else {
            // None are given here, and nothing is proved by them.
            return Ok((op, Opens::default()));
        };
        if let Some(proof) = (proofs.iter()).find(|proof| !permits.opens.verifies(session, proof)) {
            let ino = proof.ino;
            tracing::warn!(%session, %ino, op = op.name(), "a proof of an open file was not given to this session; the request is refused");
            return Err(Refusal::Capability(Fault::Forged));
        }
        let proved = proofs.iter().map(|proof| (proof.ino, proof.rights));
        Ok((op, Opens::new(proved.collect())))
    }

    /// The table's word on an operation that the driver does itself, without the machine.
    ///
    /// # Errors
    /// `Denied`; `Stale` for an inode that is not there.
    pub async fn must_have_right(
        &self,
        session: SessionId,
        caller: &Caller,
        opens: &Opens,
        op: &Op,
    ) -> Result<(), Refusal> {
        match rights::rule(op) {
            Rule::Session | Rule::Credentials | Rule::Parts => Ok(()),
            Rule::Open(ino, access) => self.must_be_open(caller, opens, ino, access).await,
            Rule::WriteOrOwn(ino) => self.must_be_open(caller, opens, ino, Access::WRITE).await,
            Rule::Holder(ino) => match self.holds(session, ino).await? {
                true => Ok(()),
                false => Err(Refusal::Denied),
            },
        }
    }

    /// `Rule::Open`.
    pub async fn must_be_open(
        &self,
        caller: &Caller,
        opens: &Opens,
        ino: InodeId,
        access: Access,
    ) -> Result<(), Refusal> {
        if opens.suffice(caller, ino, access) {
            return Ok(());
        }
        let key = Key::inode(ino);
        let value = self.get_now(&key).await?.ok_or(Refusal::Stale)?;
        let mut inode = Inode::decode(&value).map_err(|error| damaged(&key, error))?;
        inode.ino = ino;
        rights::may_use(&inode, caller, opens, access)
    }

    /// Whether the session is recorded as the file's writer.
    pub async fn holds(&self, session: SessionId, ino: InodeId) -> Result<bool, Refusal> {
        let record = self.get_now(&Key::writer(ino, session)).await?;
        Ok(record.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_session_its_inode_its_rights_and_its_store_alone() {
        let (key, store) = (ClusterKey::new([7; 32]), Incarnation(5));
        let seal = OpenSeal::new(Some(&key), store);
        let (session, ino, rights) = (SessionId(70), InodeId(9), Rights::READ);
        let proof = OpenProof {
            ino,
            rights,
            tag: seal.tag(session, ino, rights),
        };
        assert!(seal.verifies(session, &proof));
        // After a restart, too.
        assert!(OpenSeal::new(Some(&key), store).verifies(session, &proof));
        assert!(!seal.verifies(SessionId(71), &proof));
        let ino = InodeId(10);
        assert!(!seal.verifies(session, &OpenProof { ino, ..proof }));
        let rights = Rights::all();
        assert!(!seal.verifies(session, &OpenProof { rights, ..proof }));
        let others = [
            OpenSeal::new(Some(&key), Incarnation(6)),
            OpenSeal::new(Some(&ClusterKey::new([8; 32])), store),
            OpenSeal::new(None, store),
        ];
        for other in others {
            assert!(!other.verifies(session, &proof));
        }
    }
}

//! Directories that are open: what shows the server that they are. Whoever opened one may list it to the end, whatever becomes of
//! its mode.

use crate::answer;
use crate::service::Client;
use gupfs_platform::hash::Map;
use gupfs_proto::capability::OpenProof;
use gupfs_proto::meta::{Access, Op, OpenHow};
use gupfs_proto::{Caller, InodeId, Refusal, SessionId};
use parking_lot::Mutex;

/// By directory, how often it is open here.
#[derive(Default)]
pub(crate) struct OpenDirs(Mutex<Map<InodeId, OpenDir>>);

#[derive(Default)]
struct OpenDir {
    times: u64,
    proof: Option<(SessionId, OpenProof)>,
}

impl OpenDirs {
    fn add(&self, ino: InodeId, proof: Option<(SessionId, OpenProof)>) {
        let mut open = self.0.lock();
        let dir = open.entry(ino).or_default();
        dir.times += 1;
        // A former one may be of a session that was lost.
        dir.proof = proof.or(dir.proof);
    }

    fn remove(&self, ino: InodeId) {
        let mut open = self.0.lock();
        let Some(dir) = open.get_mut(&ino) else {
            return;
        };
        dir.times -= 1;
        if dir.times == 0 {
            open.remove(&ino);
        }
    }

    /// What shows that it was opened in this session.
    pub fn proof(&self, session: SessionId, ino: InodeId) -> Option<OpenProof> {
        let proof = self.0.lock().get(&ino)?.proof;
        let of_this = proof.filter(|(of, _)| *of == session);
        of_this.map(|(_, proof)| proof)
    }
}

impl Client {
    /// opendir(3): needs the right to read the directory, which `readdir` then has until `close_dir`.
    pub async fn open_dir(&self, caller: &Caller, dir: InodeId) -> Result<(), Refusal> {
        let access = Access::READ;
        let open = OpenHow {
            access,
            truncate: false,
            kill_privileges: false,
        };
        let op = Op::Open { ino: dir, open };
        let opened = answer::opened("open", self.ask(caller, op).await?)?;
        let given = opened.capability.as_ref();
        let proof = given.and_then(|given| given.open_proof(dir, access));
        let session = self.session();
        self.open_dirs.add(dir, proof.map(|proof| (session, proof)));
        Ok(())
    }

    /// closedir(3).
    pub fn close_dir(&self, dir: InodeId) {
        self.open_dirs.remove(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::capability::{Rights, Tag};

    #[test]
    fn a_directory_is_open_until_it_was_closed_as_often_and_in_its_session_alone() {
        let (dir, now, later) = (InodeId(5), SessionId(7), SessionId(8));
        let proof = OpenProof {
            ino: dir,
            rights: Rights::READ,
            tag: Tag([1; 16]),
        };
        let open = OpenDirs::default();
        assert_eq!(open.proof(now, dir), None);
        open.add(dir, Some((now, proof)));
        open.add(dir, Some((now, proof)));
        open.remove(dir);
        assert_eq!(open.proof(now, dir), Some(proof));
        assert_eq!(open.proof(later, dir), None);
        open.add(dir, Some((later, proof)));
        assert_eq!(open.proof(later, dir), Some(proof));
        open.remove(dir);
        open.remove(dir);
        open.remove(dir);
        assert_eq!((open.proof(later, dir), open.0.lock().len()), (None, 0));
    }
}

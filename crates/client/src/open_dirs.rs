//! Open directories and their open capabilities: a program that has opened a directory may list it to the end, even if its mode
//! changes meanwhile.

use gupfs_platform::hash::Map;
use gupfs_proto::capability::OpenCapability;
use gupfs_proto::{InodeId, SessionId};
use parking_lot::Mutex;

/// Open directories by inode.
#[derive(Default)]
pub struct OpenDirs(Mutex<Map<InodeId, OpenDir>>);

#[derive(Default)]
struct OpenDir {
    open_count: u64,
    open_capability: Option<(SessionId, OpenCapability)>,
}

impl OpenDirs {
    pub fn add(&self, ino: InodeId, open_capability: Option<(SessionId, OpenCapability)>) {
        let mut open = self.0.lock();
        let dir = open.entry(ino).or_default();
        dir.open_count += 1;
        // The former capability may be of a session that was lost.
        dir.open_capability = open_capability.or(dir.open_capability);
    }

    pub fn remove(&self, ino: InodeId) {
        let mut open = self.0.lock();
        let Some(dir) = open.get_mut(&ino) else {
            return;
        };
        dir.open_count -= 1;
        if dir.open_count == 0 {
            open.remove(&ino);
        }
    }

    /// The directory's open capability, if it was opened in this session.
    pub fn open_capability(&self, session: SessionId, ino: InodeId) -> Option<OpenCapability> {
        let open_capability = self.0.lock().get(&ino)?.open_capability;
        let of_this = open_capability.filter(|(of, _)| *of == session);
        of_this.map(|(_, open_capability)| open_capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::capability::{CapabilityMac, Rights};

    #[test]
    fn a_directory_is_open_until_its_last_close_and_only_in_its_session() {
        let (dir, now, later) = (InodeId(5), SessionId(7), SessionId(8));
        let open_capability = OpenCapability {
            ino: dir,
            rights: Rights::READ,
            mac: CapabilityMac([1; 16]),
        };
        let open = OpenDirs::default();
        assert_eq!(open.open_capability(now, dir), None);
        open.add(dir, Some((now, open_capability)));
        open.add(dir, Some((now, open_capability)));
        open.remove(dir);
        assert_eq!(open.open_capability(now, dir), Some(open_capability));
        assert_eq!(open.open_capability(later, dir), None);
        open.add(dir, Some((later, open_capability)));
        assert_eq!(open.open_capability(later, dir), Some(open_capability));
        open.remove(dir);
        open.remove(dir);
        open.remove(dir);
        assert_eq!(
            (open.open_capability(later, dir), open.0.lock().len()),
            (None, 0)
        );
    }
}

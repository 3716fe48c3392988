//! How often an inode is open here, and the right that the opens gave.

use gupfs_proto::SessionId;
use gupfs_proto::capability::OpenCapability;
use gupfs_proto::meta::{AccessMode, OpenInfo};

#[derive(Default)]
pub struct OpenCounts {
    handles: u32,
    writers: u32,
    /// The open capability and its session, which authorize this client at the server; of several opens the one with most
    /// rights.
    capability: Option<(SessionId, OpenCapability)>,
}

impl OpenCounts {
    pub fn add(&mut self, access: AccessMode) {
        self.handles += 1;
        self.writers += u32::from(access.contains(AccessMode::WRITE));
    }

    pub fn remove(&mut self, access: AccessMode) {
        self.handles -= 1;
        self.writers -= u32::from(access.contains(AccessMode::WRITE));
    }

    pub fn handles(&self) -> u32 {
        self.handles
    }

    pub fn writers(&self) -> u32 {
        self.writers
    }

    /// The session was lost: only the counts stay, which the files' close needs.
    pub fn invalidate(&mut self) {
        self.capability = None;
    }

    /// Keeps the open capability of an open with this access that the server has answered.
    pub fn keep_open_capability(
        &mut self,
        session: SessionId,
        opened: &OpenInfo,
        access: AccessMode,
    ) {
        let given = opened.capability.as_ref();
        let Some(capability) = given.and_then(|it| it.open_capability(opened.attr.ino, access))
        else {
            return;
        };
        let gives_more = |(of, known): &(SessionId, OpenCapability)| {
            *of == session && known.rights.contains(capability.rights)
        };
        if !self.capability.as_ref().is_some_and(gives_more) {
            self.capability = Some((session, capability));
        }
    }

    /// The open capability, if the file was opened in this session.
    pub fn capability(&self, session: SessionId) -> Option<OpenCapability> {
        let of_this = self.capability.filter(|(of, _)| *of == session);
        of_this.map(|(_, capability)| capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_counted_among_the_handles() {
        let mut opens = OpenCounts::default();
        let both = AccessMode::READ | AccessMode::WRITE;
        opens.add(AccessMode::READ);
        opens.add(both);
        assert_eq!((opens.handles(), opens.writers()), (2, 1));
        opens.remove(both);
        assert_eq!((opens.handles(), opens.writers()), (1, 0));
    }
}

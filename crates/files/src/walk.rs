//! # walk: from a path to an inode
//!
//! Owns   the order of steps in path_resolution(7): components, ".", "..", symbolic links, trailing slashes.
//! Never  keeps a lookup: each step gives back that of the step before, also when the walk ends early.
//! Enter  at `walk::to_inode`, `walk::to_parent`.

use crate::held_inode::HeldInode;
use crate::limits::{LINKS_MAX, PATH_MAX, STALE_TRIES};
use crate::shared_session::SharedSession;
use crate::user_files::FollowLinks;
use gupfs_proto::meta::AccessMode;
use gupfs_proto::{Caller, FileKind, FsError, Name};
use std::future::Future;
use std::sync::Arc;

/// The last component of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LastComponent {
    Name(Name),
    Dot,
    DotDot,
    /// The path has no component.
    Root,
}

impl LastComponent {
    /// The name, where only a name makes sense.
    pub fn name_or(self, otherwise: FsError) -> Result<Name, FsError> {
        match self {
            LastComponent::Name(name) => Ok(name),
            _ => Err(otherwise),
        }
    }
}

/// The directory of a path's last component.
pub(crate) struct ParentOfPath {
    pub dir: HeldInode,
    pub last: LastComponent,
    /// The path ends with a slash.
    pub has_slash: bool,
}

/// The inode that a path names.
///
/// # Errors
/// `NotFound`, `NotDirectory`, `Denied`, `Loop`, `NameTooLong`, and those of the servers.
pub(crate) async fn to_inode(
    core: &Arc<SharedSession>,
    caller: &Caller,
    path: &[u8],
    follow: FollowLinks,
) -> Result<HeldInode, FsError> {
    let mut walk = Walk::begin(core, caller, path)?;
    while let Some(component) = walk.pending.pop() {
        walk.step(&component, follow).await?;
    }
    walk.end()
}

/// The directory of the path's last component, which is not looked up.
///
/// # Errors
/// As `to_inode`.
pub(crate) async fn to_parent(
    core: &Arc<SharedSession>,
    caller: &Caller,
    path: &[u8],
) -> Result<ParentOfPath, FsError> {
    Walk::begin(core, caller, path)?.into_parent().await
}

/// A walk that may follow the last component: open(2) with O_CREAT, where the name may be a link to a name that does not exist.
pub(crate) struct Walk<'a> {
    core: &'a Arc<SharedSession>,
    caller: &'a Caller,
    at: HeldInode,
    /// The next one is the last.
    pending: Vec<Vec<u8>>,
    links: u32,
    has_slash: bool,
}

impl<'a> Walk<'a> {
    pub fn begin(
        core: &'a Arc<SharedSession>,
        caller: &'a Caller,
        path: &[u8],
    ) -> Result<Walk<'a>, FsError> {
        if path.is_empty() {
            return Err(FsError::NotFound);
        }
        if path.contains(&0) {
            return Err(FsError::Invalid);
        }
        if path.len() >= PATH_MAX {
            return Err(FsError::NameTooLong);
        }
        let mut walk = Walk {
            core,
            caller,
            at: HeldInode::root(core),
            pending: Vec::new(),
            links: 0,
            has_slash: false,
        };
        walk.push(path);
        Ok(walk)
    }

    /// Adds the components of a path before the pending ones.
    fn push(&mut self, path: &[u8]) {
        if self.pending.is_empty() {
            self.has_slash |= path.ends_with(b"/");
        }
        let components = path.split(|byte| *byte == b'/');
        let components = components.filter(|component| !component.is_empty());
        (self.pending).extend(components.rev().map(<[u8]>::to_vec));
    }

    /// Goes to all components but the last.
    pub async fn into_parent(mut self) -> Result<ParentOfPath, FsError> {
        self.advance_to_last().await?;
        let (last, has_slash) = self.take_last().await?;
        Ok(ParentOfPath {
            dir: self.at,
            last,
            has_slash,
        })
    }

    /// Goes to all components but the last, and returns that one. Where the walk is then is the directory.
    pub async fn advance_to_last(&mut self) -> Result<(), FsError> {
        while self.pending.len() > 1 {
            let component = self.pending.pop().unwrap_or_default();
            self.step(&component, FollowLinks::Yes).await?;
        }
        match self.at.kind() {
            FileKind::Directory => Ok(()),
            _ => Err(FsError::NotDirectory),
        }
    }

    /// The last component, after `advance_to_last`, and whether a slash follows.
    ///
    /// # Errors
    /// `Denied` for "." and ".." in a directory without search permission, which no server sees; `NameTooLong`.
    pub async fn take_last(&mut self) -> Result<(LastComponent, bool), FsError> {
        let last = match self.pending.pop().as_deref() {
            None => LastComponent::Root,
            Some(dots @ (b"." | b"..")) => {
                let (client, dir) = (&self.core.client, self.at.ino());
                let search = client.access(self.caller, dir, AccessMode::EXECUTE);
                search.await?;
                match dots {
                    b"." => LastComponent::Dot,
                    _ => LastComponent::DotDot,
                }
            }
            Some(name) => LastComponent::Name(Name::new(name)?),
        };
        Ok((last, self.has_slash))
    }

    pub fn dir(&self) -> &HeldInode {
        &self.at
    }

    /// Follows a link that the last component of the path names.
    pub async fn follow_last(&mut self, link: HeldInode) -> Result<(), FsError> {
        self.follow(link).await
    }

    fn end(self) -> Result<HeldInode, FsError> {
        match self.has_slash && self.at.kind() != FileKind::Directory {
            true => Err(FsError::NotDirectory),
            false => Ok(self.at),
        }
    }

    async fn step(&mut self, component: &[u8], follow: FollowLinks) -> Result<(), FsError> {
        if self.at.kind() != FileKind::Directory {
            return Err(FsError::NotDirectory);
        }
        let (core, caller, dir) = (self.core, self.caller, self.at.ino());
        let found = match component {
            b"." => {
                let search = core.client.access(caller, dir, AccessMode::EXECUTE);
                return search.await;
            }
            b".." => core.client.lookup_parent(caller, dir).await?,
            name => core.client.lookup(caller, dir, &Name::new(name)?).await?,
        };
        let found = HeldInode::counted(core, found);
        let is_last = self.pending.is_empty() && !self.has_slash;
        if found.kind() != FileKind::Symlink || (is_last && follow == FollowLinks::No) {
            self.at = found;
            return Ok(());
        }
        self.follow(found).await
    }

    /// Continues with the target of a link in the directory where the walk is.
    async fn follow(&mut self, link: HeldInode) -> Result<(), FsError> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(FsError::Loop);
        }
        let (core, caller) = (self.core, self.caller);
        if self.pending.is_empty() {
            let attr = link.attr(caller).await?;
            if attr.uid != caller.uid {
                let dir = self.at.attr(caller).await?;
                core.rules.check_follow(caller, &dir, &attr)?;
            }
        }
        let target = core.client.readlink(caller, link.ino()).await?;
        if target.is_empty() {
            return Err(FsError::NotFound);
        }
        if target.starts_with(b"/") {
            self.at = HeldInode::root(core);
        }
        self.push(&target);
        Ok(())
    }
}

/// Runs an operation again as long as it finds that a part of its path was removed or replaced meanwhile.
///
/// # Errors
/// Those of the operation; `NotFound` if the path changes all the time.
pub(crate) async fn again_while_stale<T, F>(operation: impl Fn() -> F) -> Result<T, FsError>
where
    F: Future<Output = Result<T, FsError>>,
{
    for _ in 0..STALE_TRIES {
        match operation().await {
            Err(FsError::Stale) => {}
            result => return result,
        }
    }
    Err(FsError::NotFound)
}

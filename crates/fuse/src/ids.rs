//! The numbers of the protocol, one type each.

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// What the kernel calls an inode by; chosen by the file system in the answer to LOOKUP and to whatever creates.
    NodeId
}
number! {
    /// What the file system calls an open file or directory by; comes back with every use of it.
    Handle
}
number! {
    /// The kernel's name for the owner of POSIX locks: a process's table of files, scrambled. For flock and OFD
    /// locks, the open file.
    LockOwner
}
number! {
    /// Names one request until it is answered. Never used twice in a mount.
    Unique
}

impl NodeId {
    /// The root of the mount; known to the kernel without a LOOKUP.
    pub const ROOT: NodeId = NodeId(1);
    /// In the answer to LOOKUP: the name does not exist, and the kernel may remember that.
    pub const NONE: NodeId = NodeId(0);
}

impl Unique {
    const RESENT: u64 = 1 << 63;

    /// The kernel sends this request a second time, after `Notifier::resend`.
    pub fn is_resent(self) -> bool {
        self.0 & Self::RESENT != 0
    }
}

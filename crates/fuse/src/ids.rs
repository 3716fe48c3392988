//! The identifiers of the protocol, one type each.

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
    /// The kernel's identifier of an inode; the file system chooses it in the reply to LOOKUP and to creating operations.
    NodeId
}
number! {
    /// The file system's identifier of an open file or directory; the kernel sends it with every operation on it.
    FileHandle
}
number! {
    /// The kernel's identifier of the owner of POSIX locks: a hash of the process's file table. For flock and OFD locks: of the
    /// open file.
    LockOwner
}
number! {
    /// Identifies one request until it is replied to. Never reused within a mount.
    Unique
}

impl NodeId {
    /// The root of the mount; the kernel knows it without a LOOKUP.
    pub const ROOT: NodeId = NodeId(1);
    /// In the reply to LOOKUP: the name does not exist, and the kernel may cache a negative dentry.
    pub const NONE: NodeId = NodeId(0);
}

impl Unique {
    const RESENT: u64 = 1 << 63;

    /// Whether the kernel sends this request again, after `Notifier::resend`.
    pub fn is_resent(self) -> bool {
        self.0 & Self::RESENT != 0
    }
}

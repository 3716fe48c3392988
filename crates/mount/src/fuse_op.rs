//! The operations that a mount counts.

/// The counted operations. The discriminant is the index of the operation's counters and of its row in `ALL_OPS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseOp {
    Lookup,
    Getattr,
    Statx,
    Setattr,
    Readlink,
    Symlink,
    Mknod,
    Mkdir,
    Unlink,
    Rmdir,
    Rename,
    Link,
    Open,
    Create,
    Tmpfile,
    Read,
    Write,
    Flush,
    Release,
    Fsync,
    Opendir,
    Readdir,
    Readdirplus,
    Releasedir,
    Fsyncdir,
    Statfs,
    Syncfs,
    Setxattr,
    Getxattr,
    Listxattr,
    Removexattr,
    Fallocate,
    Lseek,
    CopyFileRange,
    Access,
    Getlk,
    Setlk,
    Setlkw,
    Ioctl,
}

/// Every operation with its name in metrics.
pub const ALL_OPS: [(FuseOp, &str); 39] = [
    (FuseOp::Lookup, "lookup"),
    (FuseOp::Getattr, "getattr"),
    (FuseOp::Statx, "statx"),
    (FuseOp::Setattr, "setattr"),
    (FuseOp::Readlink, "readlink"),
    (FuseOp::Symlink, "symlink"),
    (FuseOp::Mknod, "mknod"),
    (FuseOp::Mkdir, "mkdir"),
    (FuseOp::Unlink, "unlink"),
    (FuseOp::Rmdir, "rmdir"),
    (FuseOp::Rename, "rename"),
    (FuseOp::Link, "link"),
    (FuseOp::Open, "open"),
    (FuseOp::Create, "create"),
    (FuseOp::Tmpfile, "tmpfile"),
    (FuseOp::Read, "read"),
    (FuseOp::Write, "write"),
    (FuseOp::Flush, "flush"),
    (FuseOp::Release, "release"),
    (FuseOp::Fsync, "fsync"),
    (FuseOp::Opendir, "opendir"),
    (FuseOp::Readdir, "readdir"),
    (FuseOp::Readdirplus, "readdirplus"),
    (FuseOp::Releasedir, "releasedir"),
    (FuseOp::Fsyncdir, "fsyncdir"),
    (FuseOp::Statfs, "statfs"),
    (FuseOp::Syncfs, "syncfs"),
    (FuseOp::Setxattr, "setxattr"),
    (FuseOp::Getxattr, "getxattr"),
    (FuseOp::Listxattr, "listxattr"),
    (FuseOp::Removexattr, "removexattr"),
    (FuseOp::Fallocate, "fallocate"),
    (FuseOp::Lseek, "lseek"),
    (FuseOp::CopyFileRange, "copy_file_range"),
    (FuseOp::Access, "access"),
    (FuseOp::Getlk, "getlk"),
    (FuseOp::Setlk, "setlk"),
    (FuseOp::Setlkw, "setlkw"),
    (FuseOp::Ioctl, "ioctl"),
];

const _: () = {
    let mut index = 0;
    while index < ALL_OPS.len() {
        assert!(ALL_OPS[index].0 as usize == index);
        index += 1;
    }
};

impl FuseOp {
    pub fn name(self) -> &'static str {
        ALL_OPS[self as usize].1
    }

    /// Whether a read-only mount refuses the operation, whatever its arguments. OPEN and IOCTL change something with some
    /// arguments only: their functions check.
    pub fn changes(self) -> bool {
        matches!(
            self,
            FuseOp::Setattr
                | FuseOp::Symlink
                | FuseOp::Mknod
                | FuseOp::Mkdir
                | FuseOp::Unlink
                | FuseOp::Rmdir
                | FuseOp::Rename
                | FuseOp::Link
                | FuseOp::Create
                | FuseOp::Tmpfile
                | FuseOp::Write
                | FuseOp::Setxattr
                | FuseOp::Removexattr
                | FuseOp::Fallocate
                | FuseOp::CopyFileRange
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operations that the methods of `FileSystem` pass to `run`, by the method's name.
    fn counted_methods() -> Vec<(&'static str, String)> {
        let methods = include_str!("requests.rs").split("\n    async fn ").skip(1);
        let counted = methods.filter_map(|method| {
            let (_, passed) = method.split_once("FuseOp::")?;
            let end = passed.find(|letter: char| !letter.is_alphanumeric())?;
            Some((method.split_once('(')?.0, passed[..end].to_owned()))
        });
        counted.collect()
    }

    #[test]
    fn every_request_is_counted_under_its_name() {
        let rows: Vec<_> = ALL_OPS
            .iter()
            .map(|(op, name)| (*name, format!("{op:?}")))
            .collect();
        assert_eq!(counted_methods(), rows);
    }
}

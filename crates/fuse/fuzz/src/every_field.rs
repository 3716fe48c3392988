//! A file system that uses every field, and replies with every size, also with more than was requested.

use std::future::{Future, poll_fn, ready};
use std::hint::black_box;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use gupfs_fuse::*;

/// The file system; see the module's documentation.
pub struct EveryFieldFs;

const BYTES_MAX: usize = 64 << 10;

/// The reply to a WRITE: a checksum of its bytes.
pub fn sum(bytes: &[u8]) -> u32 {
    let add = |sum: u32, byte: &u8| sum.wrapping_mul(31).wrapping_add(u32::from(*byte));
    bytes.iter().fold(1, add)
}

fn entry(call: &Call) -> EntryReply {
    EntryReply {
        node: NodeId(call.node.0.wrapping_add(1)),
        ..EntryReply::absent(Duration::MAX)
    }
}

fn attributes(call: &Call) -> AttrReply {
    AttrReply {
        attr: entry(call).attr,
        ttl: Duration::from_nanos(call.unique.0),
    }
}

fn opened(call: &Call) -> OpenReply {
    OpenReply {
        fh: FileHandle(call.node.0),
        flags: OpenReplyFlags::all(),
    }
}

fn created(call: &Call) -> CreateReply {
    CreateReply {
        entry: entry(call),
        opened: opened(call),
    }
}

fn read_fields(op: &op::Setattr) {
    black_box((op.mode(), op.uid(), op.gid(), op.size(), op.fh()));
    black_box((op.lock_owner(), op.atime(), op.mtime(), op.ctime()));
    black_box(op.kill_suidgid());
}

/// The requested size, or one byte more, depending on the node.
fn reply_size(call: &Call, size: u32) -> usize {
    (size as usize).min(BYTES_MAX) + usize::from(call.node.0 % 8 == 7)
}

fn data(call: &Call, op: &op::Read) -> ReplyData {
    let size = reply_size(call, op.size);
    match call.node.0 % 4 {
        0 => call.scratch(size).into(),
        1 => vec![1; size].into(),
        2 => vec![
            Bytes::from(vec![2; size / 2]),
            Bytes::from(vec![3; size - size / 2]),
        ]
        .into(),
        _ => {
            let (first, mut second) = (call.scratch(size), call.scratch(size));
            second.copy_from_slice(&first);
            second.into()
        }
    }
}

fn names(op: &op::Readdir) -> Dirents {
    let mut dirents = Dirents::new(op);
    let more = |at: &u64| dirents.push(*at, *at, 0o100644, &b"a name"[..(*at % 7) as usize]);
    black_box((1..100).take_while(more).count());
    dirents
}

fn names_and_attributes(call: &Call, op: &op::Readdir) -> DirentsPlus {
    let mut dirents = DirentsPlus::new(op);
    let more = |at: &u64| dirents.push(&entry(call), *at, b"a name");
    black_box((1..100).take_while(more).count());
    dirents
}

macro_rules! every_field {
    ($($method:ident($call:ident, $op:ident: $kind:ty) -> $reply:ty = $value:expr;)*) => {
        $(
            fn $method(&self, $call: Call, $op: $kind) -> impl Future<Output = Result<$reply>> + Send {
                black_box(format!("{:?} {:?}", $call, $op));
                ready(Ok($value))
            }
        )*
    };
}

impl FileSystem for EveryFieldFs {
    every_field! {
        lookup(call, op: op::Lookup) -> EntryReply = entry(&call);
        getattr(call, op: op::Getattr) -> AttrReply = attributes(&call);
        statx(call, op: op::Statx) -> StatxReply = StatxReply { statx: Statx::default(), ttl: Duration::MAX };
        setattr(call, op: op::Setattr) -> AttrReply = { read_fields(&op); attributes(&call) };
        readlink(call, op: ()) -> Vec<u8> = vec![b'a'; (call.node.0 % 5000) as usize];
        symlink(call, op: op::Symlink) -> EntryReply = entry(&call);
        mknod(call, op: op::Mknod) -> EntryReply = entry(&call);
        mkdir(call, op: op::Mkdir) -> EntryReply = entry(&call);
        unlink(call, op: op::Unlink) -> () = ();
        rmdir(call, op: op::Rmdir) -> () = ();
        rename(call, op: op::Rename) -> () = ();
        link(call, op: op::Link) -> EntryReply = entry(&call);
        open(call, op: op::Open) -> OpenReply = opened(&call);
        create(call, op: op::Create) -> CreateReply = created(&call);
        tmpfile(call, op: op::Tmpfile) -> CreateReply = created(&call);
        read(call, op: op::Read) -> ReplyData = { black_box(op.is_direct()); data(&call, &op) };
        write(call, op: op::Write) -> u32 = sum(&op.data);
        flush(call, op: op::Flush) -> () = ();
        release(call, op: op::Release) -> () = ();
        fsync(call, op: op::Fsync) -> () = ();
        opendir(call, op: op::Open) -> OpenReply = opened(&call);
        readdir(call, op: op::Readdir) -> Dirents = names(&op);
        readdirplus(call, op: op::Readdir) -> DirentsPlus = names_and_attributes(&call, &op);
        releasedir(call, op: op::Release) -> () = ();
        fsyncdir(call, op: op::Fsync) -> () = ();
        statfs(call, op: ()) -> StatfsReply = StatfsReply::default();
        syncfs(call, op: ()) -> () = ();
        setxattr(call, op: op::Setxattr) -> () = ();
        listxattr(call, op: op::Listxattr) -> XattrReply = XattrReply::Value(vec![1; reply_size(&call, op.size)]);
        removexattr(call, op: op::Removexattr) -> () = ();
        getlk(call, op: op::Lock) -> op::FileLock = op.lock;
        setlk(call, op: op::Lock) -> () = { black_box(op.is_flock()); };
        access(call, op: op::Access) -> () = ();
        fallocate(call, op: op::Fallocate) -> () = ();
        lseek(call, op: op::Lseek) -> u64 = op.offset;
        copy_file_range(call, op: op::CopyFileRange) -> u64 = op.length;
        bmap(call, op: op::Bmap) -> u64 = op.block;
        ioctl(call, op: op::Ioctl) -> IoctlReply = IoctlReply { result: -1, data: vec![1; reply_size(&call, op.out_size)] };
        poll(call, op: op::Poll) -> u32 = op.events;
    }

    async fn getxattr(&self, call: Call, op: op::Getxattr) -> Result<XattrReply> {
        black_box(format!("{call:?} {op:?}"));
        XattrReply::fit(op.name.as_bytes().to_vec(), op.size)
    }

    /// Is pending once, so that it goes to the spawner.
    async fn setlkw(&self, call: Call, op: op::Lock) -> Result<()> {
        black_box(format!("{call:?} {op:?}"));
        let mut polls = 0;
        poll_fn(|_| {
            polls += 1;
            if polls == 1 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
        if call.is_interrupted() {
            Err(Errno::EINTR)
        } else {
            Ok(())
        }
    }

    async fn forget(&self, batch: Vec<op::Forget>) {
        black_box(format!("{batch:?}"));
    }

    async fn retrieved(&self, call: Call, op: op::Retrieved) {
        black_box(format!("{call:?} {op:?} {}", sum(&op.data)));
    }
}

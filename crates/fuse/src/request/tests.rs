//! Parses every opcode: complete, truncated, lengthened and random messages.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::samples::*;
use super::*;
use crate::limits::BEFORE_PAYLOAD;

const LONG: RequestFormat = RequestFormat { setxattr_ext: true };
const SHORT: RequestFormat = RequestFormat {
    setxattr_ext: false,
};

fn parse(bytes: &[u8], format: &RequestFormat) -> Result<Request, Malformed> {
    RequestHeader::from_wire(bytes).and_then(|header| Request::from_wire(&header, bytes, format))
}

#[test]
fn every_field_of_every_operation_is_parsed() {
    let mut table = String::new();
    for opcode in Opcode::ALL {
        let request = parse(&message(*opcode as u32, &sample_body(*opcode)), &LONG).unwrap();
        table.push_str(&format!("{} {:?}\n", *opcode as u32, request.operation));
    }
    let expected: Expect = expect![[r#"
        1 Lookup(Lookup { name: "name" })
        2 Forget([Forget { node: NodeId(0x9), lookups: 3 }])
        3 Getattr(Getattr { flags: GetattrFlags(FH), fh: Some(FileHandle(0x7)) })
        4 Setattr(Setattr { valid: SetattrValid(MODE | UID | GID | SIZE | ATIME | MTIME | FH | ATIME_NOW | MTIME_NOW | LOCKOWNER | CTIME | KILL_SUIDGID), raw_fh: FileHandle(0x1), raw_size: 2, raw_lock_owner: LockOwner(0x3), raw_atime: FuseTimestamp { seconds: 4, nanos: 7 }, raw_mtime: FuseTimestamp { seconds: 5, nanos: 8 }, raw_ctime: FuseTimestamp { seconds: -6, nanos: 9 }, raw_mode: 10, raw_uid: 11, raw_gid: 12 })
        5 Readlink
        6 Symlink(Symlink { name: "name", target: [116, 111, 47, 119, 104, 101, 114, 101] })
        8 Mknod(Mknod { name: "name", mode: 1, rdev: 2, umask: 3 })
        9 Mkdir(Mkdir { name: "name", mode: 1, umask: 2 })
        10 Unlink(Unlink { name: "name" })
        11 Rmdir(Rmdir { name: "name" })
        12 Rename(Rename { name: "old", new_directory: NodeId(0x5), new_name: "new", flags: 0 })
        13 Link(Link { target: NodeId(0x5), name: "name" })
        14 Open(Open { flags: 2, open_flags: OpenFlags(KILL_SUIDGID) })
        15 Read(Read { fh: FileHandle(0x1), offset: 2, size: 3, flags: ReadFlags(LOCKOWNER), lock_owner: Some(LockOwner(0x4)), open_flags: 5 })
        16 Write(WriteHead { fh: FileHandle(0x1), offset: 2, size: 4, flags: WriteFlags(CACHE | LOCKOWNER | KILL_SUIDGID), lock_owner: Some(LockOwner(0x5)), open_flags: 6 })
        17 Statfs
        18 Release(Release { fh: FileHandle(0x1), open_flags: 2, flags: ReleaseFlags(FLUSH | FLOCK_UNLOCK), lock_owner: LockOwner(0x4) })
        20 Fsync(Fsync { fh: FileHandle(0x1), flags: FsyncFlags(DATASYNC) })
        21 Setxattr(Setxattr { name: "user.x", value: [118, 97, 108, 117, 101], flags: 1, setxattr_flags: SetxattrFlags(ACL_KILL_SGID) })
        22 Getxattr(Getxattr { name: "user.x", size: 5 })
        23 Listxattr(Listxattr { size: 5 })
        24 Removexattr(Removexattr { name: "name" })
        25 Flush(Flush { fh: FileHandle(0x1), lock_owner: LockOwner(0x2) })
        26 Unsupported(26)
        27 Opendir(Open { flags: 2, open_flags: OpenFlags(KILL_SUIDGID) })
        28 Readdir(Readdir { fh: FileHandle(0x1), offset: 2, size: 3 })
        29 Releasedir(Release { fh: FileHandle(0x1), open_flags: 2, flags: ReleaseFlags(FLUSH | FLOCK_UNLOCK), lock_owner: LockOwner(0x4) })
        30 Fsyncdir(Fsync { fh: FileHandle(0x1), flags: FsyncFlags(DATASYNC) })
        31 Getlk(Lock { fh: FileHandle(0x1), owner: LockOwner(0x2), lock: FileLock { start: 3, end: 4, kind: Write, pid: 6 }, flags: LockFlags(FLOCK) })
        32 Setlk(Lock { fh: FileHandle(0x1), owner: LockOwner(0x2), lock: FileLock { start: 3, end: 4, kind: Write, pid: 6 }, flags: LockFlags(FLOCK) })
        33 Setlkw(Lock { fh: FileHandle(0x1), owner: LockOwner(0x2), lock: FileLock { start: 3, end: 4, kind: Write, pid: 6 }, flags: LockFlags(FLOCK) })
        34 Access(Access { mask: 4 })
        35 Create(Create { name: "name", flags: 1, mode: 2, umask: 3, open_flags: OpenFlags(KILL_SUIDGID) })
        36 Interrupt(Unique(0x3))
        37 Bmap(Bmap { block: 1, block_size: 2 })
        38 Destroy
        39 Ioctl(Ioctl { fh: FileHandle(0x1), flags: IoctlFlags(DIR), cmd: 2, arg: 3, data: [100, 97, 116, 97], out_size: 5 })
        40 Poll(Poll { fh: FileHandle(0x1), kh: 2, flags: PollFlags(SCHEDULE_NOTIFY), events: 4 })
        41 Retrieved(RetrievedHead { offset: 1, size: 4 })
        42 Forget([Forget { node: NodeId(0x5), lookups: 6 }, Forget { node: NodeId(0x7), lookups: 8 }])
        43 Fallocate(Fallocate { fh: FileHandle(0x1), offset: 2, length: 3, mode: 4 })
        44 Readdirplus(Readdir { fh: FileHandle(0x1), offset: 2, size: 3 })
        45 Rename(Rename { name: "old", new_directory: NodeId(0x5), new_name: "new", flags: 1 })
        46 Lseek(Lseek { fh: FileHandle(0x1), offset: 2, whence: 3 })
        47 CopyFileRange(CopyFileRange { fh: FileHandle(0x1), offset: 2, to_node: NodeId(0x3), to_fh: FileHandle(0x4), to_offset: 5, length: 4294967295, flags: 7 })
        48 Unsupported(48)
        49 Unsupported(49)
        50 Syncfs
        51 Tmpfile(Tmpfile { flags: 1, mode: 2, umask: 3, open_flags: OpenFlags(KILL_SUIDGID) })
        52 Statx(Statx { getattr_flags: GetattrFlags(FH), fh: Some(FileHandle(0x2)), flags: 3, mask: 4 })
        53 CopyFileRange64(CopyFileRange { fh: FileHandle(0x1), offset: 2, to_node: NodeId(0x3), to_fh: FileHandle(0x4), to_offset: 5, length: 1099511627776, flags: 7 })
    "#]];
    expected.assert_eq(&table);
}

#[test]
fn a_truncated_body_is_rejected() {
    for opcode in Opcode::ALL {
        let body = sample_body(*opcode);
        // The parser does not read the body of SYNCFS.
        if matches!(opcode, Opcode::Syncfs) {
            continue;
        }
        // A NOTIFY_REPLY may carry fewer data bytes than its size field states.
        let needed = match opcode {
            Opcode::NotifyReply => 40,
            _ => body.len(),
        };
        for length in 0..needed {
            let cut = parse(&message(*opcode as u32, &body[..length]), &LONG);
            assert!(cut.is_err(), "{opcode:?} of {length} bytes: {cut:?}");
        }
    }
}

#[test]
fn unknown_bytes_after_a_body_are_ignored() {
    for opcode in Opcode::ALL {
        let body = sample_body(*opcode);
        let known = format!(
            "{:?}",
            parse(&message(*opcode as u32, &body), &LONG).unwrap()
        );
        let longer = [&body[..], &[0xaa; 24]].concat();
        let read = format!(
            "{:?}",
            parse(&message(*opcode as u32, &longer), &LONG).unwrap()
        );
        assert_eq!(known, read);
    }
}

#[test]
fn setxattr_is_parsed_in_the_negotiated_form() {
    let short = body(&[Word(5), Word(1), Text(b"user.x\0"), Text(b"value")]);
    let Operation::Setxattr(op) = parse(&message(21, &short), &SHORT).unwrap().operation else {
        panic!()
    };
    assert_eq!(
        (op.name.as_bytes(), &op.value[..]),
        (&b"user.x"[..], &b"value"[..])
    );
    assert!(op.setxattr_flags.is_empty());
}

#[test]
fn counts_beyond_the_message_are_rejected() {
    let forgets = message(42, &body(&[Word(u32::MAX), Word(0), Quad(5), Quad(6)]));
    let refused = parse(&forgets, &LONG).unwrap_err();
    assert_eq!(
        refused,
        Malformed::Count {
            field: "count",
            stated: u32::MAX as usize,
            limit: 1
        }
    );
    let write = [
        Quad(1),
        Quad(2),
        Word(u32::MAX),
        Word(7),
        Quad(5),
        Word(6),
        Word(0),
        Text(b"data"),
    ];
    let refused = parse(&message(16, &body(&write)), &LONG).unwrap_err();
    assert_eq!(
        refused,
        Malformed::Short {
            field: "data",
            need: u32::MAX as usize,
            have: 4
        }
    );
    let value = [
        Word(u32::MAX),
        Word(1),
        Word(1),
        Word(0),
        Text(b"user.x\0"),
        Text(b"value"),
    ];
    assert!(parse(&message(21, &body(&value)), &LONG).is_err());
}

#[test]
fn an_ioctl_may_request_the_largest_size_of_its_field() {
    let ioctl = [Quad(1), Word(16), Word(2), Quad(3), Word(0), Word(u32::MAX)];
    let request = parse(&message(39, &body(&ioctl)), &LONG).unwrap();
    assert_eq!(request.operation.reply_body_max(), 16 + u32::MAX as usize);
}

#[test]
fn unknown_opcodes_are_unsupported_and_not_malformed() {
    for opcode in [0, 7, 19, 54, 4096, u32::MAX] {
        let request = parse(&message(opcode, b"whatever"), &LONG).unwrap();
        assert!(matches!(request.operation, Operation::Unsupported(number) if number == opcode));
    }
}

#[test]
fn fields_that_a_setattr_does_not_mark_valid_are_none() {
    let fields: Vec<Field> = std::iter::once(Word(1 << 4 | 1 << 7 | 1 << 5))
        .chain((0..21).map(Word))
        .collect();
    let Operation::Setattr(op) = parse(&message(4, &body(&fields)), &LONG).unwrap().operation
    else {
        panic!()
    };
    assert_eq!(
        (op.mode(), op.uid(), op.gid(), op.size(), op.fh()),
        (None, None, None, None, None)
    );
    assert_eq!(
        (op.lock_owner(), op.ctime(), op.kill_suidgid()),
        (None, None, false)
    );
    assert_eq!(op.atime(), Some(op::SetTime::Now));
    assert!(matches!(op.mtime(), Some(op::SetTime::At(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), long in any::<bool>()) {
        let _ = parse(&bytes, &RequestFormat { setxattr_ext: long });
    }

    #[test]
    fn random_bytes_after_a_valid_header_never_panic(
        opcode in 0..60u32,
        body in prop::collection::vec(any::<u8>(), 0..300),
        extensions in 0..40u16,
        long in any::<bool>(),
    ) {
        let mut bytes = message(opcode, &body);
        bytes[36..38].copy_from_slice(&extensions.to_ne_bytes());
        let parsed = parse(&bytes, &RequestFormat { setxattr_ext: long });
        if let Ok(Request { operation: Operation::Write(head), .. }) = parsed {
            prop_assert!(BEFORE_PAYLOAD + head.size <= bytes.len());
        }
    }

    #[test]
    fn a_valid_message_with_a_few_changed_bytes_never_panics(
        which in 0..Opcode::ALL.len(),
        changes in prop::collection::vec((0..200usize, any::<u8>()), 0..4),
    ) {
        let opcode = Opcode::ALL[which];
        let mut bytes = message(opcode as u32, &sample_body(opcode));
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let _ = parse(&bytes, &LONG);
    }
}

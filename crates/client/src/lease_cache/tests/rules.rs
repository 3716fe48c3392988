//! Single rules of the cache: whose permission is checked how, and which replies fill it.

use super::{attr, name};
use crate::lease_cache::{AffectedInodes, LeaseCache};
use crate::limits::LISTED_ATTRIBUTES_MAX;
use bytes::Bytes;
use gupfs_namespace::{Acl, ReaddirCookie};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::lease::{GrantNumber, LeaseGrant, LeaseKey, LeaseReply, LeaseRevocation};
use gupfs_proto::meta::*;
use gupfs_proto::{Attr, Caller, FileKind, FileMode, FsError, InodeId, Name, Slot};
use std::sync::Arc;

type Outcome = Result<MetaReplyBody, FsError>;

const DIR: InodeId = InodeId(1);
const FILE: InodeId = InodeId(5);

/// A cache whose server grants leases, and does not squash root.
fn cache() -> LeaseCache {
    accepted_by(false)
}

fn accepted_by(squashes_root: bool) -> LeaseCache {
    let cache = LeaseCache::new(true, Arc::default());
    accept(&cache, squashes_root);
    cache
}

fn accept(cache: &LeaseCache, squashes_root: bool) {
    let asked = cache.ask().unwrap();
    cache.accepted(asked, squashes_root);
}

fn granted(keys: &[LeaseKey]) -> LeaseReply {
    let grant = |key: &LeaseKey| LeaseGrant {
        key: *key,
        number: GrantNumber(1),
    };
    LeaseReply {
        grants: keys.iter().map(grant).collect(),
        ..LeaseReply::default()
    }
}

/// Sends a request and gets this reply.
fn ask(cache: &LeaseCache, op: &MetaOp, outcome: &Outcome, keys: &[LeaseKey]) {
    let mut call = cache.begin(op, None);
    call.start_request();
    call.finish(&Caller::root(), op, outcome, &granted(keys));
}

fn answer(cache: &LeaseCache, caller: &Caller, op: &MetaOp) -> Option<Outcome> {
    cache.answer(caller, op, || false)
}

fn getattr(ino: InodeId) -> MetaOp {
    MetaOp::GetAttr { ino }
}

fn learn(cache: &LeaseCache, attr: Attr) {
    let told = Ok(MetaReplyBody::Attr(attr));
    let key = LeaseKey::Attributes(attr.ino);
    ask(cache, &getattr(attr.ino), &told, &[key]);
}

fn lookup(text: &str) -> MetaOp {
    MetaOp::Lookup {
        dir: DIR,
        name: name(text),
    }
}

/// The directory with this mode, and an absent name in it.
fn learn_absent(cache: &LeaseCache, mode: u16, flags: InodeFlags) {
    let mut dir = attr(DIR.0, FileKind::Directory, 3);
    (dir.mode, dir.flags) = (FileMode(mode), flags);
    learn(cache, dir);
    let key = LeaseKey::Name { dir: DIR, hash: 9 };
    ask(cache, &lookup("absent"), &Err(FsError::NotFound), &[key]);
}

fn chmod(ino: InodeId) -> MetaOp {
    let set = SetAttr {
        mode: Some(0),
        ..SetAttr::default()
    };
    MetaOp::SetAttr { ino, set }
}

#[test]
fn a_name_is_answered_to_those_who_may_search_its_directory() {
    let cache = cache();
    learn_absent(&cache, 0o710, InodeFlags::empty());
    let told = |caller: &Caller| answer(&cache, caller, &lookup("absent"));
    let absent = Some(Err(FsError::NotFound));
    assert_eq!(told(&Caller::root()), absent);
    assert_eq!(told(&Caller::new(1000, 1, [])), absent, "the owner");
    assert_eq!(told(&Caller::new(7, 1, [100])), absent, "the group");
    assert_eq!(told(&Caller::new(7, 1, [])), None);
}

#[test]
fn root_of_a_host_whose_root_is_squashed_is_nobody() {
    for (squashes_root, expected) in [(false, Some(Err(FsError::NotFound))), (true, None)] {
        let cache = accepted_by(squashes_root);
        learn_absent(&cache, 0o700, InodeFlags::empty());
        let told = answer(&cache, &Caller::root(), &lookup("absent"));
        assert_eq!(told, expected);
    }
}

#[test]
fn a_directory_with_an_acl_is_left_to_the_server_until_the_acl_is_known() {
    let cache = cache();
    learn_absent(&cache, 0o770, InodeFlags::HAS_ACL);
    let friend = Caller::new(7, 1, []);
    assert_eq!(answer(&cache, &friend, &lookup("absent")), None);
    let acl = Acl {
        owner: 7,
        users: vec![(7, 5)],
        group: 0,
        groups: vec![],
        mask: Some(7),
        other: 0,
    };
    let op = MetaOp::GetXattr {
        ino: DIR,
        name: XattrName::new(b"system.posix_acl_access").unwrap(),
    };
    let value = Ok(MetaReplyBody::Xattr(Bytes::from(acl.to_bytes())));
    ask(&cache, &op, &value, &[LeaseKey::Attributes(DIR)]);
    let absent = Some(Err(FsError::NotFound));
    assert_eq!(answer(&cache, &friend, &lookup("absent")), absent);
    let stranger = Caller::new(8, 1, []);
    assert_eq!(answer(&cache, &stranger, &lookup("absent")), None);
}

#[test]
fn without_a_lease_nothing_is_answered() {
    let cache = LeaseCache::new(true, Arc::default());
    learn(&cache, attr(5, FileKind::Regular, 1));
    accept(&cache, false);
    assert_eq!(answer(&cache, &Caller::root(), &getattr(FILE)), None);
    let told = Ok(MetaReplyBody::Attr(attr(5, FileKind::Regular, 1)));
    ask(&cache, &getattr(FILE), &told, &[]);
    assert_eq!(answer(&cache, &Caller::root(), &getattr(FILE)), None);
    let alone = LeaseCache::new(false, Arc::default());
    assert!(alone.ask().is_none());
}

/// Replies to requests of before, with leases, that arrive after `event`.
fn fills_after(event: impl FnOnce(&LeaseCache)) -> bool {
    let cache = cache();
    let op = getattr(FILE);
    let mut call = cache.begin(&op, None);
    call.start_request();
    event(&cache);
    let told = Ok(MetaReplyBody::Attr(attr(5, FileKind::Regular, 1)));
    let leases = granted(&[LeaseKey::Attributes(FILE)]);
    call.finish(&Caller::root(), &op, &told, &leases);
    answer(&cache, &Caller::root(), &op).is_some()
}

#[test]
fn replies_from_before_the_end_of_a_term_fill_nothing() {
    assert!(fills_after(|_| {}));
    assert!(!fills_after(LeaseCache::clear));
    assert!(!fills_after(|cache| {
        cache.restart();
        accept(cache, false);
    }));
    assert!(!fills_after(|cache| {
        let revoked = cache.revoke(&LeaseRevocation {
            upto: GrantNumber(7),
            keys: vec![LeaseKey::Attributes(FILE), LeaseKey::Data(FILE)],
        });
        assert_eq!(revoked, AffectedInodes::These(vec![FILE]));
    }));
}

#[test]
fn a_change_with_an_unknown_outcome_blocks_what_it_affects_until_its_slot_is_used_again() {
    let cache = cache();
    let send = |op: &MetaOp, slot| {
        let mut call = cache.begin(op, Some(Slot(slot)));
        call.start_request();
        call
    };
    drop(send(&chmod(FILE), 3));
    let is_told = || {
        learn(&cache, attr(5, FileKind::Regular, 1));
        answer(&cache, &Caller::root(), &getattr(FILE)).is_some()
    };
    let other = chmod(InodeId(6));
    let done = Ok(MetaReplyBody::Attr(attr(6, FileKind::Regular, 2)));
    let finish = |call: crate::lease_cache::LeasedCall<'_>, outcome: &Outcome| {
        call.finish(&Caller::root(), &other, outcome, &LeaseReply::default());
    };
    finish(send(&other, 2), &done);
    assert!(!is_told(), "another slot");
    finish(send(&other, 3), &Err(FsError::Overloaded));
    assert!(
        !is_told(),
        "refused, perhaps before the server looked at it"
    );
    finish(send(&other, 3), &done);
    assert!(is_told());
}

/// Found by review: a report of an access time that was executed after the change made its reply look old.
#[test]
fn a_change_of_an_extended_attribute_is_seen_whatever_reply_comes_first() {
    let cache = cache();
    learn(&cache, attr(5, FileKind::Regular, 5));
    let label = XattrName::new(b"security.label").unwrap();
    let get = MetaOp::GetXattr {
        ino: FILE,
        name: label.clone(),
    };
    let key = LeaseKey::Attributes(FILE);
    let before = Ok(MetaReplyBody::Xattr(Bytes::from_static(b"before")));
    ask(&cache, &get, &before, &[key]);
    assert!(answer(&cache, &Caller::root(), &get).is_some());
    let set = MetaOp::SetXattr {
        ino: FILE,
        name: label,
        value: Bytes::from_static(b"after"),
        mode: XattrMode::CreateOrReplace,
    };
    let mut call = cache.begin(&set, None);
    call.start_request();
    learn(&cache, attr(5, FileKind::Regular, 7));
    let done = Ok(MetaReplyBody::Attr(attr(5, FileKind::Regular, 6)));
    call.finish(&Caller::root(), &set, &done, &granted(&[key]));
    assert_eq!(answer(&cache, &Caller::root(), &get), None);
    let newest = Ok(MetaReplyBody::Attr(attr(5, FileKind::Regular, 7)));
    assert_eq!(
        answer(&cache, &Caller::root(), &getattr(FILE)),
        Some(newest)
    );
}

#[test]
fn a_program_cannot_displace_other_inodes_with_the_extended_attributes_of_one() {
    let cache = cache();
    learn(&cache, attr(6, FileKind::Regular, 1));
    learn(&cache, attr(5, FileKind::Regular, 1));
    let key = LeaseKey::Attributes(FILE);
    for number in 0..1_000 {
        let get = MetaOp::GetXattr {
            ino: FILE,
            name: XattrName::new(format!("user.{number}").as_bytes()).unwrap(),
        };
        let value = match number % 2 {
            0 => Ok(MetaReplyBody::Xattr(Bytes::from(vec![1; 60_000]))),
            _ => Err(FsError::NoAttribute),
        };
        ask(&cache, &get, &value, &[key]);
    }
    assert!(answer(&cache, &Caller::root(), &getattr(InodeId(6))).is_some());
    assert!(answer(&cache, &Caller::root(), &getattr(FILE)).is_some());
}

#[test]
fn a_new_connection_asks_again_how_the_server_sees_root() {
    let cache = cache();
    learn(&cache, attr(5, FileKind::Regular, 1));
    let is_told = |cache: &LeaseCache| answer(cache, &Caller::root(), &getattr(FILE)).is_some();
    cache.ask_again();
    assert!(!is_told(&cache));
    let late = cache.ask().unwrap();
    cache.ask_again();
    accept(&cache, true);
    cache.accepted(late, false);
    let mut secret = attr(5, FileKind::Regular, 1);
    (secret.mode, secret.uid) = (FileMode(0o600), 1000);
    learn(&cache, secret);
    assert!(is_told(&cache));
    let want = AccessMode::READ;
    let access = MetaOp::Access { ino: FILE, want };
    assert_eq!(answer(&cache, &Caller::root(), &access), None);
}

#[test]
fn a_server_that_refuses_for_now_is_asked_again() {
    let cache = LeaseCache::new(true, Arc::default());
    let asked = cache.ask().unwrap();
    assert!(cache.ask().is_none());
    cache.refused(asked);
    accept(&cache, false);
}

#[test]
fn a_change_with_an_unknown_outcome_blocks_what_it_affects_until_the_session_ends() {
    let other = InodeId(6);
    for is_dropped in [true, false] {
        let cache = cache();
        let op = chmod(FILE);
        let mut call = cache.begin(&op, None);
        call.start_request();
        match is_dropped {
            true => drop(call),
            false => {
                let late = Err(FsError::TimedOut("the metadata server".to_string()));
                call.finish(&Caller::root(), &op, &late, &LeaseReply::default());
            }
        }
        learn(&cache, attr(5, FileKind::Regular, 1));
        learn(&cache, attr(6, FileKind::Regular, 1));
        let is_told = |ino| answer(&cache, &Caller::root(), &getattr(ino)).is_some();
        assert!(!is_told(FILE) && is_told(other));
        cache.restart();
        accept(&cache, false);
        learn(&cache, attr(5, FileKind::Regular, 1));
        assert!(is_told(FILE));
    }
}

#[test]
fn a_change_that_was_never_sent_blocks_nothing() {
    let cache = cache();
    drop(cache.begin(&chmod(FILE), Some(Slot(3))));
    learn(&cache, attr(5, FileKind::Regular, 1));
    assert!(answer(&cache, &Caller::root(), &getattr(FILE)).is_some());
}

#[test]
fn of_two_changed_names_of_a_directory_the_cache_does_not_guess_which_was_leased() {
    let cache = cache();
    learn(&cache, attr(1, FileKind::Directory, 3));
    let rename = MetaOp::Rename {
        from: DIR,
        name: name("old"),
        to: DIR,
        new_name: name("new"),
        mode: RenameMode::Replace,
    };
    let moved = Ok(MetaReplyBody::Removed(RemovedName {
        attr: Some(attr(5, FileKind::Regular, 2)),
        ..RemovedName::default()
    }));
    let key = LeaseKey::Name { dir: DIR, hash: 9 };
    let of_file = LeaseKey::Attributes(FILE);
    ask(&cache, &rename, &moved, &[key, of_file]);
    learn(&cache, attr(1, FileKind::Directory, 4));
    for text in ["old", "new"] {
        assert_eq!(answer(&cache, &Caller::root(), &lookup(text)), None);
    }
}

#[test]
fn attributes_are_leased_unless_a_change_of_them_is_under_way() {
    let cache = cache();
    let (known, mut other) = (attr(5, FileKind::Regular, 2), attr(5, FileKind::Regular, 2));
    other.size += 1;
    assert!(!cache.has_attributes(&known));
    learn(&cache, known);
    assert!(cache.has_attributes(&known) && !cache.has_attributes(&other));
    let change = MetaOp::SetAttr {
        ino: FILE,
        set: SetAttr::default(),
    };
    let call = cache.begin(&change, None);
    assert!(!cache.has_attributes(&known));
    assert_eq!(call.affected_inodes(), AffectedInodes::These(vec![FILE]));
    drop(call);
    assert!(
        !cache.has_attributes(&known),
        "the change may have been made"
    );
}

#[test]
fn a_change_of_a_name_affects_the_inode_that_it_refers_to_and_any_if_that_is_in_doubt() {
    let cache = cache();
    let unlink = MetaOp::Unlink {
        dir: DIR,
        name: name("n"),
    };
    let call = cache.begin(&unlink, None);
    assert_eq!(call.affected_inodes(), AffectedInodes::All);
    drop(call);
    let learn_name = |cache: &LeaseCache| {
        let keys = [
            LeaseKey::Name { dir: DIR, hash: 9 },
            LeaseKey::Attributes(FILE),
        ];
        let told = Ok(MetaReplyBody::Entry(attr(5, FileKind::Regular, 2)));
        ask(cache, &lookup("n"), &told, &keys);
    };
    learn_name(&cache);
    let call = cache.begin(&unlink, None);
    assert_eq!(
        call.affected_inodes(),
        AffectedInodes::These(vec![DIR, FILE])
    );
    // Another client changes the name first.
    let revoked = cache.revoke(&LeaseRevocation {
        upto: GrantNumber(7),
        keys: vec![LeaseKey::Name { dir: DIR, hash: 9 }],
    });
    assert_eq!(revoked, AffectedInodes::All);
    drop(call);
    learn_name(&cache);
    let first = cache.begin(&unlink, None);
    let second = cache.begin(&unlink, None);
    assert_eq!(second.affected_inodes(), AffectedInodes::All);
    drop((first, second));
}

#[test]
fn the_directory_above_is_told_by_the_name_of_the_directory() {
    let cache = cache();
    learn(&cache, attr(1, FileKind::Directory, 3));
    let below = attr(6, FileKind::Directory, 1);
    let key = LeaseKey::Name { dir: DIR, hash: 9 };
    let attributes = LeaseKey::Attributes(below.ino);
    let told = Ok(MetaReplyBody::Entry(below));
    ask(&cache, &lookup("below"), &told, &[key, attributes]);
    let parent = MetaOp::LookupParent { dir: below.ino };
    let up = |cache: &LeaseCache| answer(cache, &Caller::root(), &parent);
    let expected = Ok(MetaReplyBody::Entry(attr(1, FileKind::Directory, 3)));
    assert_eq!(up(&cache), Some(expected));
    cache.revoke(&LeaseRevocation {
        upto: GrantNumber(7),
        keys: vec![key],
    });
    assert_eq!(up(&cache), None);
}

#[test]
fn an_open_for_reading_is_answered_with_the_capability_of_an_equal_open_only() {
    let cache = cache();
    let open = |access| MetaOp::Open {
        ino: FILE,
        open: OpenMode {
            access,
            truncate: false,
            kill_privileges: false,
        },
    };
    let mut known = attr(5, FileKind::Regular, 2);
    let opened = |attr| {
        Ok(MetaReplyBody::Opened(OpenInfo {
            attr,
            layout: gupfs_proto::Layout::default(),
            inline: Some(Bytes::from_static(b"x")),
            created: false,
            capability: None,
        }))
    };
    let keys = [LeaseKey::Attributes(FILE), LeaseKey::Data(FILE)];
    let (read, nothing) = (AccessMode::READ, AccessMode::empty());
    ask(&cache, &open(nothing), &opened(known), &keys);
    let told = |op: &MetaOp| answer(&cache, &Caller::root(), op);
    assert_eq!(told(&open(read)), None);
    assert_eq!(told(&open(nothing)), Some(opened(known)));
    ask(&cache, &open(read), &opened(known), &keys);
    assert_eq!(told(&open(read)), Some(opened(known)));
    assert_eq!(told(&open(read | AccessMode::WRITE)), None);
    let stranger = Caller::new(9, 9, []);
    assert!(answer(&cache, &stranger, &open(read)).is_some());
    (known.mode, known.change) = (FileMode(0o600), 3);
    learn(&cache, known);
    assert_eq!(answer(&cache, &stranger, &open(read)), None);
    // Who may open a file without a name, only the server knows.
    (known.nlink, known.change) = (0, 4);
    learn(&cache, known);
    assert_eq!(told(&open(read)), None);
}

#[test]
fn a_listing_answers_names_that_were_never_looked_up() {
    let cache = cache();
    learn(&cache, attr(1, FileKind::Directory, 3));
    let entry = |text: &str, hash| DirEntry {
        name: name(text),
        ino: FILE,
        kind: FileKind::Regular,
        cookie: ReaddirCookie { hash, rank: 0 }.encode(),
        attr: None,
    };
    let readdir = |after, limit| MetaOp::Readdir {
        dir: DIR,
        after,
        limit,
        plus: false,
    };
    let page = |entries: Vec<DirEntry>, end| Ok(MetaReplyBody::Entries { entries, end });
    let (one, two) = (entry("one", 7), entry("two", 8));
    let key = LeaseKey::Names(DIR);
    let first = page(vec![one.clone()], false);
    ask(&cache, &readdir(0, 1), &first, &[key]);
    let told = |op: &MetaOp| answer(&cache, &Caller::root(), op);
    assert_eq!(told(&lookup("three")), None, "there is more");
    let rest = page(vec![two.clone()], true);
    ask(&cache, &readdir(one.cookie, 1), &rest, &[key]);
    assert_eq!(told(&lookup("three")), Some(Err(FsError::NotFound)));
    assert_eq!(told(&readdir(0, 9)), Some(page(vec![one, two], true)));
    assert_eq!(told(&lookup("one")), None, "its attributes are not known");
    let create = MetaOp::Mkdir {
        dir: DIR,
        name: Name::new(b"three").unwrap(),
        create_mode: CreateMode { mode: 0, umask: 0 },
    };
    let mut call = cache.begin(&create, None);
    call.start_request();
    assert_eq!(told(&lookup("three")), None);
    assert_eq!(told(&readdir(0, 9)), None);
    drop(call);
}

#[test]
fn a_new_directory_has_a_listing_that_stays_while_this_client_creates_and_removes_names_in_it() {
    let cache = cache();
    learn(&cache, attr(1, FileKind::Directory, 3));
    let made = attr(DIR.0 + 40, FileKind::Directory, 2);
    let new = made.ino;
    let keys = |names: &[u64]| {
        let names = names.iter().map(|hash| LeaseKey::Name {
            dir: new,
            hash: *hash,
        });
        [LeaseKey::Attributes(new), LeaseKey::Attributes(FILE)]
            .into_iter()
            .chain(names)
            .collect::<Vec<_>>()
    };
    let mkdir = MetaOp::Mkdir {
        dir: DIR,
        name: name("new"),
        create_mode: CreateMode { mode: 0, umask: 0 },
    };
    let told = |op: &MetaOp| answer(&cache, &Caller::root(), op);
    let entry = |attr| Ok(MetaReplyBody::Entry(attr));
    ask(&cache, &mkdir, &entry(made), &keys(&[]));
    let lookup = |text| MetaOp::Lookup {
        dir: new,
        name: name(text),
    };
    assert_eq!(told(&lookup("a")), None, "its listing was not granted");
    let mut with_names = keys(&[]);
    with_names.push(LeaseKey::Names(new));
    ask(&cache, &mkdir, &entry(made), &with_names);
    assert_eq!(told(&lookup("a")), Some(Err(FsError::NotFound)));

    let mknod = |text| MetaOp::Mknod {
        dir: new,
        name: name(text),
        kind: FileKind::Fifo,
        rdev: 0,
        create_mode: CreateMode { mode: 0, umask: 0 },
    };
    let fifo = attr(FILE.0, FileKind::Fifo, 2);
    let mut other = cache.begin(&mknod("c"), None);
    other.start_request();
    let mut call = cache.begin(&mknod("a"), None);
    call.start_request();
    let mut leases = granted(&keys(&[7]));
    leases.changed = vec![Attr { change: 3, ..made }];
    call.finish(&Caller::root(), &mknod("a"), &entry(fifo), &leases);
    assert_eq!(told(&lookup("a")), Some(entry(fifo)));
    assert_eq!(
        told(&lookup("b")),
        Some(Err(FsError::NotFound)),
        "no change of it is under way"
    );
    assert_eq!(told(&lookup("c")), None, "a change of it is under way");
    drop(other);
    assert_eq!(
        told(&lookup("b")),
        None,
        "it is not known what the change of c did"
    );
}

#[test]
fn listings_stay_while_this_client_renames_within_and_between_them() {
    let cache = cache();
    let told = |op: &MetaOp| answer(&cache, &Caller::root(), op);
    let file = attr(FILE.0, FileKind::Regular, 2);
    let of_file = LeaseKey::Attributes(FILE);
    let dirs = [1, 41].map(|ino| attr(ino, FileKind::Directory, 3));
    let learn_dirs = || dirs.map(|dir| learn(&cache, dir));
    learn_dirs();
    for dir in dirs {
        let read = MetaOp::Readdir {
            dir: dir.ino,
            after: 0,
            limit: 9,
            plus: false,
        };
        let entry = DirEntry {
            name: name("old"),
            ino: FILE,
            kind: FileKind::Regular,
            cookie: ReaddirCookie { hash: 7, rank: 0 }.encode(),
            attr: None,
        };
        let entries = Ok(MetaReplyBody::Entries {
            entries: Vec::from_iter((dir.ino == DIR).then_some(entry)),
            end: true,
        });
        ask(&cache, &read, &entries, &[LeaseKey::Names(dir.ino)]);
    }
    let rename = |from, old: &str, to, new: &str| MetaOp::Rename {
        from,
        name: name(old),
        to,
        new_name: name(new),
        mode: RenameMode::Replace,
    };
    let moved = Ok(MetaReplyBody::Removed(RemovedName {
        attr: Some(file),
        ..RemovedName::default()
    }));
    let found = |dir, text: &str| {
        let name = name(text);
        let found = told(&MetaOp::Lookup { dir, name });
        found.map(|entry| entry.is_ok())
    };
    let other = dirs[1].ino;
    ask(&cache, &rename(DIR, "old", DIR, "new"), &moved, &[of_file]);
    learn_dirs();
    let [old, new, third] = ["old", "new", "third"].map(|text| found(DIR, text));
    assert_eq!([old, new, third], [Some(false), Some(true), Some(false)]);
    ask(&cache, &rename(DIR, "new", other, "x"), &moved, &[of_file]);
    learn_dirs();
    assert_eq!(
        [found(DIR, "new"), found(other, "x")],
        [Some(false), Some(true)]
    );
    // Of two renames at once it is not known which was executed last.
    let (one, two) = (
        rename(other, "x", other, "y"),
        rename(other, "z", other, "y"),
    );
    let mut first = cache.begin(&one, None);
    first.start_request();
    let mut second = cache.begin(&two, None);
    second.start_request();
    first.finish(&Caller::root(), &one, &moved, &granted(&[of_file]));
    second.finish(
        &Caller::root(),
        &two,
        &Err(FsError::NotFound),
        &granted(&[]),
    );
    learn_dirs();
    assert_eq!([found(other, "y"), found(DIR, "new")], [None, Some(false)]);
}

#[test]
fn a_file_that_this_client_has_made_has_no_extended_attributes_until_it_sets_one() {
    let cache = cache();
    let told = |op: &MetaOp| answer(&cache, &Caller::root(), op);
    let xattr = |text: &[u8]| {
        let name = XattrName::new(text).unwrap();
        told(&MetaOp::GetXattr { ino: FILE, name })
    };
    let list = || told(&MetaOp::ListXattr { ino: FILE });
    let mknod = MetaOp::Mknod {
        dir: DIR,
        name: name("f"),
        kind: FileKind::Fifo,
        rdev: 0,
        create_mode: CreateMode { mode: 0, umask: 0 },
    };
    let made = |change, flags| Attr {
        flags,
        ..attr(FILE.0, FileKind::Fifo, change)
    };
    let key = [LeaseKey::Attributes(FILE)];
    let entry = |attr| Ok(MetaReplyBody::Entry(attr));
    let none = InodeFlags::empty();
    ask(&cache, &mknod, &entry(made(2, none)), &key);
    let absent = Some(Err(FsError::NoAttribute));
    assert_eq!(xattr(b"security.capability"), absent);
    assert_eq!(list(), Some(Ok(MetaReplyBody::XattrNames(vec![]))));
    // A change of mode adds none.
    let changed = |change| Ok(MetaReplyBody::Attr(made(change, none)));
    ask(&cache, &chmod(FILE), &changed(3), &key);
    assert_eq!(xattr(b"user.a"), absent);
    let set = MetaOp::SetXattr {
        ino: FILE,
        name: XattrName::new(b"user.a").unwrap(),
        value: Bytes::new(),
        mode: XattrMode::CreateOrReplace,
    };
    ask(&cache, &set, &changed(4), &key);
    assert_eq!(
        (xattr(b"user.a"), xattr(b"user.b"), list()),
        (None, None, None)
    );
    // It has inherited an ACL.
    cache.clear();
    ask(&cache, &mknod, &entry(made(2, InodeFlags::HAS_ACL)), &key);
    assert_eq!((xattr(b"user.a"), list()), (None, None));
}

#[test]
fn the_attributes_of_a_file_or_directory_say_that_it_has_no_extended_attributes() {
    let told = |kind, flags| {
        let cache = cache();
        let known = Attr {
            flags,
            ..attr(FILE.0, kind, 3)
        };
        learn(&cache, known);
        let name = |text: &[u8]| XattrName::new(text).unwrap();
        let get = |text: &[u8]| MetaOp::GetXattr {
            ino: FILE,
            name: name(text),
        };
        let ops = [
            get(b"security.selinux"),
            get(b"system.posix_acl_access"),
            MetaOp::ListXattr { ino: FILE },
        ];
        ops.map(|op| answer(&cache, &Caller::root(), &op))
    };
    let absent = Some(Err(FsError::NoAttribute));
    let none = [
        absent.clone(),
        absent,
        Some(Ok(MetaReplyBody::XattrNames(vec![]))),
    ];
    for kind in [FileKind::Regular, FileKind::Directory] {
        assert_eq!(told(kind, InodeFlags::NO_XATTRS), none);
        assert_eq!(told(kind, InodeFlags::empty()), [None, None, None]);
    }
    // Only the server knows with which error such an inode refuses an ACL.
    let link = told(FileKind::Symlink, InodeFlags::NO_XATTRS);
    assert_eq!(link, [None, None, None]);
}

#[test]
fn the_next_pages_of_a_leased_listing_are_read_with_attributes() {
    let cache = cache();
    let readdir = |after, plus| MetaOp::Readdir {
        dir: DIR,
        after,
        limit: 100,
        plus,
    };
    let sent = |cache: &LeaseCache, after| match cache.widened(readdir(after, false)) {
        MetaOp::Readdir { plus, .. } => plus,
        other => panic!("{other:?}"),
    };
    assert!(!sent(&cache, 0), "Linux asks for those of the first page");
    let cookie = |hash| ReaddirCookie { hash, rank: 0 }.encode();
    let page = |hashes: std::ops::Range<u64>, end| {
        let entries = hashes.map(|hash| DirEntry {
            name: name(&format!("f{hash}")),
            ino: InodeId(hash),
            kind: FileKind::Regular,
            cookie: cookie(hash),
            attr: None,
        });
        let entries = entries.collect();
        Ok(MetaReplyBody::Entries { entries, end })
    };
    let names = [LeaseKey::Names(DIR)];
    ask(&cache, &readdir(0, true), &page(10..20, false), &[]);
    assert!(!sent(&cache, cookie(19)), "there is no lease on the names");
    ask(&cache, &readdir(0, true), &page(10..20, false), &names);
    assert!(sent(&cache, cookie(19)));
    let most = LISTED_ATTRIBUTES_MAX as u64;
    let rest = page(20..10 + most, false);
    ask(&cache, &readdir(cookie(19), true), &rest, &names);
    assert!(!sent(&cache, cookie(9 + most)), "the listing is too long");
}

//! The judgement of objects that last longer than a round: the first look defines their state.

use gupfs_verify::check::{Bound, Judgement, Model, judge};
use gupfs_verify::history::{Answer, Call, Flavour, History, Kind, Record, tag};
use gupfs_verify::subject::{Subject, WHOLE};

/// An operation of a worker from ten times `moment` on.
fn record(subject: Subject, worker: u16, moment: u64, call: Call, answer: Answer) -> Record {
    Record {
        worker,
        number: moment as u32,
        subject,
        call,
        start: moment * 10,
        end: Some(moment * 10 + 5),
        answer,
    }
}

/// The first and the third worker are on one mount.
fn judged(records: Vec<Record>) -> Judgement {
    judge(
        &History::new(vec![0, 1, 0], records),
        Model::Posix,
        Bound::default(),
    )
}

fn agrees(records: Vec<Record>) {
    let judgement = judged(records);
    assert_eq!(judgement.findings, []);
    assert_eq!((judgement.undecided, judgement.permitted), (0, 0));
}

fn disagrees(records: Vec<Record>, about: &str) {
    let judgement = judged(records);
    let found: Vec<&str> = judgement
        .findings
        .iter()
        .map(|found| &*found.about)
        .collect();
    assert!(found.contains(&about), "{judgement:?}");
}

const DATA: Subject = Subject::HeldData(0);
const ATTR: Subject = Subject::HeldAttr(0);
const CWD: Subject = Subject::HeldDir(1);

fn read(shows: u64) -> (Call, Answer) {
    let flavour = Flavour::Session;
    let runs = vec![(4096, shows)];
    let range = WHOLE;
    (
        Call::Read { range, flavour },
        Answer::Bytes { count: 4096, runs },
    )
}

fn size(bytes: u64) -> (Call, Answer) {
    let flavour = Flavour::Session;
    (Call::Size { flavour }, Answer::Size(bytes))
}

/// The first look, the second worker's write of a page, and what the third reads then.
fn pages(before: u64, after: u64) -> Vec<Record> {
    let range = gupfs_verify::subject::Range { from: 0, to: 4096 };
    let flavour = Flavour::Session;
    let write = Call::Write {
        range,
        tag: tag::of(1, 4),
        flavour,
    };
    let mut records = Vec::new();
    for (moment, worker, (call, answer)) in [
        (1, 0, size(4096)),
        (2, 0, read(before)),
        (4, 1, (write, Answer::Done)),
        (5, 2, read(after)),
        (6, 2, size(4096)),
    ] {
        records.push(record(DATA, worker, moment, call, answer));
    }
    records
}

#[test]
fn the_first_look_at_held_bytes_is_their_state() {
    let from_before = tag::of(2, 9);
    agrees(pages(from_before, tag::of(1, 4)));
    disagrees(pages(from_before, from_before), "bytes at 0 of held/data0");
    // Read before it was written, they must be those of the look.
    let mut early = pages(from_before, tag::of(0, 0));
    early.remove(2);
    disagrees(early, "bytes at 0 of held/data0");
    let mut short = pages(from_before, tag::of(1, 4));
    short[4].answer = Answer::Size(512);
    disagrees(short, "the size of held/data0");
}

#[test]
fn without_a_first_look_nothing_is_judged() {
    let mut beside = pages(tag::of(2, 9), tag::of(2, 9));
    // The second worker began before the look was over.
    beside[2].start = 1;
    let judgement = judged(beside);
    assert_eq!(judgement.findings, []);
    assert!(judgement.permitted > 0);
}

#[test]
fn a_change_of_an_earlier_round_without_an_answer_may_happen_at_any_time() {
    let lost = tag::of(1, 4);
    let mut records = pages(tag::of(2, 9), tag::of(2, 9));
    records[2].answer = Answer::None;
    records[2].end = None;
    records[2].start = 0;
    agrees(records.clone());
    records[3] = record(DATA, 2, 5, read(lost).0, read(lost).1);
    agrees(records.clone());
    // Once only.
    let (call, answer) = read(tag::of(2, 9));
    records.push(record(DATA, 0, 8, call, answer));
    disagrees(records, "bytes at 0 of held/data0");
}

#[test]
fn held_attributes_begin_as_the_first_look_shows_them() {
    let stat = |mode| (Call::Stat, Answer::Attributes { mode, seconds: 7 });
    let xattr = |tag| (Call::GetXattr, Answer::Value(tag));
    let with = |then| {
        let calls = [
            (0, stat(0o640)),
            (0, xattr(9)),
            (1, (Call::SetMode { mode: 0o600 }, Answer::Done)),
            (2, then),
        ];
        let moments = calls.into_iter().enumerate();
        let records = moments.map(|(moment, (worker, (call, answer)))| {
            record(ATTR, worker, moment as u64, call, answer)
        });
        records.collect::<Vec<_>>()
    };
    agrees(with(stat(0o600)));
    agrees(with(xattr(9)));
    disagrees(with(stat(0o640)), "the mode of held/attr0");
    disagrees(with(xattr(0)), "the extended attribute of held/attr0");
}

fn looks() -> Vec<Record> {
    let (kind, inode, links) = (Kind::File, 77, 1);
    let there = Answer::Seen { kind, inode, links };
    let absent = || Answer::Errno(libc::ENOENT);
    vec![
        record(CWD, 0, 0, Call::Look { at: 0 }, there),
        record(CWD, 0, 1, Call::Look { at: 1 }, absent()),
        record(CWD, 0, 2, Call::Look { at: 2 }, absent()),
        record(CWD, 0, 3, Call::GetCwd, Answer::Called(1)),
    ]
}

fn then(records: &[(u16, Call, Answer)]) -> Vec<Record> {
    let mut all = looks();
    for (worker, call, answer) in records {
        let moment = all.len() as u64;
        all.push(record(CWD, *worker, moment, *call, answer.clone()));
    }
    all
}

#[test]
fn names_in_a_held_directory_are_those_of_the_first_look() {
    let look = Call::Look { at: 0 };
    let absent = Answer::Errno(libc::ENOENT);
    agrees(then(&[
        (1, Call::Unlink { at: 0 }, Answer::Done),
        (2, look, absent.clone()),
    ]));
    disagrees(then(&[(1, look, absent)]), "the name n0 in held/parent1");
    let (kind, inode, links) = (Kind::File, 77, 1);
    let there = Answer::Seen { kind, inode, links };
    let stale = then(&[(1, Call::Unlink { at: 0 }, Answer::Done), (2, look, there)]);
    disagrees(stale, "the name n0 in held/parent1");
    let create = Call::Create {
        at: 0,
        exclusive: true,
    };
    let (inode, generation, tag) = (78, 0, 0);
    let made = Answer::File {
        inode,
        generation,
        tag,
    };
    disagrees(then(&[(1, create, made)]), "the name n0 in held/parent1");
    let refused = then(&[(1, create, Answer::Errno(libc::ENOENT))]);
    disagrees(
        refused,
        "create-exclusive in held/parent1, which nothing can refuse",
    );
}

#[test]
fn getcwd_must_know_renames_of_its_own_mount_alone() {
    let moves = (0, Call::MoveDir { to: 0 }, Answer::Done);
    let cwd = |worker, name| (worker, Call::GetCwd, Answer::Called(name));
    agrees(then(&[moves.clone(), cwd(2, 0)]));
    let elsewhere = judged(then(&[moves.clone(), cwd(1, 1)]));
    assert_eq!(elsewhere.findings, []);
    assert_eq!(elsewhere.permitted, 1);
    let about = "the name of the directory in held/parent1";
    disagrees(then(&[moves, cwd(2, 1)]), about);
}

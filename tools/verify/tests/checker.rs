//! The checker on histories whose truth is known: made by one program after the other with intervals drawn wider around, they
//! agree; with an answer changed to what was never so, they do not; taken apart they are judged as whole.

use gupfs_verify::check::model::register::{Act, Register};
use gupfs_verify::check::search::{Bound, SearchResult, Timed, search};
use gupfs_verify::check::{Model, judge};
use gupfs_verify::history::{Answer, Call, Flavour, History, Record, SpliceCall, tag};
use gupfs_verify::subject::{CONSTANT_SIZE, Range, Subject};
use proptest::prelude::*;

/// An operation on a file of a few words, by which worker, how long before and after the moment of its effect it lasts.
#[derive(Clone, Debug)]
struct Planned {
    worker: u16,
    writes: bool,
    from: u64,
    words: u64,
    before: u64,
    after: u64,
}

fn planned() -> impl Strategy<Value = Planned> {
    (0..4u16, any::<bool>(), 0..6u64, 1..4u64, 0..40u64, 0..40u64).prop_map(
        |(worker, writes, from, words, before, after)| Planned {
            worker,
            writes,
            from,
            words,
            before,
            after,
        },
    )
}

const FILE_WORDS: u64 = 12;

/// What these operations answer when each takes effect at its moment, ten apart.
fn history(plan: &[Planned]) -> History {
    let mut file = [0u64; FILE_WORDS as usize];
    let mut free = [0u64; 4];
    let mut records = Vec::new();
    // The file has its size from the start.
    let whole = Range {
        from: 0,
        to: FILE_WORDS * tag::WORD,
    };
    let first = tag::of(9, 0);
    file.fill(first);
    records.push(record(9, 0, write(whole, first), 0, 1, Answer::Done));
    for (number, planned) in plan.iter().enumerate() {
        let moment = 100 + number as u64 * 10;
        let worker = usize::from(planned.worker);
        // A worker does one thing at a time.
        let start = (moment - planned.before).max(free[worker] + 1).min(moment);
        if free[worker] >= moment {
            continue;
        }
        let end = moment + planned.after;
        free[worker] = end;
        let (from, to) = (planned.from, planned.from + planned.words);
        let range = Range {
            from: from * tag::WORD,
            to: to * tag::WORD,
        };
        let tag = tag::of(planned.worker, number as u32);
        let (call, answer) = if planned.writes {
            file[from as usize..to as usize].fill(tag);
            (write(range, tag), Answer::Done)
        } else {
            let bytes: Vec<u8> = (from..to)
                .flat_map(|word| tag::word(file[word as usize], word * tag::WORD).to_le_bytes())
                .collect();
            let answer = Answer::Bytes {
                count: bytes.len() as u64,
                runs: tag::read(&bytes, range.from),
            };
            let flavour = Flavour::Session;
            (Call::Read { range, flavour }, answer)
        };
        records.push(record(
            planned.worker,
            number as u32,
            call,
            start,
            end,
            answer,
        ));
    }
    History::new(vec![0, 1, 0, 1], records)
}

fn write(range: Range, tag: u64) -> Call {
    Call::Write {
        range,
        tag,
        flavour: Flavour::Session,
    }
}

fn record(worker: u16, number: u32, call: Call, start: u64, end: u64, answer: Answer) -> Record {
    Record {
        worker,
        number,
        subject: Subject::Data(0),
        call,
        start,
        end: Some(end),
        answer,
    }
}

/// All orders, tried one by one: slow, and too simple to be wrong.
fn agrees_by_force(state: u64, left: &[Timed<Act>]) -> bool {
    let first_end = left.iter().filter_map(|act| act.end).min();
    left.iter().enumerate().any(|(index, act)| {
        if first_end.is_some_and(|end| act.start > end) {
            return false;
        }
        let after = match act.act {
            Act::Put(value) => value,
            Act::See(value) if value == state => state,
            Act::See(_) => return false,
        };
        let mut rest = left.to_vec();
        rest.remove(index);
        agrees_by_force(after, &rest)
    }) || left.iter().all(|act| act.end.is_none())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_happened_one_after_the_other_agrees(plan in prop::collection::vec(planned(), 1..120)) {
        let judgement = judge(&history(&plan), Model::Posix, Bound::default());
        prop_assert!(judgement.findings.is_empty(), "{:?}", judgement.findings);
        prop_assert_eq!(judgement.undecided, 0);
    }

    #[test]
    fn it_agrees_with_close_to_open_too(plan in prop::collection::vec(planned(), 1..120)) {
        let judgement = judge(&history(&plan), Model::CloseToOpen, Bound::default());
        prop_assert!(judgement.findings.is_empty(), "{:?}", judgement.findings);
    }

    #[test]
    fn a_read_of_what_was_overwritten_long_before_is_found(
        plan in prop::collection::vec(planned(), 1..60),
        later in 1_000..9_000u64,
    ) {
        let mut history = history(&plan);
        // All is overwritten after the end of everything, and then somebody reads the first version.
        let whole = Range { from: 0, to: FILE_WORDS * tag::WORD };
        let at = 100_000;
        let last = tag::of(8, 1);
        history.records.push(record(8, 1, write(whole, last), at, at + 10, Answer::Done));
        let stale = Answer::Bytes { count: whole.to, runs: vec![(whole.to, tag::of(9, 0))] };
        let read = Call::Read { range: whole, flavour: Flavour::Session };
        history.records.push(record(7, 1, read, at + later, at + later + 10, stale));
        let judgement = judge(&history, Model::Posix, Bound::default());
        prop_assert!(!judgement.findings.is_empty());
        let finding = &judgement.findings[0];
        prop_assert_eq!(finding.fails, history.records.len() - 1);
        prop_assert!(finding.records.len() <= 3, "{:?}", finding);
    }

    #[test]
    fn the_search_says_what_trying_all_orders_says(
        acts in prop::collection::vec((any::<bool>(), 0..3u64, 0..30u64, 0..15u64, 0..10u8), 1..7)
    ) {
        let acts: Vec<Timed<Act>> = acts
            .into_iter()
            .enumerate()
            .map(|(record, (put, value, start, length, lost))| Timed {
                act: match put { true => Act::Put(value), false => Act::See(value) },
                start,
                // Some changes are never answered.
                end: (lost > 0 || !put).then_some(start + length),
                record,
            })
            .collect();
        let found = search(&Register, 0, &acts, Bound::default());
        prop_assert_eq!(found == SearchResult::Agrees, agrees_by_force(0, &acts), "{:?}", acts);
    }
}

/// Worker 0 writes through a descriptor that it closes then; 1 overwrites that, and closes at once; 2 opens and sees worker 0's.
fn overwritten_before_the_close_of(closed: u64) -> History {
    let range = Range {
        from: 0,
        to: tag::WORD,
    };
    let (old, new) = (tag::of(0, 1), tag::of(1, 0));
    let at_once = Call::Write {
        range,
        tag: new,
        flavour: Flavour::Fresh,
    };
    let read = Call::Read {
        range,
        flavour: Flavour::Fresh,
    };
    let sees = Answer::Bytes {
        count: tag::WORD,
        runs: vec![(tag::WORD, old)],
    };
    let done =
        |worker, number, call, start| record(worker, number, call, start, start + 2, Answer::Done);
    History::new(
        vec![0, 1, 0],
        vec![
            done(0, 0, Call::Open, 0),
            done(0, 1, write(range, old), 10),
            done(1, 0, at_once, 20),
            done(0, 2, Call::Close, closed),
            record(2, 0, read, 60, 62, sees),
        ],
    )
}

#[test]
fn close_to_open_lets_a_write_take_effect_as_late_as_its_close_and_no_later() {
    let findings = |model, closed| {
        let history = overwritten_before_the_close_of(closed);
        judge(&history, model, Bound::default()).findings.len()
    };
    assert_eq!(findings(Model::CloseToOpen, 30), 0);
    assert_eq!(findings(Model::CloseToOpen, 15), 1);
    assert_eq!(findings(Model::Posix, 30), 1);
}

/// A record's place is known from who read it: were the read left out, the append alone would look like a contradiction.
#[test]
fn a_finding_about_a_log_keeps_the_read_that_tells_where_the_records_are() {
    let log = |worker, number, call, time: u64, answer| Record {
        subject: Subject::Log(0),
        ..record(worker, number, call, time, time + 5, answer)
    };
    let mut records: Vec<Record> = (0..15)
        .map(|n| {
            let append = Call::Append { tag: tag::of(0, n) };
            log(0, n, append, 10 * u64::from(n), Answer::Done)
        })
        .collect();
    // The last one took the place of the one before.
    let mut seen: Vec<u64> = (0..15).map(|n| tag::of(0, n)).collect();
    seen.swap(13, 14);
    records.push(log(1, 0, Call::ReadLog, 1000, Answer::Log(seen)));
    let history = History {
        records,
        ..History::default()
    };
    let judgement = judge(&history, Model::Posix, Bound::default());
    let [finding] = &judgement.findings[..] else {
        panic!("{judgement:?}");
    };
    assert!(finding.records.contains(&15), "{finding:?}");
}

/// Two workers on two mounts: one writes a spliced file, then the other reads it by sendfile: so many bytes, of this writer.
fn sendfile_after_a_write(count: u64, shown: u64) -> History {
    let whole = Range {
        from: 0,
        to: CONSTANT_SIZE,
    };
    let old = record(0, 0, write(whole, tag::of(0, 0)), 0, 10, Answer::Done);
    let new = record(0, 1, write(whole, tag::of(0, 1)), 20, 30, Answer::Done);
    let splice = Call::Splice {
        range: whole,
        how: SpliceCall::Sendfile,
        flavour: Flavour::Session,
    };
    let answer = Answer::Bytes {
        count,
        runs: vec![(count, shown)],
    };
    let records = vec![old, new, record(1, 0, splice, 40, 50, answer)];
    let spliced = records.into_iter().map(|record| Record {
        subject: Subject::Spliced(0),
        ..record
    });
    History::new(vec![0, 1], spliced.collect())
}

#[test]
fn a_splice_is_judged_as_a_read() {
    let findings = |history: &History, model| judge(history, model, Bound::default()).findings;
    for model in [Model::Posix, Model::CloseToOpen] {
        let new = sendfile_after_a_write(CONSTANT_SIZE, tag::of(0, 1));
        assert_eq!(findings(&new, model), []);
    }
    let mut old = sendfile_after_a_write(CONSTANT_SIZE, tag::of(0, 0));
    assert!(
        findings(&old, Model::Posix)[0]
            .about
            .contains("bytes at 0 of spliced0")
    );
    // It may show the old bytes while they are overwritten.
    old.records[1].end = Some(45);
    assert_eq!(findings(&old, Model::Posix), []);
    let short = sendfile_after_a_write(CONSTANT_SIZE / 2, tag::of(0, 1));
    assert!(
        findings(&short, Model::Posix)[0]
            .about
            .contains("the size of spliced0")
    );
}

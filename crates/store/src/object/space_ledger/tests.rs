use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

fn at(millis: u64) -> BootTime {
    BootTime(millis * 1_000_000)
}

/// A ledger that has just read how much is available, at 0 ms.
fn with_available(bytes: u64) -> SpaceLedger {
    let mut ledger = SpaceLedger::default();
    let query = ledger.begin_query();
    ledger.end_query(query, bytes, at(0));
    ledger
}

fn admits(ledger: &mut SpaceLedger, bytes: u64, source: SpaceSource) -> bool {
    ledger.admit(bytes, source, at(1), BudgetAge::JustRead)
}

#[test]
fn a_session_gets_at_most_a_quarter_and_all_together_at_most_a_half() {
    let mut ledger = with_available(400 * MIB);
    let got = |ledger: &mut SpaceLedger, session| {
        ledger.reserve(SessionId(session), u64::MAX / 2, at(1));
        ledger.reserved_by(SessionId(session), at(1)) / MIB
    };
    let all: Vec<u64> = (1..5).map(|session| got(&mut ledger, session)).collect();
    assert_eq!(all, [100, 75, 25, 0]);
    assert_eq!(ledger.all_reserved(at(1)), (200 * MIB, 3));
    // More of the same session stays within the same bounds.
    assert_eq!(got(&mut ledger, 1), 100);
}

#[test]
fn the_reservation_of_a_session_and_the_number_of_sessions_have_bounds() {
    let mut ledger = with_available(1 << 50);
    ledger.reserve(A, 1 << 63, at(1));
    assert_eq!(ledger.reserved_by(A, at(1)), RESERVATION_MAX);
    for session in 0..2 * RESERVATIONS_MAX as u64 {
        ledger.reserve(SessionId(session), 4096, at(1));
    }
    assert_eq!(ledger.all_reserved(at(1)).1, RESERVATIONS_MAX);
    // When they have expired, others get space.
    let query = ledger.begin_query();
    ledger.end_query(query, 1 << 50, at(10_001));
    ledger.reserve(SessionId(1 << 40), 4096, at(10_001));
    assert_eq!(ledger.all_reserved(at(10_001)), (4096, 1));
}

#[test]
fn writes_of_others_and_own_ones_that_do_not_name_it_leave_a_reservation_alone() {
    let mut ledger = with_available(100 * MIB);
    ledger.reserve(A, 20 * MIB, at(1));
    assert!(admits(&mut ledger, 80 * MIB, SpaceSource::Unreserved));
    assert!(!admits(&mut ledger, 1, SpaceSource::Unreserved));
    assert!(!admits(&mut ledger, 1, SpaceSource::ReservedBy(B)));
    assert!(admits(&mut ledger, 15 * MIB, SpaceSource::ReservedBy(A)));
    assert_eq!(ledger.reserved_by(A, at(1)), 5 * MIB);
    // What is left is not enough: it is free for any write, and this one gets no more than others.
    assert!(!admits(&mut ledger, 6 * MIB, SpaceSource::ReservedBy(A)));
    assert_eq!(ledger.reserved_by(A, at(1)), 0);
    assert!(admits(&mut ledger, 5 * MIB, SpaceSource::Unreserved));
}

#[test]
fn what_a_session_has_written_is_reserved_again() {
    let mut ledger = with_available(GIB);
    ledger.reserve(A, 10 * MIB, at(1));
    assert!(admits(&mut ledger, 10 * MIB, SpaceSource::ReservedBy(A)));
    assert_eq!(ledger.reserved_by(A, at(1)), 0);
    ledger.refill(A, at(2));
    assert_eq!(ledger.reserved_by(A, at(2)), 10 * MIB);
    // It asks for less, and for nothing.
    ledger.reserve(A, 4 * MIB, at(3));
    assert_eq!(ledger.reserved_by(A, at(3)), 4 * MIB);
    ledger.reserve(A, 0, at(3));
    assert_eq!(ledger.all_reserved(at(3)), (0, 0));
}

#[test]
fn a_reservation_ends_with_its_term_and_with_its_session() {
    let mut ledger = with_available(100 * MIB);
    ledger.reserve(A, 20 * MIB, at(0));
    ledger.reserve(B, 20 * MIB, at(500));
    let query = ledger.begin_query();
    ledger.end_query(query, 100 * MIB, at(10_000));
    assert_eq!(ledger.reserved_by(A, at(10_000)), 0);
    assert_eq!(ledger.all_reserved(at(10_000)), (20 * MIB, 1));
    assert!(!admits(&mut ledger, 81 * MIB, SpaceSource::Unreserved));
    ledger.free(B);
    assert!(admits(&mut ledger, 81 * MIB, SpaceSource::Unreserved));
}

#[test]
fn near_the_limit_the_file_system_is_asked_and_before_it_is_not() {
    let mut ledger = with_available(80 * MIB);
    let mut admit = |bytes, millis| {
        let source = SpaceSource::Unreserved;
        ledger.admit(bytes, source, at(millis), BudgetAge::Earlier)
    };
    assert!(admit(9 * MIB, 999));
    assert!(!admit(2 * MIB, 999), "an eighth was admitted");
    assert!(!admit(1, 1_000), "the answer is a second old");
}

/// What happens at a target whose disk no other program uses.
#[derive(Clone, Debug)]
enum Step {
    Reserve(u64, u64),
    /// A write, of reserved space or not.
    Write(u64, bool, u64),
    /// The file system allocates the blocks of a write under way.
    Allocate(usize),
    End(usize),
    Free(u64),
    Remove(u64),
    Sleep(u64),
    BeginQuery,
    ReadSpace,
    EndQuery,
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 1..4_u64;
    let bytes = || prop_oneof![1..50_u64, 1..5_000_u64].prop_map(|kib| kib << 10);
    prop_oneof![
        4 => (session(), bytes()).prop_map(|(session, bytes)| Step::Reserve(session, bytes)),
        1 => session().prop_map(|session| Step::Reserve(session, u64::MAX)),
        8 => (session(), any::<bool>(), bytes()).prop_map(|(session, reserved, bytes)| Step::Write(session, reserved, bytes)),
        3 => any::<usize>().prop_map(Step::Allocate),
        4 => any::<usize>().prop_map(Step::End),
        1 => session().prop_map(Step::Free),
        1 => bytes().prop_map(Step::Remove),
        2 => (0..4_000_u64).prop_map(Step::Sleep),
        3 => Just(Step::BeginQuery),
        3 => Just(Step::ReadSpace),
        3 => Just(Step::EndQuery),
    ]
}

/// A write under way, and whether the file system has allocated its blocks.
struct RunningWrite {
    bytes: u64,
    is_allocated: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn each_admitted_write_finds_space_and_each_reservation_is_there(available in 0..40_u64, steps in proptest::collection::vec(step(), 1..120)) {
        let mut free = available << 18;
        let mut ledger = SpaceLedger::default();
        let mut running: Vec<RunningWrite> = Vec::new();
        let mut query: Option<(SpaceQuery, Option<u64>)> = None;
        let mut millis = 0;
        for step in steps {
            let before: Vec<u64> = (1..4).map(|session| ledger.reserved_by(SessionId(session), at(millis))).collect();
            let mut own = None;
            match step {
                Step::Reserve(session, bytes) => {
                    own = Some(session);
                    ledger.reserve(SessionId(session), bytes, at(millis));
                    prop_assert!(ledger.reserved_by(SessionId(session), at(millis)) <= bytes);
                }
                Step::Write(session, is_reserved, bytes) => {
                    let source = match is_reserved {
                        true => SpaceSource::ReservedBy(SessionId(session)),
                        false => SpaceSource::Unreserved,
                    };
                    own = is_reserved.then_some(session);
                    let had = before[session as usize - 1];
                    let mut is_admitted = ledger.admit(bytes, source, at(millis), BudgetAge::Earlier);
                    if is_reserved {
                        prop_assert!(is_admitted || had < bytes, "{had} bytes were reserved");
                    }
                    if !is_admitted {
                        let asked = ledger.begin_query();
                        ledger.end_query(asked, free, at(millis));
                        is_admitted = ledger.admit(bytes, source, at(millis), BudgetAge::JustRead);
                    }
                    if is_admitted {
                        running.push(RunningWrite { bytes, is_allocated: false });
                    }
                }
                Step::Allocate(index) if !running.is_empty() => {
                    let index = index % running.len();
                    let write = &mut running[index];
                    if !std::mem::replace(&mut write.is_allocated, true) {
                        prop_assert!(free >= write.bytes, "an admitted write finds the disk full");
                        free -= write.bytes;
                    }
                }
                Step::End(index) if !running.is_empty() => {
                    let write = running.swap_remove(index % running.len());
                    if !write.is_allocated {
                        prop_assert!(free >= write.bytes, "an admitted write finds the disk full");
                        free -= write.bytes;
                    }
                    ledger.end(write.bytes);
                }
                Step::Free(session) => {
                    own = Some(session);
                    ledger.free(SessionId(session));
                }
                Step::Remove(bytes) => free += bytes,
                Step::Sleep(for_millis) => {
                    millis += for_millis;
                    continue;
                }
                Step::BeginQuery => query = Some((ledger.begin_query(), None)),
                Step::ReadSpace => if let Some((_, read)) = &mut query {
                    read.get_or_insert(free);
                },
                Step::EndQuery => if let Some((asked, Some(read))) = query {
                    query = None;
                    ledger.end_query(asked, read, at(millis));
                },
                Step::Allocate(_) | Step::End(_) => {}
            }
            for (index, before) in before.into_iter().enumerate() {
                let session = index as u64 + 1;
                if own != Some(session) {
                    prop_assert_eq!(ledger.reserved_by(SessionId(session), at(millis)), before);
                }
            }
            let unallocated = running.iter().filter(|write| !write.is_allocated);
            let promised: u64 = unallocated.map(|write| write.bytes).sum::<u64>() + ledger.all_reserved(at(millis)).0;
            prop_assert!(promised <= free, "{promised} bytes are promised, {free} are free");
        }
    }
}

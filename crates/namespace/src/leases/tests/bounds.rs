use super::*;
use crate::leases::limits::LeaseLimits;
use crate::leases::shared::SharedDirectories;
use gupfs_proto::lease::GrantNumber;

fn small_table() -> LeaseTable {
    let mut table = table();
    table.limits = LeaseLimits {
        of_session: 10,
        of_all: 16,
        excess_step: 3,
    };
    table
}

fn fill(table: &mut LeaseTable, session: SessionId, hashes: std::ops::Range<u64>) -> usize {
    let granted = hashes.filter(|hash| table.grant(session, name(*hash), at(0)).is_some());
    granted.count()
}

#[test]
fn a_session_that_is_nearly_full_is_asked_for_its_oldest_leases_once() {
    let mut table = small_table();
    assert_eq!(fill(&mut table, ONE, 0..7), 7);
    assert_eq!(table.excess(ONE), None);
    // The oldest is granted again: now it is the newest.
    assert_eq!(fill(&mut table, ONE, 0..1), 1);
    assert_eq!(fill(&mut table, ONE, 7..8), 1);
    let (session, oldest) = table.excess(ONE).unwrap();
    assert_eq!(
        (session, &oldest.keys[..]),
        (ONE, &[name(1), name(2), name(3)][..])
    );
    assert_eq!(oldest.upto, GrantNumber(4));
    assert_eq!(table.excess(ONE), None, "it is asked already");
    // One of them is granted again before the answer, and stays.
    assert_eq!(fill(&mut table, ONE, 2..3), 1);
    table.revoked(ONE, &oldest);
    assert_eq!((table.leases_of(ONE), table.holds(ONE, name(2))), (6, true));
    fill(&mut table, ONE, 20..22);
    // The answer to another revocation is none to this one.
    assert_eq!(table.excess(ONE), None);
    table.excess_answered(ONE);
    assert!(table.excess(ONE).is_some());
    // A session that returns has dropped everything.
    table.accept(ONE);
    fill(&mut table, ONE, 20..28);
    assert!(table.excess(ONE).is_some());
}

#[test]
fn a_full_session_or_table_gets_no_new_lease_and_keeps_those_that_it_has() {
    let mut table = small_table();
    assert_eq!(fill(&mut table, ONE, 0..30), 10);
    assert_eq!(fill(&mut table, ONE, 0..30), 10, "the same ones again");
    assert_eq!(fill(&mut table, TWO, 0..30), 6, "the table is full");
    assert_eq!(table.counts(at(0)).leases, 16);
    assert_eq!(fill(&mut table, TWO, 0..30), 6);
    assert_eq!(fill(&mut table, THREE, 0..1), 0);
    // A change asks all of them all the same.
    assert_eq!(table.conflicts(None, &[name(0)]).revocations.len(), 2);
}

#[test]
fn when_the_table_is_nearly_full_the_session_with_most_leases_is_asked() {
    let mut table = small_table();
    fill(&mut table, ONE, 0..7);
    fill(&mut table, TWO, 0..6);
    assert_eq!(table.excess(TWO), None);
    fill(&mut table, THREE, 0..1);
    let (session, oldest) = table.excess(THREE).unwrap();
    assert_eq!((session, oldest.keys.len()), (ONE, 3));
    assert_eq!(table.excess(THREE), None);
    table.revoked(ONE, &oldest);
    table.excess_answered(ONE);
    assert_eq!((table.excess(THREE), table.leases_of(ONE)), (None, 4));
}

#[test]
fn the_server_remembers_the_last_changes_of_a_bounded_number_of_directories() {
    let dir = |number| InodeId(number as u64);
    let mut shared = SharedDirectories::default();
    for number in 0..2 * limits::DIRECTORIES_WATCHED {
        shared.note_change(dir(number), ONE, at(0));
    }
    assert!(shared.watched() <= limits::DIRECTORIES_WATCHED);
    let newest = dir(2 * limits::DIRECTORIES_WATCHED - 1);
    shared.note_change(newest, TWO, at(1));
    assert!(shared.is_shared(newest, at(1)));
    // Quiet ones are forgotten while others change.
    for ms in 0..limits::DIRECTORIES_WATCHED as u64 {
        shared.note_change(dir(3), ONE, at(6_000 + ms / 100));
    }
    assert!(shared.watched() <= 2, "{}", shared.watched());
}

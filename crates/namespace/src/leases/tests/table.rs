use super::*;
use gupfs_proto::lease::GrantNumber;

/// The sessions that a change of the key waits for, and what it asks them.
fn asked(
    table: &LeaseTable,
    by: Option<SessionId>,
    key: LeaseKey,
) -> Vec<(SessionId, Vec<LeaseKey>)> {
    let conflicts = table.conflicts(by, &[key]);
    let revocations = conflicts.revocations.into_iter();
    revocations
        .map(|(session, revocation)| (session, revocation.keys))
        .collect()
}

#[test]
fn a_session_has_no_lease_before_it_takes_leases() {
    let mut table = LeaseTable::new();
    assert_eq!(table.grant(ONE, ATTRIBUTES, at(0)), None);
    table.accept(ONE);
    assert_eq!(table.grant(ONE, ATTRIBUTES, at(0)), Some(GrantNumber(1)));
    assert!(table.takes_leases(ONE) && !table.takes_leases(TWO));
}

#[test]
fn a_change_asks_every_other_session_that_has_a_lease() {
    let mut table = table();
    table.grant(ONE, ATTRIBUTES, at(0));
    table.grant(TWO, ATTRIBUTES, at(0));
    table.grant(THREE, LeaseKey::Data(FILE), at(0));
    assert_eq!(
        asked(&table, Some(ONE), ATTRIBUTES),
        [(TWO, vec![ATTRIBUTES])]
    );
    let both = [(ONE, vec![ATTRIBUTES]), (TWO, vec![ATTRIBUTES])];
    assert_eq!(asked(&table, None, ATTRIBUTES), both);
    assert_eq!(asked(&table, Some(THREE), LeaseKey::Data(FILE)), []);
}

#[test]
fn a_changed_name_ends_the_listing_of_its_directory_and_no_other_name() {
    let mut table = table();
    table.grant(ONE, NAMES, at(0));
    table.grant(TWO, name(7), at(0));
    table.grant(THREE, name(8), at(0));
    let expected = [(ONE, vec![NAMES]), (TWO, vec![name(7)])];
    assert_eq!(asked(&table, None, name(7)), expected);
    assert_eq!(asked(&table, Some(TWO), name(9)), [(ONE, vec![NAMES])]);
    // A changed name says nothing about the directory's attributes: their record does.
    table.grant(THREE, LeaseKey::Attributes(DIR), at(0));
    assert_eq!(asked(&table, Some(ONE), name(9)), []);
}

#[test]
fn a_closed_key_gets_no_grant_until_every_operation_that_closed_it_has_reopened_it() {
    let mut table = table();
    let first = table.close(&[name(7)]);
    let second = table.close(&[name(7), ATTRIBUTES]);
    assert_eq!(table.counts(at(0)).closed_keys, 3, "the listing, too");
    for key in [name(7), NAMES, ATTRIBUTES] {
        assert_eq!(table.grant(ONE, key, at(0)), None, "{key:?}");
    }
    assert!(table.grant(ONE, name(8), at(0)).is_some());
    table.reopen(second);
    table.reopen(second);
    assert_eq!(table.grant(ONE, name(7), at(0)), None);
    assert!(table.grant(ONE, ATTRIBUTES, at(0)).is_some());
    table.reopen(first);
    assert!(table.grant(ONE, name(7), at(0)).is_some());
    assert_eq!(table.counts(at(0)).closed_keys, 0);
}

#[test]
fn grants_are_numbered_by_session_and_a_lease_that_it_has_gets_the_new_number() {
    let mut table = table();
    assert_eq!(table.grant(ONE, ATTRIBUTES, at(0)), Some(GrantNumber(1)));
    assert_eq!(table.grant(ONE, NAMES, at(0)), Some(GrantNumber(2)));
    assert_eq!(table.grant(TWO, NAMES, at(0)), Some(GrantNumber(1)));
    assert_eq!(table.grant(ONE, ATTRIBUTES, at(0)), Some(GrantNumber(3)));
    assert_eq!((table.leases_of(ONE), table.counts(at(0)).leases), (2, 3));
    let revocation = &table.conflicts(None, &[name(1)]).revocations[&ONE];
    assert_eq!(
        (revocation.upto, &revocation.keys[..]),
        (GrantNumber(3), &[NAMES][..])
    );
}

#[test]
fn an_answer_ends_the_leases_up_to_its_number_and_no_later_one() {
    let mut table = table();
    table.grant(ONE, ATTRIBUTES, at(0));
    let revocation = table.conflicts(None, &[ATTRIBUTES]).revocations[&ONE].clone();
    // The operation that asked has ended, and the session read the attributes again before its answer arrived.
    table.grant(ONE, ATTRIBUTES, at(20));
    table.revoked(ONE, &revocation);
    assert!(table.holds(ONE, ATTRIBUTES));
    let revocation = table.conflicts(None, &[ATTRIBUTES]).revocations[&ONE].clone();
    table.revoked(ONE, &revocation);
    assert!(!table.holds(ONE, ATTRIBUTES));
    // Again, and of a session that has ended.
    table.revoked(ONE, &revocation);
    table.drop_session(ONE);
    table.revoked(ONE, &revocation);
}

#[test]
fn a_lease_lives_for_its_minimum_and_further_grants_do_not_prolong_it() {
    let mut table = table();
    table.grant(ONE, ATTRIBUTES, at(0));
    table.grant(THREE, ATTRIBUTES, at(1));
    table.grant(TWO, ATTRIBUTES, at(2));
    // Other grants and further ones.
    table.grant(ONE, NAMES, at(8));
    table.grant(ONE, ATTRIBUTES, at(9));
    let not_before = |table: &LeaseTable, by| table.conflicts(Some(by), &[ATTRIBUTES]).not_before;
    assert_eq!(not_before(&table, ONE), at(2) + limits::LEASE_MIN);
    assert_eq!(not_before(&table, TWO), at(1) + limits::LEASE_MIN);
    table.drop_session(THREE);
    assert_eq!(not_before(&table, TWO), at(0) + limits::LEASE_MIN);
    let revocation = table.conflicts(Some(TWO), &[ATTRIBUTES]).revocations[&ONE].clone();
    table.revoked(ONE, &revocation);
    table.grant(ONE, ATTRIBUTES, at(30));
    assert_eq!(not_before(&table, TWO), at(30) + limits::LEASE_MIN);
}

#[test]
fn a_session_that_ends_or_returns_has_no_lease() {
    let mut table = table();
    table.grant(ONE, ATTRIBUTES, at(0));
    table.grant(ONE, NAMES, at(0));
    table.grant(TWO, NAMES, at(0));
    table.accept(ONE);
    assert_eq!((table.leases_of(ONE), table.counts(at(0)).leases), (0, 1));
    // Late grants of before must stay below the new ones.
    assert_eq!(table.grant(ONE, NAMES, at(0)), Some(GrantNumber(3)));
    table.drop_session(ONE);
    assert_eq!(table.counts(at(0)).sessions, 2);
    assert_eq!(
        (table.leases_of(ONE), table.grant(ONE, NAMES, at(0))),
        (0, None)
    );
    assert_eq!(asked(&table, None, name(1)), [(TWO, vec![NAMES])]);
}

#[test]
fn a_lease_whose_new_value_cannot_be_told_is_dropped() {
    let mut table = table();
    table.grant(ONE, ATTRIBUTES, at(0));
    table.grant(ONE, NAMES, at(0));
    table.drop_leases(ONE, &[ATTRIBUTES, name(3)]);
    assert!(!table.holds(ONE, ATTRIBUTES) && table.holds(ONE, NAMES));
    assert_eq!(table.leases_of(ONE), 1);
}

#[test]
fn a_directory_that_two_sessions_change_within_a_second_is_leased_to_nobody_until_it_is_quiet() {
    let mut table = table();
    let keys = [name(1), LeaseKey::Attributes(DIR), ATTRIBUTES];
    table.note_changes(ONE, &keys, at(0));
    table.note_changes(ONE, &keys, at(10));
    assert!(table.grant(ONE, NAMES, at(10)).is_some());
    table.note_changes(TWO, &keys, at(1_010));
    let of_directory = [name(2), NAMES, LeaseKey::Attributes(DIR)];
    for (ms, is_shared) in [(1_010, true), (6_009, true), (6_010, false)] {
        let mut table_now = super::table();
        std::mem::swap(&mut table_now.shared, &mut table.shared);
        for key in of_directory {
            let granted = table_now.grant(TWO, key, at(ms)).is_some();
            assert_eq!(granted, !is_shared, "{key:?} after {ms} ms");
        }
        assert!(
            table_now.grant(TWO, ATTRIBUTES, at(ms)).is_some(),
            "of a file in it"
        );
        let shared = table_now.counts(at(ms)).shared_directories;
        assert_eq!(shared, usize::from(is_shared), "after {ms} ms");
        std::mem::swap(&mut table_now.shared, &mut table.shared);
    }
    // One session alone keeps it shared as long as it goes on.
    table.note_changes(TWO, &keys, at(6_000));
    assert_eq!(table.grant(TWO, name(2), at(10_999)), None);
    assert!(table.grant(TWO, name(2), at(11_000)).is_some());
}

#[test]
fn sessions_that_change_a_directory_more_than_a_second_apart_do_not_share_it() {
    let mut table = table();
    table.note_changes(ONE, &[name(1)], at(0));
    table.note_changes(TWO, &[name(1)], at(1_001));
    table.note_changes(TWO, &[name(1)], at(1_100));
    assert!(table.grant(TWO, NAMES, at(1_100)).is_some());
    table.note_changes(ONE, &[name(1)], at(2_100));
    assert_eq!(table.grant(TWO, name(1), at(2_100)), None);
    // What the session has it keeps until the next change revokes it.
    assert!(table.holds(TWO, NAMES));
}

#[test]
fn an_inode_that_two_sessions_change_by_turns_is_leased_to_none_of_them() {
    let mut table = table();
    let data = LeaseKey::Data(FILE);
    let mut change = |by, ms| {
        let conflicts = table.conflicts(Some(by), &[ATTRIBUTES, data]);
        table.note_conflicts(by, &conflicts, at(ms));
        for (session, revocation) in &conflicts.revocations {
            table.revoked(*session, revocation);
        }
        let reads = table.grant(by, data, at(ms)).is_some();
        assert!(reads, "a reader has bytes of the file all the same");
        table.grant(by, ATTRIBUTES, at(ms)).is_some()
    };
    assert!(change(ONE, 0), "no other session has changed it");
    assert!(change(TWO, 100));
    assert!(!change(ONE, 200), "the third change within a second");
    assert!(!change(TWO, 5_199));
    assert!(change(ONE, 5_200), "it was quiet");
}

//! Random histories of the table, as a driver and its clients make them. The clients answer from their memory while they have a lease: what
//! they answer is never older than the newest staged change. The table agrees with a list of leases.

use super::*;
use crate::leases::ClosedKeysId;
use gupfs_proto::lease::{GrantNumber, LeaseRevocation};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const KEYS: [LeaseKey; 8] = [
    LeaseKey::Name { dir: DIR, hash: 1 },
    LeaseKey::Name { dir: DIR, hash: 2 },
    LeaseKey::Names(DIR),
    LeaseKey::Attributes(DIR),
    LeaseKey::Attributes(FILE),
    LeaseKey::Data(FILE),
    LeaseKey::Name { dir: FILE, hash: 1 },
    LeaseKey::Names(FILE),
];
const SESSIONS: [SessionId; 3] = [ONE, TWO, THREE];

#[derive(Clone, Debug)]
enum Event {
    Read {
        session: SessionId,
        key: LeaseKey,
    },
    /// The oldest reply that is under way arrives.
    Deliver {
        session: SessionId,
    },
    /// A session, or the server, begins to change what these keys cover.
    Change {
        by: Option<SessionId>,
        keys: Vec<LeaseKey>,
    },
    /// A session answers what it was asked.
    Answer {
        session: SessionId,
    },
    /// An operation that waits applies again, or is given up.
    Continue {
        pick: usize,
        give_up: bool,
    },
    Reconnect {
        session: SessionId,
    },
    End {
        session: SessionId,
    },
    Pass {
        ms: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let session = || select(&SESSIONS[..]);
    let key = || select(&KEYS[..]);
    // Names(dir) and Name(dir) are changed through names only, as by the batches of operations.
    let changed = || select(&[KEYS[0], KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6]][..]);
    let by = select(vec![None, Some(ONE), Some(TWO), Some(THREE)]);
    let keys = prop::collection::btree_set(changed(), 1..4);
    prop_oneof![
        10 => (session(), key()).prop_map(|(session, key)| Event::Read { session, key }),
        6 => session().prop_map(|session| Event::Deliver { session }),
        5 => (by, keys).prop_map(|(by, keys)| Event::Change { by, keys: keys.into_iter().collect() }),
        5 => session().prop_map(|session| Event::Answer { session }),
        5 => (0usize..4, prop::bool::weighted(0.1)).prop_map(|(pick, give_up)| Event::Continue { pick, give_up }),
        1 => session().prop_map(|session| Event::Reconnect { session }),
        1 => session().prop_map(|session| Event::End { session }),
        3 => select(vec![1u64, 11, 900, 5_000]).prop_map(|ms| Event::Pass { ms }),
    ]
}

/// A client: what it answers from its memory, and the messages that are under way to it.
#[derive(Default)]
struct ModelClient {
    known: BTreeMap<LeaseKey, (GrantNumber, u64)>,
    replies: VecDeque<(LeaseKey, GrantNumber, u64)>,
    asked: VecDeque<LeaseRevocation>,
    /// Grants up to these numbers are void.
    void: BTreeMap<LeaseKey, GrantNumber>,
}

struct WaitingChange {
    by: Option<SessionId>,
    keys: Vec<LeaseKey>,
    closed: ClosedKeysId,
}

struct History {
    table: LeaseTable,
    now: Duration,
    /// What each key covers: a number that rises with each change.
    values: BTreeMap<LeaseKey, u64>,
    clients: BTreeMap<SessionId, ModelClient>,
    waiting: Vec<WaitingChange>,
    /// The leases and the newest number of each session, as a list.
    leases: BTreeSet<(LeaseKey, SessionId)>,
    numbers: BTreeMap<SessionId, u64>,
    /// By directory: the sessions that changed it, and when.
    changes: Vec<(InodeId, SessionId, Duration)>,
}

impl History {
    fn new() -> History {
        History {
            table: table(),
            now: at(0),
            values: BTreeMap::new(),
            clients: SESSIONS
                .map(|session| (session, ModelClient::default()))
                .into(),
            waiting: Vec::new(),
            leases: BTreeSet::new(),
            numbers: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    fn client(&mut self, session: SessionId) -> &mut ModelClient {
        self.clients.get_mut(&session).unwrap()
    }

    fn value(&self, key: LeaseKey) -> u64 {
        self.values.get(&key).copied().unwrap_or(0)
    }

    fn run(&mut self, event: &Event) {
        match event {
            Event::Read { session, key } => self.read(*session, *key),
            Event::Deliver { session } => self.deliver(*session),
            Event::Change { by, keys } => self.change(*by, keys.clone()),
            Event::Answer { session } => self.answer(*session),
            Event::Continue { pick, give_up } => self.resume(*pick, *give_up),
            Event::Reconnect { session } => self.end(*session, true),
            Event::End { session } => self.end(*session, false),
            Event::Pass { ms } => self.now += Duration::from_millis(*ms),
        }
        self.check();
    }

    /// The keys that a change of this one breaks.
    fn broken(key: LeaseKey) -> Vec<LeaseKey> {
        match key {
            LeaseKey::Name { dir, .. } => vec![key, LeaseKey::Names(dir)],
            _ => vec![key],
        }
    }

    fn is_closed(&self, key: LeaseKey) -> bool {
        let mut closed = self.waiting.iter().flat_map(|change| &change.keys);
        closed.any(|changed| History::broken(*changed).contains(&key))
    }

    /// Two changes of different sessions within a second, and no pause of five seconds since.
    fn is_shared(&self, dir: InodeId) -> bool {
        let changes: Vec<_> = self.changes.iter().filter(|(of, ..)| *of == dir).collect();
        let mut is_shared = false;
        for (index, (_, session, at)) in changes.iter().enumerate().skip(1) {
            let (_, before, last) = changes[index - 1];
            let pause = *at - *last;
            is_shared = is_shared && pause < limits::SHARED_QUIET
                || before != session && pause <= limits::SHARED_WITHIN;
        }
        let last = changes.last();
        is_shared && last.is_some_and(|(.., at)| self.now - *at < limits::SHARED_QUIET)
    }

    fn read(&mut self, session: SessionId, key: LeaseKey) {
        let is_of_shared = match key {
            LeaseKey::Data(_) => false,
            _ => self.is_shared(key.inode()),
        };
        let takes = self.table.takes_leases(session);
        let is_granted = takes && !self.is_closed(key) && !is_of_shared;
        let granted = self.table.grant(session, key, self.now);
        assert_eq!(granted.is_some(), is_granted, "{session:?} reads {key:?}");
        let Some(number) = granted else { return };
        let last = self.numbers.entry(session).or_default();
        *last += 1;
        assert_eq!(number, GrantNumber(*last));
        self.leases.insert((key, session));
        let value = self.value(key);
        self.client(session).replies.push_back((key, number, value));
    }

    fn deliver(&mut self, session: SessionId) {
        let client = self.client(session);
        let Some((key, number, value)) = client.replies.pop_front() else {
            return;
        };
        let is_void = client.void.get(&key).is_some_and(|void| number <= *void);
        let is_newer = client
            .known
            .get(&key)
            .is_none_or(|(known, _)| number > *known);
        if !is_void && is_newer {
            client.known.insert(key, (number, value));
        }
    }

    fn change(&mut self, by: Option<SessionId>, keys: Vec<LeaseKey>) {
        let conflicts = self.conflicts(by, &keys);
        if conflicts.is_empty() {
            self.stage(by, &keys);
            return;
        }
        let closed = self.table.close(&keys);
        for (session, revocation) in conflicts {
            self.client(session).asked.push_back(revocation);
        }
        self.waiting.push(WaitingChange { by, keys, closed });
    }

    /// What the table asks, compared with the list.
    fn conflicts(
        &self,
        by: Option<SessionId>,
        keys: &[LeaseKey],
    ) -> BTreeMap<SessionId, LeaseRevocation> {
        let conflicts = self.table.conflicts(by, keys).revocations;
        let asked = conflicts.iter().flat_map(|(session, revocation)| {
            assert_eq!(revocation.upto, GrantNumber(self.numbers[session]));
            revocation.keys.iter().map(|key| (*key, *session))
        });
        let broken: BTreeSet<LeaseKey> =
            keys.iter().flat_map(|key| History::broken(*key)).collect();
        let expected = self
            .leases
            .iter()
            .filter(|(key, session)| broken.contains(key) && by != Some(*session));
        assert_eq!(asked.collect::<BTreeSet<_>>(), expected.copied().collect());
        conflicts
    }

    fn stage(&mut self, by: Option<SessionId>, keys: &[LeaseKey]) {
        for key in keys.iter().flat_map(|key| History::broken(*key)) {
            *self.values.entry(key).or_default() += 1;
        }
        if let Some(session) = by {
            self.table.note_changes(session, keys, self.now);
            let dirs = keys.iter().filter_map(|key| match key {
                LeaseKey::Name { dir, .. } => Some(*dir),
                _ => None,
            });
            let (dirs, now): (BTreeSet<InodeId>, _) = (dirs.collect(), self.now);
            self.changes
                .extend(dirs.into_iter().map(|dir| (dir, session, now)));
            self.tell_own_change(session, keys);
        }
    }

    /// The reply to a change: the session drops what it knew, as a client does that is not told the new values. Replies that are under way with
    /// lower numbers are void.
    fn tell_own_change(&mut self, session: SessionId, keys: &[LeaseKey]) {
        let last = GrantNumber(self.numbers.get(&session).copied().unwrap_or(0));
        let broken: Vec<LeaseKey> = keys.iter().flat_map(|key| History::broken(*key)).collect();
        self.table.drop_leases(session, &broken);
        for key in broken {
            self.leases.remove(&(key, session));
            let client = self.client(session);
            client.known.remove(&key);
            client.void.insert(key, last);
        }
    }

    fn answer(&mut self, session: SessionId) {
        let client = self.client(session);
        let Some(revocation) = client.asked.pop_front() else {
            return;
        };
        for key in &revocation.keys {
            client
                .known
                .retain(|known, (number, _)| known != key || *number > revocation.upto);
            let void = client.void.entry(*key).or_default();
            *void = revocation.upto.max(*void);
        }
        self.table.revoked(session, &revocation);
        for key in revocation.keys {
            if !self.table.holds(session, key) {
                self.leases.remove(&(key, session));
            }
        }
    }

    fn resume(&mut self, pick: usize, give_up: bool) {
        if self.waiting.is_empty() {
            return;
        }
        let index = pick % self.waiting.len();
        let WaitingChange { by, keys, .. } = &self.waiting[index];
        let (by, keys) = (*by, keys.clone());
        let is_ready = self.conflicts(by, &keys).is_empty();
        if is_ready || give_up {
            let change = self.waiting.remove(index);
            if is_ready && !give_up {
                self.stage(by, &keys);
            }
            self.table.reopen(change.closed);
        }
    }

    fn end(&mut self, session: SessionId, returns: bool) {
        *self.client(session) = ModelClient::default();
        match returns {
            true => self.table.accept(session),
            false => {
                self.table.drop_session(session);
                self.numbers.remove(&session);
            }
        }
        self.leases.retain(|(_, by)| *by != session);
    }

    fn check(&self) {
        for (session, client) in &self.clients {
            for (key, (_, value)) in &client.known {
                assert_eq!(
                    *value,
                    self.value(*key),
                    "{session:?} answers an old value of {key:?}"
                );
                assert!(self.table.holds(*session, *key), "{session:?} {key:?}");
            }
        }
        let counts = self.table.counts(self.now);
        assert_eq!(counts.leases, self.leases.len());
        for (key, session) in &self.leases {
            assert!(self.table.holds(*session, *key));
        }
        for session in SESSIONS {
            let of_session = self.leases.iter().filter(|(_, by)| *by == session).count();
            assert_eq!(self.table.leases_of(session), of_session);
        }
        let closed = KEYS.iter().filter(|key| self.is_closed(**key)).count();
        assert_eq!(counts.closed_keys, closed);
        let shared = [DIR, FILE].into_iter().filter(|dir| self.is_shared(*dir));
        assert_eq!(counts.shared_directories, shared.count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_client_answers_what_a_staged_change_has_replaced(events in prop::collection::vec(event(), 1..150)) {
        let mut history = History::new();
        for event in &events {
            history.run(event);
        }
        while !history.waiting.is_empty() {
            for session in SESSIONS {
                history.run(&Event::Answer { session });
            }
            history.run(&Event::Continue { pick: 0, give_up: false });
        }
        assert_eq!(history.table.counts(history.now).closed_keys, 0);
    }
}

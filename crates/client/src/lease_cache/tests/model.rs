//! Random interleavings of requests, replies, revocations and changes: whatever leases answer is the true state at that moment.

use super::model_server::*;
use crate::lease_cache::fill::LeasedReply;
use crate::lease_cache::order::SentAt;
use crate::lease_cache::table::{ChangeId, LeasedValues};
use bytes::Bytes;
use gupfs_proto::lease::{LeaseReply, LeaseRevocation};
use gupfs_proto::meta::*;
use gupfs_proto::{Caller, FileKind, InodeId, Timestamp};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A request under way, and its reply once the server has executed it.
struct Request {
    op: MetaOp,
    sent: SentAt,
    change: Option<ChangeId>,
    /// The client does not wait for the reply any more.
    abandoned: bool,
    reply: Option<(Outcome, LeaseReply)>,
}

struct Model {
    random: Random,
    server: ModelServer,
    client: LeasedValues,
    requests: Vec<Request>,
    revocations: Vec<LeaseRevocation>,
    answered: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        Model {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            server: ModelServer::new(),
            client: LeasedValues::default(),
            requests: Vec::new(),
            revocations: Vec::new(),
            answered: 0,
        }
    }

    fn random_name(&mut self) -> (InodeId, gupfs_proto::Name) {
        let dir = DIRS[self.random.below(2) as usize];
        (dir, nth_name(self.random.below(NAMES)))
    }

    fn random_inode(&mut self) -> InodeId {
        let files = self.server.truth.files();
        files[self.random.below(files.len() as u64) as usize]
    }

    fn random_read(&mut self) -> MetaOp {
        let ((dir, name), ino) = (self.random_name(), self.random_inode());
        match self.random.below(6) {
            0 | 1 => MetaOp::Lookup { dir, name },
            2 => MetaOp::GetAttr { ino },
            3 => MetaOp::GetXattr { ino, name: xattr() },
            4 => MetaOp::Open {
                ino,
                open: for_reading(),
            },
            _ => MetaOp::Readdir {
                dir,
                after: [0, 8 << 8, 9 << 8][self.random.below(3) as usize],
                limit: 1 + self.random.below(4) as u32,
                plus: self.random.one_in(2),
            },
        }
    }

    fn random_change(&mut self) -> MetaOp {
        let ((dir, name), ino) = (self.random_name(), self.random_inode());
        match self.random.below(10) {
            0 | 1 => MetaOp::Mknod {
                dir,
                name,
                kind: FileKind::Regular,
                rdev: 0,
                create_mode: CreateMode { mode: 0, umask: 0 },
            },
            2 if ino.0 > 2 => MetaOp::Link { ino, dir, name },
            3 => MetaOp::Unlink { dir, name },
            4 => {
                let (to, new_name) = self.random_name();
                MetaOp::Rename {
                    from: dir,
                    name,
                    to,
                    new_name,
                    mode: match self.random.one_in(3) {
                        true => RenameMode::Exchange,
                        false => RenameMode::Replace,
                    },
                }
            }
            5 => MetaOp::SetXattr {
                ino,
                name: xattr(),
                value: Bytes::from(vec![self.random.below(250) as u8]),
                mode: XattrMode::CreateOrReplace,
            },
            6 if ino.0 > 2 => MetaOp::WriteInline {
                ino,
                at: WritePosition::Offset(0),
                data: Bytes::from(vec![self.random.below(250) as u8]),
                kill_privileges: false,
            },
            7 | 8 => MetaOp::SetAttr {
                ino,
                set: SetAttr {
                    ctime: Some(Timestamp::default()),
                    ..SetAttr::default()
                },
            },
            _ => MetaOp::SetAttr {
                ino,
                set: SetAttr {
                    mode: Some(self.random.below(0o1000) as u32),
                    ..SetAttr::default()
                },
            },
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=4 => {
                let op = self.random_read();
                self.send(op);
            }
            5..=6 => {
                let op = self.random_change();
                self.send(op);
            }
            7..=10 => self.execute_one(),
            11..=15 => self.deliver_one(),
            16..=17 if !self.server.is_waiting() => {
                let op = self.random_change();
                let revocation = self.server.change_by_other(op);
                self.revocations.extend(revocation);
            }
            18 if self.random.one_in(30) => self.abandon_one(),
            18 if self.random.one_in(4) => self.lose_a_reply(),
            18 if self.random.one_in(20) => self.restart(),
            19 if self.random.one_in(15) => self.client.clear(),
            _ => {
                if let Some(revocation) = self.revocations.pop() {
                    revocation.keys.iter().for_each(|key| {
                        self.client.revoke(*key);
                    });
                    self.revocations.extend(self.server.revoked(&revocation));
                }
            }
        }
    }

    fn send(&mut self, op: MetaOp) {
        if self.requests.len() >= 6 {
            return;
        }
        let change = self.client.start_change(&op);
        let sent = self.client.start_request();
        self.requests.push(Request {
            op,
            sent,
            change,
            abandoned: false,
            reply: None,
        });
    }

    fn pick(&mut self, wanted: impl Fn(&Request) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..self.requests.len())
            .filter(|index| wanted(&self.requests[*index]))
            .collect();
        match found.len() {
            0 => None,
            len => Some(found[self.random.below(len as u64) as usize]),
        }
    }

    fn execute_one(&mut self) {
        let Some(index) = self.pick(|request| request.reply.is_none()) else {
            return;
        };
        let (random, request) = (&mut self.random, &mut self.requests[index]);
        let reply = self.server.execute(&request.op, || !random.one_in(6));
        request.reply = Some(reply);
        if request.abandoned {
            self.requests.remove(index);
        }
    }

    fn deliver_one(&mut self) {
        let Some(index) = self.pick(|request| request.reply.is_some()) else {
            return;
        };
        let request = self.requests.remove(index);
        let (outcome, leases) = request.reply.unwrap();
        self.client.fill(&LeasedReply {
            op: &request.op,
            sees_trusted: true,
            sent: request.sent,
            change: request.change,
            outcome: &outcome,
            grants: &leases.grants,
            changed: &leases.changed,
        });
        self.client.end_request(request.sent);
    }

    /// The client repeats a change whose reply was lost, and gets the stored reply, without leases.
    fn lose_a_reply(&mut self) {
        let is_change = |request: &Request| request.reply.is_some() && request.change.is_some();
        if let Some(index) = self.pick(is_change) {
            self.repeat(index);
        }
    }

    fn repeat(&mut self, index: usize) {
        let request = &mut self.requests[index];
        self.client.end_request(request.sent);
        request.sent = self.client.start_request();
        match (&mut request.reply, request.change) {
            (Some((_, leases)), Some(_)) => *leases = LeaseReply::default(),
            (reply, _) => *reply = None,
        }
    }

    /// The server is restarted. Requests under way are repeated; abandoned ones are not.
    fn restart(&mut self) {
        self.requests.retain(|request| !request.abandoned);
        self.revocations.clear();
        self.client.restart();
        self.server.restart();
        (0..self.requests.len()).for_each(|index| self.repeat(index));
    }

    fn abandon_one(&mut self) {
        let waits = |request: &Request| request.reply.is_none() && !request.abandoned;
        let Some(index) = self.pick(waits) else {
            return;
        };
        let request = &mut self.requests[index];
        request.abandoned = true;
        self.client.end_request(request.sent);
        if let Some(change) = request.change {
            self.client.abandon_change(change, None);
        }
    }

    /// Every read that leases answer now has the true answer.
    fn check(&mut self, seed: u64, step: u32) {
        let mut reads = Vec::new();
        for dir in DIRS {
            reads.extend((0..NAMES).map(|number| MetaOp::Lookup {
                dir,
                name: nth_name(number),
            }));
            reads.extend([false, true].map(|plus| MetaOp::Readdir {
                dir,
                after: 0,
                limit: 3,
                plus,
            }));
        }
        for ino in self.server.truth.files() {
            reads.extend([
                MetaOp::GetAttr { ino },
                MetaOp::GetXattr { ino, name: xattr() },
                MetaOp::Open {
                    ino,
                    open: for_reading(),
                },
            ]);
        }
        for op in reads {
            if let Some(answer) = self.client.answer(&Caller::root(), &op, false) {
                self.answered += 1;
                let truth = self.server.truth.execute(&op);
                let (answer, truth) = (comparable(answer), comparable(truth));
                assert_eq!(answer, truth, "seed {seed}, step {step}, {op:?}");
            }
        }
    }
}

/// Without what changes without a revocation.
fn comparable(mut outcome: Outcome) -> Outcome {
    match &mut outcome {
        Ok(MetaReplyBody::Entry(attr) | MetaReplyBody::Attr(attr)) => *attr = without_atime(*attr),
        Ok(MetaReplyBody::Opened(opened)) => opened.attr = without_atime(opened.attr),
        Ok(MetaReplyBody::Entries { entries, .. }) => {
            for attr in entries.iter_mut().filter_map(|entry| entry.attr.as_mut()) {
                *attr = without_atime(*attr);
            }
        }
        _ => {}
    }
    outcome
}

fn for_reading() -> OpenMode {
    OpenMode {
        access: AccessMode::READ,
        truncate: false,
        kill_privileges: false,
    }
}

#[test]
fn leases_answer_the_true_state_whatever_the_order_of_requests_and_revocations() {
    let mut answered = 0;
    for seed in 0..800 {
        let mut model = Model::new(seed);
        for step in 0..400 {
            model.step();
            model.check(seed, step);
        }
        answered += model.answered;
    }
    assert!(answered > 50_000, "only {answered} reads were answered");
}

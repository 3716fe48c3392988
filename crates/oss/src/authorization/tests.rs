//! Tests of the authorizer with keys of a test metadata server.

use super::*;
use crate::{DataHandler, Oss, ServedTarget};
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::capability::{CapabilityKey, Rights};
use gupfs_proto::cluster::KeyShare;
use gupfs_proto::data::{
    BlockChecksums, ChecksumCheck, DataOp, ObjectExistence, ObjectOwner, WriteNumber,
};
use gupfs_proto::{Generation, MapEpoch, ObjectId, ObjectOffset};
use std::future::poll_fn;
use std::task::Poll;

const OST: OstId = OstId(1);
const FILE: InodeId = InodeId(9);
const SESSION: SessionId = SessionId(7);

fn at(secs: u64) -> BootTime {
    BootTime::default() + Duration::from_secs(secs)
}

/// The metadata server of one epoch. Its clock equals the object server's clock.
struct TestMds(OwnerEpoch);

impl TestMds {
    fn shares(&self) -> (KeyShare, KeyShare) {
        let (counter, group) = (self.0.counter() as u8, self.0.group().0 as u8);
        (
            KeyShare([counter + 50 * group; 32]),
            KeyShare([100 + counter + 50 * group; 32]),
        )
    }

    fn capability_keys(&self, now: BootTime) -> CapabilityKeys {
        let (session_capability, ost) = self.shares();
        CapabilityKeys {
            epoch: self.0,
            now: now.0 / 1_000_000,
            session_key: session_capability,
            ost_keys: vec![(OST, ost)],
            ended_sessions: Vec::new(),
        }
    }

    /// Sessions of owners of different groups may have the same counter.
    fn session(&self) -> SessionId {
        SessionId::new(self.0.group(), SESSION.0)
    }

    fn key(&self, share: KeyShare) -> CapabilityKey {
        ClusterKey::capability_key(None, &share)
    }

    fn session_capability(&self, until: BootTime) -> SessionCapability {
        let (epoch, until) = (self.0, until.0 / 1_000_000);
        let session = self.session();
        let statement = CapabilityStatement::Session {
            epoch,
            session,
            until,
        };
        let tag = self.key(self.shares().0).compute_mac(&statement);
        SessionCapability {
            epoch,
            until,
            mac: tag,
        }
    }

    fn object_capability(&self, ino: InodeId, rights: Rights) -> ObjectCapability {
        let epoch = self.0;
        let statement = CapabilityStatement::File {
            epoch,
            ost: OST,
            session: self.session(),
            ino,
            rights,
        };
        let tag = self.key(self.shares().1).compute_mac(&statement);
        ObjectCapability {
            epoch,
            rights,
            mac: tag,
        }
    }

    fn server(&self) -> DataCredentials {
        let epoch = self.0;
        let statement = CapabilityStatement::Server { epoch, ost: OST };
        let tag = self.key(self.shares().1).compute_mac(&statement);
        DataCredentials::Server { epoch, mac: tag }
    }
}

fn object(ino: InodeId) -> ObjectId {
    ObjectId {
        ino,
        generation: Generation(1),
        stripe: 0,
    }
}

fn read() -> DataOp {
    DataOp::Read {
        object: object(FILE),
        at: ObjectOffset(0),
        len: 1,
        existence: ObjectExistence::MayExist,
        checksum_check: ChecksumCheck::ByRequester,
    }
}

fn write() -> DataOp {
    DataOp::Write {
        object: object(FILE),
        at: ObjectOffset(0),
        data: Default::default(),
        checksums: BlockChecksums::default(),
        existence: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    }
}

fn request(credentials: DataCredentials, op: DataOp) -> DataRequest {
    DataRequest {
        session: SESSION,
        map_epoch: MapEpoch(1),
        job: gupfs_proto::JobId(0),
        ost: OST,
        credentials,
        op,
    }
}

fn client(
    session_capability: SessionCapability,
    object_capability: ObjectCapability,
) -> DataCredentials {
    DataCredentials::Client {
        session_capability,
        object_capability: Some(object_capability),
    }
}

/// An authorizer with the keys of this epoch, received at second 100.
fn authorizer_with_keys(mds: &TestMds) -> Authorizer {
    let authorizer = Authorizer::default();
    authorizer.update_keys(&mds.capability_keys(at(100)), at(100));
    authorizer
}

fn fault(
    authorizer: &Authorizer,
    credentials: DataCredentials,
    op: DataOp,
    now: BootTime,
) -> Option<CapabilityFault> {
    authorizer.authorize(&request(credentials, op), now).err()
}

#[test]
fn verified_credentials_need_no_second_hmac() {
    let mds = TestMds(OwnerEpoch(3));
    let authorizer = authorizer_with_keys(&mds);
    let credentials = client(
        mds.session_capability(at(120)),
        mds.object_capability(FILE, Rights::all()),
    );
    for op in [read(), write()] {
        assert_eq!(fault(&authorizer, credentials, op, at(101)), None);
    }
    let first = authorizer.status().verified;
    assert_eq!(first, 2, "one session and one object capability");
    for _ in 0..1_000 {
        assert_eq!(fault(&authorizer, credentials, write(), at(101)), None);
        assert_eq!(fault(&authorizer, mds.server(), read(), at(101)), None);
    }
    assert_eq!(
        authorizer.status().verified,
        first + 1,
        "the metadata server's credentials"
    );
    // After a renewal only the session capability is verified.
    let renewed = client(
        mds.session_capability(at(125)),
        mds.object_capability(FILE, Rights::all()),
    );
    assert_eq!(fault(&authorizer, renewed, read(), at(106)), None);
    assert_eq!(authorizer.status().verified, first + 2);
}

#[test]
fn invalid_credentials_are_refused_and_counted() {
    let mds = TestMds(OwnerEpoch(3));
    let authorizer = authorizer_with_keys(&mds);
    let session_capability = mds.session_capability(at(120));
    let own = mds.object_capability(FILE, Rights::READ);
    let of = |credentials, op| fault(&authorizer, credentials, op, at(101));
    assert_eq!(
        of(DataCredentials::None, read()),
        Some(CapabilityFault::Missing)
    );
    let without = DataCredentials::Client {
        session_capability,
        object_capability: None,
    };
    assert_eq!(of(without, read()), Some(CapabilityFault::Missing));
    assert_eq!(of(without, DataOp::Space), None);
    // An object capability of another file, one with more rights than issued, one of another session.
    let another = mds.object_capability(InodeId(10), Rights::READ);
    assert_eq!(
        of(client(session_capability, another), read()),
        Some(CapabilityFault::Forged)
    );
    let more = ObjectCapability {
        rights: Rights::all(),
        ..own
    };
    assert_eq!(
        of(client(session_capability, more), write()),
        Some(CapabilityFault::Forged)
    );
    let mut foreign = request(client(session_capability, own), read());
    foreign.session = SessionId(8);
    assert_eq!(
        authorizer.authorize(&foreign, at(101)).err(),
        Some(CapabilityFault::Forged)
    );
    // A session capability with a later expiry than issued.
    let longer = SessionCapability {
        until: session_capability.until + 1,
        ..session_capability
    };
    assert_eq!(
        of(client(longer, own), read()),
        Some(CapabilityFault::Forged)
    );
    // Operations beyond the issued rights.
    assert_eq!(
        of(client(session_capability, own), write()),
        Some(CapabilityFault::Rights)
    );
    let remove = DataOp::Remove {
        object: object(FILE),
    };
    assert_eq!(
        of(client(session_capability, own), remove),
        Some(CapabilityFault::Rights)
    );
    let fence = DataOp::Fence { session: SESSION };
    assert_eq!(
        of(client(session_capability, own), fence),
        Some(CapabilityFault::Rights)
    );
    assert_eq!(of(client(session_capability, own), read()), None);
    let status = authorizer.status();
    let counted = (status.missing, status.forged, status.rights);
    assert_eq!((counted, status.refused()), ((2, 4, 3), 9));
}

#[test]
fn a_numbered_write_needs_what_a_write_needs() {
    let mds = TestMds(OwnerEpoch(3));
    let authorizer = authorizer_with_keys(&mds);
    let numbered = write().with_number(WriteNumber { slot: 0, number: 1 });
    let session_capability = mds.session_capability(at(120));
    let of = |object_capability, request_session| {
        let mut request = request(
            client(session_capability, object_capability),
            numbered.clone(),
        );
        request.session = request_session;
        authorizer.authorize(&request, at(101)).err()
    };
    let [readable, writable] =
        [Rights::READ, Rights::all()].map(|rights| mds.object_capability(FILE, rights));
    assert_eq!(of(readable, SESSION), Some(CapabilityFault::Rights));
    assert_eq!(of(writable, SESSION), None);
    // The entries of another session are out of reach.
    let another = SessionId(SESSION.0 + 1);
    assert_eq!(of(writable, another), Some(CapabilityFault::Forged));
    let another_file = mds.object_capability(InodeId(10), Rights::all());
    assert_eq!(of(another_file, SESSION), Some(CapabilityFault::Forged));
}

#[test]
fn an_expired_session_capability_is_refused_and_a_renewed_one_accepted() {
    let mds = TestMds(OwnerEpoch(3));
    let authorizer = authorizer_with_keys(&mds);
    let object_capability = mds.object_capability(FILE, Rights::READ);
    let old = client(mds.session_capability(at(120)), object_capability);
    assert_eq!(fault(&authorizer, old, read(), at(119)), None);
    assert_eq!(
        fault(&authorizer, old, read(), at(121)),
        Some(CapabilityFault::Expired)
    );
    // Also a capability that this server has not verified before.
    let unseen = client(mds.session_capability(at(110)), object_capability);
    assert_eq!(
        fault(&authorizer, unseen, read(), at(121)),
        Some(CapabilityFault::Expired)
    );
    let new = client(mds.session_capability(at(140)), object_capability);
    assert_eq!(fault(&authorizer, new, read(), at(121)), None);
    assert_eq!(authorizer.status().expired, 2);
    assert_eq!(authorizer.status().refused(), 0);
}

#[test]
fn capabilities_of_a_former_owner_are_valid_for_one_term() {
    let (former, next) = (TestMds(OwnerEpoch(3)), TestMds(OwnerEpoch(4)));
    let authorizer = authorizer_with_keys(&former);
    let object_capability = former.object_capability(FILE, Rights::READ);
    let of = |session_capability, now| {
        fault(
            &authorizer,
            client(session_capability, object_capability),
            read(),
            now,
        )
    };
    assert_eq!(of(former.session_capability(at(120)), at(101)), None);
    // Verified, and used again.
    for _ in 0..2 {
        assert_eq!(fault(&authorizer, former.server(), read(), at(101)), None);
    }
    authorizer.update_keys(&next.capability_keys(at(105)), at(105));
    assert_eq!(of(former.session_capability(at(120)), at(106)), None);
    assert_eq!(of(next.session_capability(at(126)), at(106)), None);
    // The credentials of the former owner itself are fenced at once.
    let former_server = fault(&authorizer, former.server(), read(), at(106));
    assert_eq!(former_server, Some(CapabilityFault::Fenced));
    authorizer.update_keys(&next.capability_keys(at(127)), at(127));
    assert_eq!(
        of(next.session_capability(at(140)), at(128)),
        Some(CapabilityFault::Expired)
    );
    let reissued = client(
        next.session_capability(at(140)),
        next.object_capability(FILE, Rights::READ),
    );
    assert_eq!(fault(&authorizer, reissued, read(), at(128)), None);
}

#[test]
fn without_keys_all_credentials_are_expired() {
    let mds = TestMds(OwnerEpoch(3));
    let authorizer = Authorizer::default();
    let credentials = client(
        mds.session_capability(at(120)),
        mds.object_capability(FILE, Rights::READ),
    );
    assert_eq!(
        fault(&authorizer, credentials, read(), at(101)),
        Some(CapabilityFault::Expired)
    );
    let server = fault(&authorizer, mds.server(), read(), at(101));
    assert_eq!(server, Some(CapabilityFault::Expired));
}

#[tokio::test]
async fn a_request_for_a_target_without_a_verdict_waits_and_is_authorized_then() {
    let mds = TestMds(OwnerEpoch(3));
    let oss = Oss::of_host(0, Vec::<(OstId, ServedTarget)>::new());
    let added = oss.add(OST, ServedTarget::Down("this test needs no disk".into()));
    assert!(added.is_ok());
    let clock = FakePlatform::new(1).platform().clock;
    let handler = DataHandler::new(&oss, &clock);
    let now = clock.boot();
    let session_capability = mds.session_capability(now + Duration::from_secs(20));
    let credentials = client(
        session_capability,
        mds.object_capability(FILE, Rights::READ),
    );
    let forged = client(
        session_capability,
        mds.object_capability(InodeId(10), Rights::READ),
    );
    let (credentials, forged) = (request(credentials, read()), request(forged, read()));
    let mut authorized = Box::pin(async {
        tokio::join!(handler.authorize(&credentials), handler.authorize(&forged))
    });
    let is_waiting = poll_fn(|cx| Poll::Ready(authorized.as_mut().poll(cx).is_pending())).await;
    assert!(is_waiting, "the authorizer has no keys");
    oss.authorizer().update_keys(&mds.capability_keys(now), now);
    oss.verdicts_arrived([OST]);
    let (credentials, forged) = authorized.await;
    assert_eq!(
        (credentials.err(), forged.err()),
        (None, Some(CapabilityFault::Forged))
    );
    assert_eq!(oss.authorizer().status().expired, 0);
}

#[tokio::test]
async fn a_fence_waits_for_running_requests_and_refuses_later_ones() {
    let mds = TestMds(OwnerEpoch(3));
    let authorizer = authorizer_with_keys(&mds);
    let credentials = client(
        mds.session_capability(at(120)),
        mds.object_capability(FILE, Rights::all()),
    );
    let running = authorizer
        .authorize(&request(credentials, write()), at(101))
        .ok();
    let mut fence = Box::pin(authorizer.fence(SESSION));
    let is_waiting = poll_fn(|cx| Poll::Ready(fence.as_mut().poll(cx).is_pending())).await;
    assert!(is_waiting, "a write is running");
    assert_eq!(
        fault(&authorizer, credentials, write(), at(101)),
        Some(CapabilityFault::Fenced)
    );
    drop(running);
    fence.await;
    assert_eq!(
        fault(&authorizer, credentials, read(), at(101)),
        Some(CapabilityFault::Fenced)
    );
    assert_eq!(authorizer.status().fenced, 2);
}

#[test]
fn a_restarted_server_learns_the_ended_sessions_before_it_serves() {
    let mds = TestMds(OwnerEpoch(3));
    let authorizer = Authorizer::default();
    let mut capability_keys = mds.capability_keys(at(100));
    capability_keys.ended_sessions.push(SESSION);
    authorizer.update_keys(&capability_keys, at(100));
    let credentials = client(
        mds.session_capability(at(120)),
        mds.object_capability(FILE, Rights::READ),
    );
    assert_eq!(
        fault(&authorizer, credentials, read(), at(101)),
        Some(CapabilityFault::Fenced)
    );
    // The authorizer drops the session when all its capabilities have expired.
    authorizer.update_keys(&mds.capability_keys(at(170)), at(170));
    assert_eq!(authorizer.status().sessions, 0);
}

#[tokio::test]
async fn the_owners_of_two_groups_each_have_their_epochs_keys_and_sessions() {
    let one = TestMds(OwnerEpoch::new(ShardGroup(0), 9));
    let [two, next_two] = [3, 4].map(|counter| TestMds(OwnerEpoch::new(ShardGroup(1), counter)));
    let authorizer = authorizer_with_keys(&one);
    // The second owner's counter is lower; it is no former owner of the first one's group.
    authorizer.update_keys(&two.capability_keys(at(100)), at(100));
    let credentials = |mds: &TestMds, until| {
        let object_capability = mds.object_capability(FILE, Rights::all());
        client(mds.session_capability(at(until)), object_capability)
    };
    let of = |session: SessionId, credentials, op, now| {
        let mut request = request(credentials, op);
        request.session = session;
        authorizer.authorize(&request, at(now)).err()
    };
    for mds in [&one, &two] {
        let of_mds = |op| of(mds.session(), credentials(mds, 120), op, 101);
        assert_eq!((of_mds(read()), of_mds(write())), (None, None));
        assert_eq!(of(SESSION, mds.server(), read(), 101), None);
    }
    // One owner's session does not go with the other's right to a file, nor with the other's number.
    let mixed = client(
        one.session_capability(at(120)),
        two.object_capability(FILE, Rights::all()),
    );
    let refused = of(one.session(), mixed, read(), 101);
    assert_eq!(refused, Some(CapabilityFault::Forged));
    let refused = of(two.session(), credentials(&one, 120), read(), 101);
    assert_eq!(refused, Some(CapabilityFault::Forged));
    // The second group gets its next owner: the first group's is not affected, for any time.
    authorizer.update_keys(&next_two.capability_keys(at(110)), at(110));
    let fenced = of(SESSION, two.server(), read(), 111);
    assert_eq!(fenced, Some(CapabilityFault::Fenced));
    authorizer.update_keys(&one.capability_keys(at(140)), at(140));
    assert_eq!(of(SESSION, one.server(), read(), 141), None);
    let later = |mds: &TestMds| of(mds.session(), credentials(mds, 160), read(), 141);
    assert_eq!(
        [&one, &two, &next_two].map(later),
        [None, Some(CapabilityFault::Expired), None]
    );
    // An owner ends sessions of its own group alone.
    let fence = |mds: &TestMds, of: &TestMds| {
        let op = DataOp::Fence {
            session: of.session(),
        };
        let request = request(mds.server(), op);
        authorizer.authorize(&request, at(141)).err()
    };
    let refused = fence(&one, &next_two);
    assert_eq!(refused, Some(CapabilityFault::Rights));
    assert_eq!(fence(&one, &one), None);
    let mut keys = one.capability_keys(at(142));
    keys.ended_sessions = vec![next_two.session(), one.session()];
    authorizer.update_keys(&keys, at(142));
    let ended = |mds: &TestMds| of(mds.session(), credentials(mds, 160), read(), 143);
    assert_eq!(ended(&next_two), None);
    assert_eq!(ended(&one), Some(CapabilityFault::Fenced));
}

//! What an object server answers who has the cluster's key and asks for what is not his.

use crate::running::{can_mount, gupfs};
use crate::town::Town;
use gupfs_platform::{Net, Platform};
use gupfs_proto::capability::{Capability, Fault, Grant, Pass, Rights, Tag, Warrant};
use gupfs_proto::cluster;
use gupfs_proto::data::{self, BlockSums, Checked, Existing, Owner};
use gupfs_proto::meta::{self, Access, Answer, Op, OpenHow};
use gupfs_proto::{
    Caller, InodeId, Layout, MapEpoch, ObjectId, ObjectOffset, OstId, OwnerEpoch, Refusal, Seq,
    SessionId, Slot, Timestamp,
};
use gupfs_rpc::{ClusterKey, Hosts, Line, LineOptions, Myself, Role};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// A program that speaks to the servers without being a client as it should be.
struct Stranger {
    platform: Platform,
    key: ClusterKey,
    mds: Arc<Line>,
    session: SessionId,
    pass: Pass,
    /// Of the metadata server.
    life: OwnerEpoch,
    /// Changes made so far.
    changes: u64,
}

/// Where a file's bytes are, and what shows that one may use them.
struct Found {
    layout: Layout,
    capability: Capability,
}

impl Found {
    fn object(&self, ino: InodeId) -> (OstId, ObjectId) {
        let (_, _, ost, object, _) = self.layout.objects(ino).next().unwrap();
        (ost, object)
    }
}

impl Stranger {
    async fn enter(town: &Town) -> Stranger {
        let platform = Platform::real();
        let key = ClusterKey::new(fs::read(town.key()).unwrap().try_into().unwrap());
        let mds = line(&platform, &key, Role::Client, &town.at);
        let mut stranger = Stranger {
            platform,
            key,
            mds,
            session: SessionId(0),
            pass: Pass {
                epoch: Default::default(),
                until: 0,
                tag: Tag([0; 16]),
            },
            life: OwnerEpoch(0),
            changes: 0,
        };
        let client = "stranger".to_string();
        let opened = stranger.ask(Op::OpenSession { client }).await.unwrap();
        let Answer::Session {
            session,
            life,
            pass: Some(pass),
        } = opened
        else {
            panic!("{opened:?}");
        };
        (stranger.session, stranger.pass, stranger.life) = (session, pass, life);
        stranger
    }

    async fn ask(&mut self, op: Op) -> Result<Answer, Refusal> {
        let lane = op.changes().then(|| {
            self.changes += 1;
            meta::Lane {
                slot: Slot(0),
                sequence: self.changes,
            }
        });
        let request = meta::Request {
            session: self.session,
            lane,
            caller: Caller::root(),
            job: 0,
            life: self.life,
            seen: Seq(0),
            op,
        };
        let reply: meta::Reply = self.mds.peer().call(request).await;
        reply.result
    }

    /// Comes back to a server that was started again and says what was never so: its session is ended for it.
    async fn comes_back_with_a_lie(&mut self) {
        let of = match self.ask(Op::StatFs).await {
            Err(Refusal::AnotherLife(life)) => std::mem::replace(&mut self.life, life),
            other => panic!("it was not started again: {other:?}"),
        };
        let lie = meta::Kept {
            change: meta::Change {
                seq: Seq((1 << 40) + self.session.0),
                at: Timestamp::default(),
            },
            lane: meta::Lane {
                slot: Slot(1),
                sequence: 1,
            },
            caller: Caller::root(),
            op: gupfs_proto::wire::op_bytes(&Op::KillPrivileges {
                ino: InodeId(1 << 40),
            }),
            made: None,
            layout: None,
        };
        let comes_back = Op::Return {
            of,
            kept: vec![lie],
            locks: Vec::new(),
            last: true,
        };
        let said = self.ask(comes_back).await;
        assert_eq!(said, Err(Refusal::SessionEnded));
    }

    async fn find(&mut self, op: Op) -> Found {
        match self.ask(op).await {
            Ok(Answer::Opened(opened)) => Found {
                layout: opened.layout,
                capability: opened.capability.expect("a file with objects"),
            },
            other => panic!("{other:?}"),
        }
    }

    async fn open(&mut self, ino: InodeId) -> Found {
        let open = OpenHow {
            access: Access::READ,
            truncate: false,
            kill_privileges: false,
        };
        self.find(Op::Open { ino, open }).await
    }

    /// The object server of a target, to be asked with whatever is to be shown.
    async fn at(&self, ost: OstId) -> Arc<Line> {
        let map: cluster::Reply = self.mds.peer().call(cluster::Request::Map).await;
        let Ok(cluster::Answer::Map(map)) = map else {
            panic!("{map:?}");
        };
        let place = map.targets.into_iter().find(|place| place.ost == ost);
        let at = place.unwrap().address.unwrap();
        line(&self.platform, &self.key, Role::Client, &at)
    }

    async fn try_at(
        &self,
        oss: &Arc<Line>,
        ost: OstId,
        warrant: Warrant,
        op: data::Op,
    ) -> data::Reply {
        let request = data::Request {
            session: self.session,
            map_epoch: MapEpoch(0),
            job: 0,
            ost,
            warrant,
            op,
        };
        oss.peer().call(request).await
    }

    fn client(&self, grant: Option<Grant>) -> Warrant {
        Warrant::Client {
            pass: self.pass,
            grant,
        }
    }
}

fn line(platform: &Platform, key: &ClusterKey, role: Role, to: &str) -> Arc<Line> {
    Line::open(LineOptions {
        to: to.to_string(),
        whom: "a server".into(),
        net: Net::real(),
        platform: platform.clone(),
        me: Myself {
            who: u128::from(platform.dice.u64()),
            role,
            name: "stranger".into(),
        },
        cluster: None,
        key: Some(key.clone().into()),
        tls: None,
        patience: Some(Duration::from_secs(60)),
        fence: true,
        hosts: Hosts::none(),
    })
}

fn read(object: ObjectId) -> data::Op {
    data::Op::Read {
        object,
        at: ObjectOffset(0),
        len: 100,
        existing: Existing::Perhaps,
        checked: Checked::ByAsker,
    }
}

fn write(object: ObjectId) -> data::Op {
    data::Op::Write {
        object,
        at: ObjectOffset(0),
        data: bytes::Bytes::from_static(b"mine"),
        sums: BlockSums::default(),
        existing: Existing::Perhaps,
        owner: Owner::default(),
    }
}

fn fault<T>(reply: Result<T, Refusal>) -> Result<(), Fault> {
    match reply {
        Ok(_) => Ok(()),
        Err(Refusal::Capability(fault)) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

fn ino(path: &std::path::Path) -> InodeId {
    InodeId(fs::metadata(path).unwrap().ino())
}

fn run(tried: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(tried);
}

#[test]
fn what_was_not_given_is_refused_counted_and_shown() {
    if !can_mount() {
        return;
    }
    let town = Town::new(1, 1);
    let mount = &town.mounts[0].at;
    for name in ["a", "b"] {
        fs::write(mount.join(name), vec![5; 100_000]).unwrap();
    }
    let (a, b) = (ino(&mount.join("a")), ino(&mount.join("b")));
    run(async {
        let mut stranger = Stranger::enter(&town).await;
        let (of_a, of_b) = (stranger.open(a).await, stranger.open(b).await);
        let (ost, object) = of_a.object(a);
        let grant = of_a.capability.at(ost).unwrap();
        let oss = stranger.at(ost).await;
        let of = async |warrant, op| fault(stranger.try_at(&oss, ost, warrant, op).await);
        // What was given.
        let mine = stranger.client(Some(grant));
        assert_eq!(of(mine, read(object)).await, Ok(()));
        // Nothing; another file's; one that was made up; more rights than were given.
        assert_eq!(of(Warrant::None, read(object)).await, Err(Fault::Missing));
        let nothing = stranger.client(None);
        assert_eq!(of(nothing, read(object)).await, Err(Fault::Missing));
        let others = of_b.capability.tags.iter();
        for (_, tag) in others.chain([&(ost, Tag([7; 16]))]) {
            let forged = stranger.client(Some(Grant { tag: *tag, ..grant }));
            assert_eq!(of(forged, read(object)).await, Err(Fault::Forged));
        }
        assert_eq!(of(mine, write(object)).await, Err(Fault::Rights));
        let more = Grant {
            rights: Rights::all(),
            ..grant
        };
        let more = stranger.client(Some(more));
        assert_eq!(of(more, write(object)).await, Err(Fault::Forged));
        // What is the metadata server's alone.
        let list = data::Op::List {
            after: None,
            limit: 10,
        };
        assert_eq!(of(mine, list.clone()).await, Err(Fault::Rights));
        let server = Warrant::Server {
            epoch: grant.epoch,
            tag: grant.tag,
        };
        // In a client's role nobody speaks as a server. In a server's, which the cluster's key proves, the tag decides.
        let told = stranger.try_at(&oss, ost, server, list.clone()).await;
        assert_eq!(told, Err(Refusal::NotPermitted));
        let as_mds = line(
            &stranger.platform,
            &stranger.key,
            Role::Mds,
            &oss.status().to,
        );
        let told = stranger.try_at(&as_mds, ost, server, list.clone()).await;
        assert_eq!(fault(told), Err(Fault::Forged));
        let told = stranger.try_at(&as_mds, ost, mine, list).await;
        assert_eq!(told, Err(Refusal::NotPermitted));
        // Who does not hold a file gets no right to write it, however it asks.
        let rights = Rights::WRITE;
        let permit = stranger.ask(Op::Permit { ino: a, rights }).await;
        assert_eq!(permit, Err(Refusal::Denied));
        let at = oss.status().to;
        let status = gupfs(["status", &at, "--key", &town.key()]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.contains("REFUSED, the last: stranger"), "{status}");
        let status = gupfs(["status", "--json", &at, "--key", &town.key()]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        assert!(status["gate"]["forged"].as_u64().unwrap() >= 4, "{status}");
    });
    assert!(fs::read(mount.join("a")).unwrap() == vec![5; 100_000]);
    town.stop();
}

#[test]
fn what_a_session_asks_after_its_end_is_refused_before_its_files_are_anothers() {
    if !can_mount() {
        return;
    }
    let mut town = Town::new(1, 1);
    let path = town.mounts[0].at.join("f");
    fs::write(&path, vec![5; 100_000]).unwrap();
    let file = ino(&path);
    run(async {
        // It opens the file before somebody holds it, who would be asked to tell.
        let mut reader = Stranger::enter(&town).await;
        let found = reader.open(file).await;
        let mut stranger = Stranger::enter(&town).await;
        let held = stranger
            .find(Op::BeginWrite {
                ino: file,
                kill_privileges: false,
            })
            .await;
        let (ost, object) = held.object(file);
        let may = stranger.client(held.capability.at(ost));
        let oss = stranger.at(ost).await;
        let late =
            async |stranger: &Stranger| fault(stranger.try_at(&oss, ost, may, write(object)).await);
        assert_eq!(late(&stranger).await, Ok(()));
        // One that holds nothing is fenced all the same.
        let shown = reader.client(found.capability.at(ost));
        let reading =
            async |reader: &Stranger| fault(reader.try_at(&oss, ost, shown, read(object)).await);
        assert_eq!(reading(&reader).await, Ok(()));
        // They are ended at once; their passes, of the life before, count for 20 s more.
        town.mds.kill();
        town.mds.start_again();
        tokio::join!(
            stranger.comes_back_with_a_lie(),
            reader.comes_back_with_a_lie()
        );
        assert_eq!(late(&stranger).await, Err(Fault::Fenced));
        assert_eq!(reading(&reader).await, Err(Fault::Fenced));
        // Another holds the file from here on.
        let path = path.clone();
        let written = tokio::task::spawn_blocking(move || fs::write(&path, vec![6; 50_000]));
        written.await.unwrap().unwrap();
        assert_eq!(late(&stranger).await, Err(Fault::Fenced));
        // One that is not heard of any more: its pass is over when the session is.
        let mut silent = Stranger::enter(&town).await;
        let found = silent.open(file).await;
        let (ost, object) = found.object(file);
        let may = silent.client(found.capability.at(ost));
        let reading =
            async |silent: &Stranger| fault(silent.try_at(&oss, ost, may, read(object)).await);
        assert_eq!(reading(&silent).await, Ok(()));
        tokio::time::sleep(Duration::from_secs(22)).await;
        assert_eq!(reading(&silent).await, Err(Fault::Expired));
    });
    assert!(fs::read(&path).unwrap() == vec![6; 50_000]);
    town.stop();
}

#[test]
fn who_was_cut_off_longer_than_its_pass_counts_goes_on() {
    if !can_mount() {
        return;
    }
    let mut town = Town::new(1, 1);
    let mount = town.mounts[0].at.clone();
    fs::write(mount.join("f"), vec![5; 6 << 20]).unwrap();
    let mut reader = fs::File::open(mount.join("f")).unwrap();
    let mut start = [0; 10];
    std::io::Read::read_exact(&mut reader, &mut start).unwrap();
    let mut writer = fs::File::create(mount.join("g")).unwrap();
    std::io::Write::write_all(&mut writer, &[7; 100_000]).unwrap();
    town.mds.kill();
    std::thread::sleep(Duration::from_secs(23));
    town.mds.start_again();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
    assert!(rest == vec![5; (6 << 20) - 10]);
    std::io::Write::write_all(&mut writer, &[8; 100_000]).unwrap();
    writer.sync_all().unwrap();
    drop((reader, writer));
    let written = fs::read(mount.join("g")).unwrap();
    assert!(written == [vec![7; 100_000], vec![8; 100_000]].concat());
    town.stop();
}

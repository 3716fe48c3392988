//! Power cuts and kills at every kind of moment: what was answered as durable is there, every change is whole or absent,
//! no number is given twice, and in the end records and objects fit together.

use crate::client::Client;
use crate::house::{Life, Simulated, simulate};
use crate::ost::FakeOst;
use gupfs_namespace::{Body, Inode, Key, Parsed, Purge, Record};
use gupfs_platform::fake::{CallKind, FakeDice};
use gupfs_proto::meta::{Answer, Op, OpenHow, RenameHow, Written};
use gupfs_proto::{InodeId, Name, ObjectId, Presence, Refusal, Seq, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

const ACTORS: usize = 3;
const MIB: u64 = 1 << 20;

/// Stands for the number of a file whose creation was not answered.
const UNTOLD: InodeId = InodeId(0);

/// What one actor knows of its directory.
struct Actor {
    dir: InodeId,
    osts: Vec<FakeOst>,
    /// The directory after each change, with the change's number; None for one that was not answered.
    history: Vec<(Option<Seq>, Files)>,
}

/// Name → inode and size.
type Files = BTreeMap<String, (InodeId, u64)>;

#[derive(Default, Debug)]
struct Seen {
    cuts: u64,
    kills: u64,
    died: u64,
    unanswered: u64,
    lost: u64,
    resumed_cuts: u64,
    orphans: u64,
    writers: u64,
    torn: u64,
    objects: u64,
}

#[test]
fn crashes_at_any_call_lose_nothing_that_was_promised() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        simulate(lives(seed, &mut seen));
    }
    println!("{seen:?}");
    for (what, count) in [
        ("power cuts", seen.cuts),
        ("kills", seen.kills),
        ("deaths while serving", seen.died),
        ("unanswered changes", seen.unanswered),
        ("changes lost before they were durable", seen.lost),
        ("orphans", seen.orphans),
        ("writers", seen.writers),
        ("objects", seen.objects),
    ] {
        assert!(count >= 10, "hardly any {what}: {seen:?}");
    }
}

async fn lives(seed: u64, seen: &mut Seen) {
    let dice = FakeDice::new(seed ^ 0x5eed);
    let house = Simulated::new(seed);
    let mut actors = first_life(&house).await;
    let mut given = BTreeSet::new();
    let mut only_killed = true; // since the last life that served
    for _ in 0..5 {
        let platform = house.platform();
        if dice.one_in(3) {
            // Perhaps during the recovery.
            house.disk.die_at(call(&dice), 1 + dice.below(40));
        }
        let mut durable = None;
        if let Ok(mds) = house.start_as(house.how(&platform)).await {
            let report = mds.recovery();
            seen.orphans += report.orphans_forgotten;
            seen.writers += report.writers;
            seen.resumed_cuts += report.cuts_resumed;
            seen.torn += u64::from(report.log_was_torn);
            if !house.disk.is_dead() && dice.one_in(2) {
                house.disk.die_at(call(&dice), 1 + dice.below(200));
            }
            if only_killed {
                actors.iter_mut().for_each(Actor::forget_before_answered);
            }
            let life = Life {
                platform: platform.clone(),
                mds,
            };
            durable = serve(&life, &mut actors, &dice, &mut given, seen).await;
            only_killed |= durable.is_some();
            seen.died += u64::from(house.disk.is_dead());
        }
        match dice.one_in(3) {
            true => {
                seen.kills += 1;
                house.kill(&platform).await;
            }
            false => {
                seen.cuts += 1;
                only_killed = false;
                if let Some(durable) = durable {
                    for actor in &mut actors {
                        actor.forget_before(durable);
                    }
                }
                house.cut_power(&platform).await;
            }
        }
    }
    last_life(&house, &mut actors, seen).await;
}

fn call(dice: &FakeDice) -> CallKind {
    [CallKind::Write, CallKind::Sync][dice.below(2) as usize]
}

async fn first_life(house: &Simulated) -> Vec<Actor> {
    let life = house.start().await;
    let client = Client::open(&life.mds).await;
    let mut actors = Vec::new();
    for i in 0..ACTORS {
        let dir = client
            .mkdir(0, InodeId::ROOT, &format!("actor{i}"))
            .await
            .unwrap();
        actors.push(Actor {
            dir,
            osts: house.osts.clone(),
            history: vec![(Some(Seq(0)), Files::new())],
        });
    }
    life.mds.stop().await.unwrap();
    house.kill(&life.platform).await;
    actors
}

/// What was found must be one of the states the actors count with; then each changes its directory for a while. Returns what
/// was durable at the end, as far as anybody was told.
async fn serve(
    life: &Life,
    actors: &mut [Actor],
    dice: &FakeDice,
    given: &mut BTreeSet<InodeId>,
    seen: &mut Seen,
) -> Option<Seq> {
    let client = match open(life).await {
        Ok(client) => client,
        Err(_) => return None,
    };
    for actor in actors.iter_mut() {
        match actor.find(&client).await {
            Some(lost) => seen.lost += lost,
            None => return None, // it died meanwhile
        }
    }
    let client = &client;
    let mut plays = Vec::new();
    for (slot, actor) in actors.iter_mut().enumerate() {
        let dice = dice.fork();
        plays.push(async move { actor.play(client, slot as u16, &dice).await });
    }
    let [one, two, three] = plays.try_into().ok().expect("three actors");
    let (one, two, three) = tokio::join!(one, two, three);
    let mut durable = Seq(0);
    for played in [one, two, three] {
        seen.unanswered += u64::from(played.unanswered);
        seen.objects += played.objects;
        durable = durable.max(played.durable);
        for ino in played.made {
            assert!(given.insert(ino), "{ino:?} was given twice");
        }
    }
    Some(durable)
}

async fn open(life: &Life) -> Result<Client, Refusal> {
    let op = Op::OpenSession {
        client: "actors".into(),
    };
    let reply = crate::client::ask(&life.mds, gupfs_proto::SessionId(0), None, op).await;
    match reply.result? {
        Answer::Session { session, .. } => Ok(Client::of(&life.mds, session)),
        other => panic!("{other:?}"),
    }
}

#[derive(Default)]
struct Played {
    durable: Seq,
    unanswered: bool,
    made: Vec<InodeId>,
    objects: u64,
}

impl Actor {
    /// After a power cut any state since what was durable may be found.
    fn forget_before(&mut self, durable: Seq) {
        let at = self
            .history
            .iter()
            .rposition(|(seq, _)| seq.is_some_and(|seq| seq <= durable));
        self.history.drain(..at.unwrap_or(0));
    }

    /// If nothing but kills happened since, what was answered must be there.
    fn forget_before_answered(&mut self) {
        let at = self.history.iter().rposition(|(seq, _)| seq.is_some());
        self.history.drain(..at.unwrap_or(0));
    }

    /// Looks which of the possible states was found; returns how many changes are lost. None if the server died.
    async fn find(&mut self, client: &Client) -> Option<u64> {
        let found = self.look(client).await.ok()?;
        let possible = (0..self.history.len())
            .rev()
            .find(|at| self.could_be(*at, &found));
        let Some(at) = possible else {
            panic!(
                "{:?} is no state that it could have:\n{}",
                self.dir,
                self.differences(&found)
            );
        };
        let lost = self.history.len() - 1 - at;
        self.history = vec![(Some(Seq(0)), found)];
        Some(lost as u64)
    }

    /// For who reads a failure: how what was found differs from each state that could be.
    fn differences(&self, found: &Files) -> String {
        let mut text = String::new();
        for (seq, files) in &self.history {
            let lacks: Vec<_> = files
                .iter()
                .filter(|file| found.get(file.0) != Some(file.1))
                .collect();
            let has: Vec<_> = found
                .iter()
                .filter(|file| files.get(file.0) != Some(file.1))
                .collect();
            text += &format!("{seq:?}: expected {lacks:?}, found {has:?}\n");
        }
        text
    }

    /// Whether a power cut may have left this instead of the state after that change. Bytes have no order with changes: a
    /// file may be as large as a later write made it.
    fn could_be(&self, at: usize, found: &Files) -> bool {
        let files = &self.history[at].1;
        let had_size = |name: &String, of: InodeId, size: u64| {
            let later = self.history[at..].iter().flat_map(|(_, files)| files);
            later
                .into_iter()
                .any(|(now, (ino, had))| (now == name || *ino == of) && *had == size)
        };
        files.len() == found.len()
            && files.iter().zip(found).all(
                |((name, (ino, _)), (found_name, (found_ino, found_size)))| {
                    name == found_name
                        && (*ino == UNTOLD || ino == found_ino)
                        && had_size(name, *ino, *found_size)
                },
            )
    }

    async fn look(&self, client: &Client) -> Result<Files, Refusal> {
        let op = Op::Readdir {
            dir: self.dir,
            after: 0,
            limit: 1_000,
            plus: true,
        };
        let Answer::Entries { entries, .. } = client.read(op).await? else {
            panic!("no entries");
        };
        Ok(entries
            .into_iter()
            .map(|entry| {
                (
                    entry.name.to_string(),
                    (entry.ino, entry.attr.unwrap().size),
                )
            })
            .collect())
    }

    /// Changes the directory until the server dies or it has had enough.
    async fn play(&mut self, client: &Client, slot: u16, dice: &FakeDice) -> Played {
        let mut played = Played::default();
        for number in 0..1 + dice.below(40) {
            if self
                .step(client, slot, dice, number, &mut played)
                .await
                .is_err()
            {
                return played;
            }
        }
        played
    }

    fn files(&self) -> &Files {
        &self.history.last().unwrap().1
    }

    /// One change, noted as unanswered before it is asked and with its number after.
    async fn change(
        &mut self,
        client: &Client,
        slot: u16,
        op: Op,
        after: Files,
        played: &mut Played,
    ) -> Result<Answer, Refusal> {
        self.history.push((None, after));
        let lane = client.next_lane(slot);
        let reply = client.ask(Some(lane), op).await;
        let answer = match reply.result {
            Ok(answer) => answer,
            Err(refusal) => {
                assert!(matches!(refusal, Refusal::StoreFailed(_)), "{refusal}");
                played.unanswered = true;
                return Err(refusal);
            }
        };
        played.durable = played.durable.max(reply.durable);
        self.history.last_mut().unwrap().0 = Some(reply.seq);
        Ok(answer)
    }

    async fn step(
        &mut self,
        client: &Client,
        slot: u16,
        dice: &FakeDice,
        number: u64,
        played: &mut Played,
    ) -> Result<(), Refusal> {
        let mut files = self.files().clone();
        let some = (!files.is_empty()).then(|| {
            let at = dice.below(files.len() as u64) as usize;
            let (name, (ino, size)) = files.iter().nth(at).unwrap();
            (name.clone(), *ino, *size)
        });
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        match (dice.below(8), some) {
            (0..3, _) | (_, None) => {
                let new = format!("f{number}-{}", dice.below(1 << 30));
                // Which number it gets is seen in the answer; unanswered, it is looked for below.
                let lane = client.next_lane(slot);
                let reply = client
                    .ask(Some(lane), Client::creation(self.dir, &new))
                    .await;
                let Ok(Answer::Opened(opened)) = reply.result else {
                    played.unanswered = true;
                    self.history.push((None, self.files().clone()));
                    self.unknown(new);
                    return Err(Refusal::Interrupted);
                };
                played.made.push(opened.attr.ino);
                played.durable = played.durable.max(reply.durable);
                files.insert(new, (opened.attr.ino, 0));
                self.history.push((Some(reply.seq), files));
            }
            (3, Some((old, ino, size))) => {
                let new = format!("r{number}-{}", dice.below(1 << 30));
                files.remove(&old);
                files.insert(new.clone(), (ino, size));
                let op = Op::Rename {
                    from: self.dir,
                    name: name(&old),
                    to: self.dir,
                    new_name: name(&new),
                    how: RenameHow::Replace,
                };
                self.change(client, slot, op, files, played).await?;
            }
            (4, Some((old, ino, _))) => {
                files.remove(&old);
                let op = Op::Unlink {
                    dir: self.dir,
                    name: name(&old),
                };
                self.change(client, slot, op, files, played).await?;
                if dice.one_in(2) {
                    let after = self.files().clone();
                    let op = Op::Forgotten { inodes: vec![ino] };
                    self.change(client, slot, op, after, played).await?;
                }
            }
            (5, Some((_, ino, size))) => {
                self.write(client, slot, dice, ino, size, played).await?;
            }
            (6, Some((old, ino, size))) if size > 0 => {
                let to = dice.below(size);
                files.insert(old, (ino, to));
                let op = Client::truncation(ino, to);
                self.change(client, slot, op, files, played).await?;
            }
            (7, Some(_)) => {
                let durable = client.sync().await?;
                played.durable = played.durable.max(durable);
            }
            (_, Some((old, ino, _))) => {
                files.insert(old, (ino, 0));
                let op = Op::Open {
                    ino,
                    open: OpenHow {
                        truncate: true,
                        ..crate::client::WRITE
                    },
                };
                self.change(client, slot, op, files, played).await?;
            }
        }
        Ok(())
    }

    /// A creation that was not answered: the file is there with a number that nobody was told, or it is not.
    fn unknown(&mut self, name: String) {
        let before = self.files().clone();
        self.history.push((None, before));
        self.history.last_mut().unwrap().1.insert(name, (UNTOLD, 0));
    }

    /// Writes a file's objects, and perhaps does not say the last word.
    async fn write(
        &mut self,
        client: &Client,
        slot: u16,
        dice: &FakeDice,
        ino: InodeId,
        size: u64,
        played: &mut Played,
    ) -> Result<(), Refusal> {
        let (name, mut files) = (self.name_of(ino), self.files().clone());
        let op = Op::BeginWrite {
            ino,
            kill_privileges: false,
        };
        let Answer::Opened(opened) = self.change(client, slot, op, files.clone(), played).await?
        else {
            panic!("no layout");
        };
        let end = size.max(1 + dice.below(8 * MIB));
        let mut present = Vec::new();
        files.insert(name, (ino, end));
        // From now on the objects say how large it is, if nobody else does.
        self.history.push((None, files.clone()));
        for (component, stripe, ost, object, _) in opened.layout.objects(ino) {
            let bytes = opened.layout.components[component].object_size(stripe, end);
            if bytes > 0 {
                self.osts[usize::from(ost.0)].put(object, bytes, Timestamp::new(1, 0));
                present.push((component as u32, stripe as u32));
                played.objects += 1;
            }
        }
        // Synced or not: a chore finds out.
        let (present, unsynced) = match dice.one_in(2) {
            true => (present, vec![]),
            false => (vec![], present),
        };
        let written = Written {
            size: end,
            present,
            unsynced,
            ..Written::default()
        };
        let op = Op::EndWrite {
            ino,
            written,
            keep: dice.one_in(3),
        };
        self.change(client, slot, op, files, played).await?;
        Ok(())
    }

    fn name_of(&self, ino: InodeId) -> String {
        let mut names = self.files().iter();
        names
            .find(|(_, (of, _))| *of == ino)
            .map(|(name, _)| name.clone())
            .unwrap()
    }
}

/// Lets everything come to its end, and looks whether it fits together.
async fn last_life(house: &Simulated, actors: &mut [Actor], seen: &mut Seen) {
    let life = house.start().await;
    let client = open(&life).await.unwrap();
    for actor in actors.iter_mut() {
        seen.lost += actor.find(&client).await.unwrap();
    }
    client.change(0, Op::CloseSession).await.unwrap();
    let is_over = async || {
        let status = life.mds.status().await;
        status.purging == Some(0) && status.sweep.left == 0
    };
    while !is_over().await {
        life.platform
            .platform()
            .clock
            .sleep(std::time::Duration::from_millis(100))
            .await;
    }
    life.mds.stop().await.unwrap();
    house.kill(&life.platform).await;

    let (mut known, mut certain) = (BTreeSet::new(), BTreeSet::new());
    for (key, value) in house.check().await {
        match key.parse() {
            Some(Parsed::Inode(ino)) => objects_of(&key, ino, &value, &mut known, &mut certain),
            Some(Parsed::Purge(_)) => panic!("left: {:?}", Purge::decode(&value)),
            _ => {}
        }
    }
    let there: BTreeSet<ObjectId> = house.osts.iter().flat_map(|ost| ost.list()).collect();
    assert_eq!(
        there.difference(&known).next(),
        None,
        "objects that no file has"
    );
    assert_eq!(
        certain.difference(&there).next(),
        None,
        "objects that are lost"
    );
}

fn objects_of(
    key: &Key,
    ino: InodeId,
    value: &bytes::Bytes,
    known: &mut BTreeSet<ObjectId>,
    certain: &mut BTreeSet<ObjectId>,
) {
    let inode = Inode::decode(value).unwrap();
    let Body::File(file) = inode.body else {
        return;
    };
    assert_eq!(file.cutting, None, "{key:?}");
    for (.., object, presence) in file.layout.objects(ino) {
        match presence {
            Presence::Never => continue,
            Presence::Maybe => {}
            Presence::Present => assert!(certain.insert(object)),
        }
        known.insert(object);
    }
}

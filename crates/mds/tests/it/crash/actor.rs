//! An actor: it changes a directory of its own, and knows in which states a crash may leave it.

use crate::client::Client;
use crate::ost::FakeOst;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{AttrReport, MetaOp, MetaReplyBody, OpenMode, RenameMode};
use gupfs_proto::{FsError, InodeId, Name, Seq, Timestamp};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Stands for the number of a file whose creation was not answered.
const UNTOLD: InodeId = InodeId(0);

/// What one actor knows of its directory.
pub struct Actor {
    dir: InodeId,
    osts: Vec<FakeOst>,
    /// The directory after each change, with the change's number; None for a change that was not answered.
    history: Vec<(Option<Seq>, Files)>,
}

/// Name → inode and size.
type Files = BTreeMap<String, (InodeId, u64)>;

/// What one actor did while one server served.
#[derive(Default)]
pub struct Played {
    pub durable: Seq,
    pub unanswered: bool,
    pub made: Vec<InodeId>,
    pub objects: u64,
}

impl Actor {
    pub fn new(dir: InodeId, osts: Vec<FakeOst>) -> Actor {
        Actor {
            dir,
            osts,
            history: vec![(Some(Seq(0)), Files::new())],
        }
    }

    /// After a power loss, any state since the durable change may be found.
    pub fn forget_before(&mut self, durable: Seq) {
        let at = self
            .history
            .iter()
            .rposition(|(seq, _)| seq.is_some_and(|seq| seq <= durable));
        self.history.drain(..at.unwrap_or(0));
    }

    /// If nothing but kills happened since, every answered change must be there.
    pub fn forget_before_answered(&mut self) {
        let at = self.history.iter().rposition(|(seq, _)| seq.is_some());
        self.history.drain(..at.unwrap_or(0));
    }

    /// Finds which of the possible states is there; returns how many changes are lost. None if the server died.
    pub async fn match_state(&mut self, client: &Client) -> Option<u64> {
        let found = self.list(client).await.ok()?;
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

    /// For the message of a failed test: how the state found differs from each possible state.
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

    /// Whether a power loss may have left the state `found` instead of the state after that change. Bytes have no order with
    /// changes: a file may be as large as a later write made it.
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

    async fn list(&self, client: &Client) -> Result<Files, FsError> {
        let op = MetaOp::Readdir {
            dir: self.dir,
            after: 0,
            limit: 1_000,
            plus: true,
        };
        let MetaReplyBody::Entries { entries, .. } = client.read(op).await? else {
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

    /// Changes the directory until the server dies or a random number of steps is done.
    pub async fn play(&mut self, client: &Client, slot: u16, random: &FakeRandom) -> Played {
        let mut played = Played::default();
        for number in 0..1 + random.below(40) {
            if self
                .step(client, slot, random, number, &mut played)
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

    /// One change, noted as unanswered before its request and with its number after the reply.
    async fn change(
        &mut self,
        client: &Client,
        slot: u16,
        op: MetaOp,
        after: Files,
        played: &mut Played,
    ) -> Result<MetaReplyBody, FsError> {
        self.history.push((None, after));
        let slot_seq = client.next_slot_seq(slot);
        let reply = client.send(Some(slot_seq), op).await;
        let answer = match reply.result {
            Ok(answer) => answer,
            Err(error) => {
                assert!(matches!(error, FsError::StoreFailed(_)), "{error}");
                played.unanswered = true;
                return Err(error);
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
        random: &FakeRandom,
        number: u64,
        played: &mut Played,
    ) -> Result<(), FsError> {
        let mut files = self.files().clone();
        let some = (!files.is_empty()).then(|| {
            let at = random.below(files.len() as u64) as usize;
            let (name, (ino, size)) = files.iter().nth(at).unwrap();
            (name.clone(), *ino, *size)
        });
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        match (random.below(8), some) {
            (0..3, _) | (_, None) => {
                let new = format!("f{number}-{}", random.below(1 << 30));
                self.create(client, slot, new, played).await?;
            }
            (3, Some((old, ino, size))) => {
                let new = format!("r{number}-{}", random.below(1 << 30));
                files.remove(&old);
                files.insert(new.clone(), (ino, size));
                let op = MetaOp::Rename {
                    from: self.dir,
                    name: name(&old),
                    to: self.dir,
                    new_name: name(&new),
                    mode: RenameMode::Replace,
                };
                self.change(client, slot, op, files, played).await?;
            }
            (4, Some((old, ino, _))) => {
                files.remove(&old);
                let op = MetaOp::Unlink {
                    dir: self.dir,
                    name: name(&old),
                };
                self.change(client, slot, op, files, played).await?;
                if random.one_in(2) {
                    let after = self.files().clone();
                    let op = MetaOp::Forget { inodes: vec![ino] };
                    self.change(client, slot, op, after, played).await?;
                }
            }
            (5, Some((_, ino, size))) => {
                self.write(client, slot, random, ino, size, played).await?;
            }
            (6, Some((old, ino, size))) if size > 0 => {
                let to = random.below(size);
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
                let op = MetaOp::Open {
                    ino,
                    open: OpenMode {
                        truncate: true,
                        ..crate::client::WRITE
                    },
                };
                self.change(client, slot, op, files, played).await?;
            }
        }
        Ok(())
    }

    async fn create(
        &mut self,
        client: &Client,
        slot: u16,
        new: String,
        played: &mut Played,
    ) -> Result<(), FsError> {
        // The reply has its inode number; without a reply, the test looks for the file below.
        let slot_seq = client.next_slot_seq(slot);
        let reply = client
            .send(Some(slot_seq), Client::creation(self.dir, &new))
            .await;
        let Ok(MetaReplyBody::Opened(opened)) = reply.result else {
            played.unanswered = true;
            self.history.push((None, self.files().clone()));
            self.note_unanswered_creation(new);
            return Err(FsError::Interrupted);
        };
        played.made.push(opened.attr.ino);
        played.durable = played.durable.max(reply.durable);
        let mut files = self.files().clone();
        files.insert(new, (opened.attr.ino, 0));
        self.history.push((Some(reply.seq), files));
        Ok(())
    }

    /// A creation that was not answered: the file exists with a number that no reply carried, or it does not exist.
    fn note_unanswered_creation(&mut self, name: String) {
        let before = self.files().clone();
        self.history.push((None, before));
        self.history.last_mut().unwrap().1.insert(name, (UNTOLD, 0));
    }

    /// Writes a file's objects, and perhaps does not release the write lease.
    async fn write(
        &mut self,
        client: &Client,
        slot: u16,
        random: &FakeRandom,
        ino: InodeId,
        size: u64,
        played: &mut Played,
    ) -> Result<(), FsError> {
        let (name, mut files) = (self.name_of(ino), self.files().clone());
        let op = MetaOp::BeginWrite {
            ino,
            kill_privileges: false,
        };
        let MetaReplyBody::Opened(opened) =
            self.change(client, slot, op, files.clone(), played).await?
        else {
            panic!("no layout");
        };
        let end = size.max(1 + random.below(8 * MIB));
        let mut present = Vec::new();
        files.insert(name, (ino, end));
        // From now on the objects determine the size, unless the client reports it.
        self.history.push((None, files.clone()));
        for (component, stripe, ost, object, _) in opened.layout.objects(ino) {
            let bytes = opened.layout.components[component].object_size(stripe, end);
            if bytes > 0 {
                self.osts[usize::from(ost.0)].put(object, bytes, Timestamp::new(1, 0));
                present.push((component as u32, stripe as u32));
                played.objects += 1;
            }
        }
        // Synced or not: a background task finds out.
        let (present, unsynced) = match random.one_in(2) {
            true => (present, vec![]),
            false => (vec![], present),
        };
        let written = AttrReport {
            size: end,
            present,
            unsynced,
            ..AttrReport::default()
        };
        let op = MetaOp::EndWrite {
            ino,
            report: written,
            keep_lease: random.one_in(3),
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

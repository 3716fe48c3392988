//! A seed's lives: each works until a fault or its end, then the next judges what it finds.

use super::action::Action;
use super::fault::{self, Fault, Marks};
use super::house::{House, Life};
use super::user::User;
use super::verdict;
use crate::events::Events;
use crate::rare::Rare;
use crate::seeds::Ran;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::FsError;

const LIVES: u64 = 6;
const ACTIONS: u64 = 40;

/// Everything of one seed.
pub struct Story {
    pub house: House,
    pub user: User,
    pub events: Events,
    pub rare: Rare,
    dice: FakeRandom,
    /// How the last life ended.
    power_cut: bool,
    /// Syncs that failed in earlier lives.
    failed_before: u64,
    /// As counted before the action that failed.
    before: Marks,
}

/// # Panics
/// When a promise is broken; the last events are printed.
pub fn run(seed: u64, aloud: bool) -> Ran {
    super::on_paused_time(async {
        let mut story = Story::begin(seed, aloud).await;
        for _ in 0..LIVES {
            story.life().await;
        }
        story.finish().await
    })
}

impl Story {
    pub async fn begin(seed: u64, aloud: bool) -> Story {
        let dice = FakeRandom::new(seed ^ 0x5eed);
        let mut story = Story {
            house: House::found(seed).await,
            user: User::new(dice.fork()),
            events: Events::new(aloud),
            rare: Rare::default(),
            dice,
            power_cut: false,
            failed_before: 0,
            before: Marks::default(),
        };
        let life = story.house.live(&mut story.rare).await;
        let life = life.expect("no fault is injected yet");
        life.lay_out_small().await;
        life.client
            .sync_all()
            .await
            .expect("no fault is injected yet");
        story.house.kill(Some(life)).await;
        story
    }

    /// One random life.
    async fn life(&mut self) {
        if self.dice.one_in(4) {
            self.die_at_birth().await;
        }
        let life = self.start().await;
        let (fault, dice) = (Fault::throw(&self.dice), self.dice.clone());
        let actions = |count| (0..count).map(|_| Action::throw(&dice));
        let unharmed = self.dice.below(ACTIONS);
        self.work(&life, Fault::Nothing, actions(unharmed)).await;
        fault.arm(&self.house).await;
        self.work(&life, fault, actions(ACTIONS)).await;
        self.count(&life).await;
        // After a failed sync the page cache is not what the disk has: only a power loss shows it.
        let power_cut = self.failed_syncs() > 0 || self.dice.one_in(2);
        self.end(Some(life), power_cut).await;
    }

    /// A start that dies, perhaps, in the midst of its recovery. Nobody looks, so what was possible stays possible.
    async fn die_at_birth(&mut self) {
        let fault = Fault::throw(&self.dice);
        fault.arm(&self.house).await;
        let life = self.house.live(&mut self.rare).await;
        self.rare.saw_if(life.is_err(), "crash in a recovery");
        let why = life.as_ref().err();
        self.events.say(format_args!("{fault:?} at birth: {why:?}"));
        let power_cut = self.power_cut || self.failed_syncs() > 0 || self.dice.one_in(2);
        self.end(life.ok(), power_cut).await;
    }

    /// Starts, and judges.
    pub async fn start(&mut self) -> Life {
        let life = match self.house.live(&mut self.rare).await {
            Ok(life) => life,
            Err(why) => panic!("does not start: {why}"),
        };
        self.before = Marks::of(&life).await;
        let recovery = life.mds.recovery();
        self.events.say(format_args!("{recovery:?}"));
        verdict::judge(&mut self.user, &life, self.power_cut, &mut self.rare).await;
        life
    }

    /// Acts until the fault strikes or the actions end.
    pub async fn work(&mut self, life: &Life, fault: Fault, actions: impl Iterator<Item = Action>) {
        self.events.say(format_args!("{fault:?}"));
        for action in actions {
            self.events.say(format_args!("{action:?}"));
            let done = self.user.act(life, action, &mut self.rare).await;
            let calls = self.house.calls();
            self.events.say(format_args!("  {done:?} {calls:?}"));
            match done {
                Ok(()) => self.before = Marks::of(life).await,
                Err(FsError::NoSpace) if matches!(fault, Fault::Full { .. }) => {
                    self.rare.saw("full disk");
                }
                Err(refusal) => {
                    let struck = self.house.is_dead() || self.failed_syncs() > 0;
                    assert!(struck, "refused, and nothing was faulty: {refusal}");
                    break;
                }
            }
        }
    }

    /// What is to be known of how a life ended, before its disks forget.
    pub async fn count(&mut self, life: &Life) {
        let (before, made) = (self.before, self.user.made);
        fault::count(&self.house, life, before, made, &mut self.rare).await;
    }

    pub async fn end(&mut self, life: Option<Life>, power_cut: bool) {
        let how = if power_cut { "power loss" } else { "kill" };
        self.events.say(how);
        self.rare.saw(how);
        self.rare.add("failing sync", self.failed_syncs());
        self.failed_before += self.failed_syncs();
        self.power_cut = power_cut;
        match power_cut {
            true => self.house.cut_power(life).await,
            false => self.house.kill(life).await,
        }
    }

    /// Syncs that failed in this life.
    fn failed_syncs(&self) -> u64 {
        let calls = self.house.calls();
        calls.iter().map(|calls| calls.failed_syncs).sum::<u64>() - self.failed_before
    }

    /// A last life in which everything comes to rest.
    pub async fn finish(mut self) -> Ran {
        let life = self.start().await;
        verdict::settle(&self.house, &mut self.user, life, &mut self.rare).await;
        self.events.say(format_args!("{:?}", self.house.calls()));
        Ran {
            events: self.events,
            rare: self.rare,
        }
    }
}

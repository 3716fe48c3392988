//! The simulation of one seed: instances of the process work until a fault or their end, and the next instance checks the state
//! that it finds.

use super::action::Action;
use super::check;
use super::fault::{self, DirtyRegions, Fault};
use super::host::{Host, ProcessInstance};
use super::program::Program;
use crate::event_log::EventLog;
use crate::rare_events::RareEvents;
use crate::seeds::SeedRun;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::FsError;

const INSTANCES_PER_SEED: u64 = 6;
const ACTIONS_PER_INSTANCE: u64 = 40;

/// The state of one seed.
pub struct ProcessSimulation {
    pub host: Host,
    pub program: Program,
    pub events: EventLog,
    pub rare_events: RareEvents,
    random: FakeRandom,
    /// Whether the last instance ended by a power loss.
    power_loss: bool,
    /// Syncs that failed in earlier instances.
    failed_syncs_before: u64,
    /// The dirty regions before the action that failed.
    regions_before: DirtyRegions,
}

/// # Panics
/// When a promise is broken; the last events are printed.
pub fn run(seed: u64, verbose: bool) -> SeedRun {
    super::on_paused_time(async {
        let mut simulation = ProcessSimulation::set_up(seed, verbose).await;
        for _ in 0..INSTANCES_PER_SEED {
            simulation.run_instance().await;
        }
        simulation.finish().await
    })
}

impl ProcessSimulation {
    pub async fn set_up(seed: u64, verbose: bool) -> ProcessSimulation {
        let random = FakeRandom::new(seed ^ 0x5eed);
        let mut simulation = ProcessSimulation {
            host: Host::new(seed).await,
            program: Program::new(random.fork()),
            events: EventLog::new(verbose),
            rare_events: RareEvents::default(),
            random,
            power_loss: false,
            failed_syncs_before: 0,
            regions_before: DirtyRegions::default(),
        };
        let instance = simulation.host.start(&mut simulation.rare_events).await;
        let instance = instance.expect("no fault is injected yet");
        instance.set_small_layout().await;
        instance
            .client
            .sync_all()
            .await
            .expect("no fault is injected yet");
        simulation.host.kill(Some(instance)).await;
        simulation
    }

    /// Runs one instance with random actions and a random fault.
    async fn run_instance(&mut self) {
        if self.random.one_in(4) {
            self.crash_during_start().await;
        }
        let instance = self.start().await;
        let (fault, random) = (Fault::random(&self.random), self.random.clone());
        let actions = |count| (0..count).map(|_| Action::random(&random));
        let actions_before_fault = self.random.below(ACTIONS_PER_INSTANCE);
        self.run_actions(&instance, Fault::None, actions(actions_before_fault))
            .await;
        fault.inject(&self.host).await;
        self.run_actions(&instance, fault, actions(ACTIONS_PER_INSTANCE))
            .await;
        self.count_ending(&instance).await;
        // After a failed sync the page cache differs from the disk, and only a power loss shows it.
        let power_loss = self.failed_syncs() > 0 || self.random.one_in(2);
        self.end(Some(instance), power_loss).await;
    }

    /// Injects a fault into a start, so that it may crash during recovery. Nothing is checked, so all states that were possible
    /// stay possible.
    async fn crash_during_start(&mut self) {
        let fault = Fault::random(&self.random);
        fault.inject(&self.host).await;
        let instance = self.host.start(&mut self.rare_events).await;
        self.rare_events
            .count_if(instance.is_err(), "crash during recovery");
        let error = instance.as_ref().err();
        self.events
            .record(format_args!("{fault:?} during the start: {error:?}"));
        let power_loss = self.power_loss || self.failed_syncs() > 0 || self.random.one_in(2);
        self.end(instance.ok(), power_loss).await;
    }

    /// Starts an instance and checks the state that it finds.
    pub async fn start(&mut self) -> ProcessInstance {
        let instance = match self.host.start(&mut self.rare_events).await {
            Ok(instance) => instance,
            Err(error) => panic!("the process does not start: {error}"),
        };
        self.regions_before = DirtyRegions::of(&instance).await;
        let recovery = instance.mds.recovery();
        self.events.record(format_args!("{recovery:?}"));
        check::check_promises(
            &mut self.program,
            &instance,
            self.power_loss,
            &mut self.rare_events,
        )
        .await;
        instance
    }

    /// Does actions until the fault strikes or the actions end.
    pub async fn run_actions(
        &mut self,
        instance: &ProcessInstance,
        fault: Fault,
        actions: impl Iterator<Item = Action>,
    ) {
        self.events.record(format_args!("{fault:?}"));
        for action in actions {
            self.events.record(format_args!("{action:?}"));
            let done = self
                .program
                .perform(instance, action, &mut self.rare_events)
                .await;
            let calls = self.host.calls();
            self.events.record(format_args!("  {done:?} {calls:?}"));
            match done {
                Ok(()) => self.regions_before = DirtyRegions::of(instance).await,
                Err(FsError::NoSpace) if matches!(fault, Fault::Full { .. }) => {
                    self.rare_events.count("full disk");
                }
                Err(refusal) => {
                    let has_struck = self.host.is_dead() || self.failed_syncs() > 0;
                    assert!(has_struck, "an action failed without a fault: {refusal}");
                    break;
                }
            }
        }
    }

    /// Counts the rare events of an instance's end, before a restart resets its disks.
    pub async fn count_ending(&mut self, instance: &ProcessInstance) {
        let (regions_before, files_created) = (self.regions_before, self.program.files_created);
        fault::count_ending(
            &self.host,
            instance,
            regions_before,
            files_created,
            &mut self.rare_events,
        )
        .await;
    }

    pub async fn end(&mut self, instance: Option<ProcessInstance>, power_loss: bool) {
        let ending = if power_loss { "power loss" } else { "kill" };
        self.events.record(ending);
        self.rare_events.count(ending);
        self.rare_events.add("failed sync", self.failed_syncs());
        self.failed_syncs_before += self.failed_syncs();
        self.power_loss = power_loss;
        match power_loss {
            true => self.host.lose_power(instance).await,
            false => self.host.kill(instance).await,
        }
    }

    /// Syncs that failed in this instance.
    fn failed_syncs(&self) -> u64 {
        let calls = self.host.calls();
        calls.iter().map(|calls| calls.failed_syncs).sum::<u64>() - self.failed_syncs_before
    }

    /// Runs a last instance until all background tasks are done.
    pub async fn finish(mut self) -> SeedRun {
        let instance = self.start().await;
        check::check_at_rest(
            &self.host,
            &mut self.program,
            instance,
            &mut self.rare_events,
        )
        .await;
        self.events.record(format_args!("{:?}", self.host.calls()));
        SeedRun {
            events: self.events,
            rare_events: self.rare_events,
        }
    }
}

//! A process that mpirun or srun started.

use std::path::Path;

use mpi::Tag;
use mpi::Threading;
use mpi::collective::CommunicatorCollectives;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Source, Status};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::Root;

use super::{Procs, Transport};
use crate::error::{SuiteError, SuiteResult};

/// The tag of the only messages that are not collective: a process has failed.
const ALARM: Tag = 1;

struct Mpi {
    world: SimpleCommunicator,
    /// Whether this process has told the others that it failed.
    told: bool,
    /// How many others it has heard of theirs.
    heard: usize,
    /// MPI ends when this is dropped.
    universe: Option<Universe>,
}

pub fn join() -> SuiteResult<Procs> {
    // Funneled: threads do the I/O, the first one alone talks.
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        return Err(SuiteError::failed("MPI was initialised already"));
    };
    let world = universe.world();
    let universe = Some(universe);
    Ok(Procs::new(Mpi {
        world,
        told: false,
        heard: 0,
        universe,
    }))
}

impl Mpi {
    fn hear(&mut self) {
        let anybody = self.world.any_process();
        let (_, _): (u8, Status) = anybody.receive_with_tag(ALARM);
        self.heard += 1;
    }
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn barrier(&mut self) -> SuiteResult<()> {
        self.world.barrier();
        Ok(())
    }

    fn broadcast(&mut self, bytes: Vec<u8>) -> SuiteResult<Vec<u8>> {
        let root = self.world.process_at_rank(0);
        let mut length = bytes.len() as u64;
        root.broadcast_into(&mut length);
        let mut bytes = bytes;
        bytes.resize(length as usize, 0);
        root.broadcast_into(&mut bytes[..]);
        Ok(bytes)
    }

    fn gather(&mut self, bytes: Vec<u8>) -> SuiteResult<Option<Vec<Vec<u8>>>> {
        let root = self.world.process_at_rank(0);
        let length = bytes.len() as i32;
        if self.rank() > 0 {
            root.gather_into(&length);
            root.gather_varcount_into(&bytes[..]);
            return Ok(None);
        }
        let mut lengths = vec![0i32; self.size()];
        root.gather_into_root(&length, &mut lengths[..]);
        let starts: Vec<i32> = lengths
            .iter()
            .scan(0, |end, length| {
                let start = *end;
                *end += length;
                Some(start)
            })
            .collect();
        let mut all = vec![0u8; lengths.iter().map(|length| *length as usize).sum()];
        let mut places = PartitionMut::new(&mut all[..], &lengths[..], &starts[..]);
        root.gather_varcount_into_root(&bytes[..], &mut places);
        let pieces = starts.iter().zip(&lengths);
        Ok(Some(
            pieces
                .map(|(start, length)| all[*start as usize..][..*length as usize].to_vec())
                .collect(),
        ))
    }

    // A byte is sent without waiting for its receiver, so that two processes that tell each other do not wait for ever.
    fn alarm(&mut self) -> SuiteResult<()> {
        self.told = true;
        for rank in (0..self.size()).filter(|rank| *rank != self.rank()) {
            let process = self.world.process_at_rank(rank as i32);
            process.send_with_tag(&1u8, ALARM);
        }
        Ok(())
    }

    fn alarmed(&mut self) -> SuiteResult<bool> {
        let anybody = self.world.any_process();
        if anybody.immediate_probe_with_tag(ALARM).is_some() {
            self.hear();
        }
        Ok(self.heard > 0)
    }

    // mpirun ends the others with a signal, and each of them knows the paths itself.
    fn remember(&mut self, _path: &Path) -> SuiteResult<()> {
        Ok(())
    }

    fn forget(&mut self) -> SuiteResult<()> {
        Ok(())
    }

    fn finish(&mut self, _code: u8) -> SuiteResult<()> {
        // MPI may not end before every message is received.
        let mut all = vec![0u8; self.size()];
        self.world
            .all_gather_into(&u8::from(self.told), &mut all[..]);
        let told = all.iter().filter(|told| **told > 0).count();
        for _ in self.heard..told - usize::from(self.told) {
            self.hear();
        }
        self.universe = None;
        Ok(())
    }
}

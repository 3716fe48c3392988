//! A process that mpirun or srun started.

use std::path::Path;

use mpi::Threading;
use mpi::collective::CommunicatorCollectives;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::Root;

use super::{Procs, Seam};
use crate::trouble::{Outcome, Trouble};

struct Mpi {
    world: SimpleCommunicator,
    /// MPI ends when this is dropped.
    universe: Option<Universe>,
}

pub fn join() -> Outcome<Procs> {
    // Funneled: threads do the I/O, the first one alone talks.
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        return Err(Trouble::met("MPI was initialised already"));
    };
    let world = universe.world();
    let universe = Some(universe);
    Ok(Procs::new(Mpi { world, universe }))
}

impl Seam for Mpi {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn barrier(&mut self) -> Outcome<()> {
        self.world.barrier();
        Ok(())
    }

    fn broadcast(&mut self, bytes: Vec<u8>) -> Outcome<Vec<u8>> {
        let root = self.world.process_at_rank(0);
        let mut length = bytes.len() as u64;
        root.broadcast_into(&mut length);
        let mut bytes = bytes;
        bytes.resize(length as usize, 0);
        root.broadcast_into(&mut bytes[..]);
        Ok(bytes)
    }

    fn gather(&mut self, bytes: Vec<u8>) -> Outcome<Option<Vec<Vec<u8>>>> {
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

    // mpirun ends the others with a signal, and each of them knows the paths itself.
    fn remember(&mut self, _path: &Path) -> Outcome<()> {
        Ok(())
    }

    fn forget(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn finish(&mut self, _code: u8) -> Outcome<()> {
        self.world.barrier();
        self.universe = None;
        Ok(())
    }
}

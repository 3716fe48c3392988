//! Files of the store are read over the ring of the thread that wants them, if it has one.

use bytes::BytesMut;
use gupfs_door::read_here;
use gupfs_world::{OpenFile, ReadAside, ReadingAside};

pub struct OverRing;

impl ReadAside for OverRing {
    fn read(
        &self,
        file: &OpenFile,
        into: BytesMut,
        len: usize,
        offset: u64,
    ) -> Result<ReadingAside, BytesMut> {
        let Ok(len) = u32::try_from(len) else {
            return Err(into);
        };
        let reading = read_here(file, into, len, offset)?;
        Ok(Box::pin(reading))
    }
}

//! A place in the log.

use super::format::RecordHeader;
use gupfs_proto::Seq;

/// The end of a part of the log: the last batch there, and the checksum of the last record, which may be a watermark. Two logs of one
/// store that have the same position have the same records up to it, because each record names its predecessor's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPosition {
    pub last: Seq,
    pub crc: u32,
}

/// The position after a record.
pub fn position_after(header: &RecordHeader) -> LogPosition {
    LogPosition {
        last: header.seq,
        crc: header.crc,
    }
}

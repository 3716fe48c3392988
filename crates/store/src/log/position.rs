//! A place in the log.

use super::format::RecordHeader;
pub use gupfs_proto::copy::LogPosition;

/// The position after a record.
pub fn position_after(header: &RecordHeader) -> LogPosition {
    LogPosition {
        last: header.seq,
        crc: header.crc,
    }
}

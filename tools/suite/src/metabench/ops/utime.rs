//! Setting both times of a file, to a moment that a check can recognise.

use std::ffi::CStr;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

/// 2002-10-01: neither now nor the beginning of time.
pub const MOMENT: i64 = 1_033_430_400;

pub fn utime(name: &CStr) -> rustix::io::Result<()> {
    let moment = Timespec {
        tv_sec: MOMENT,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: moment,
        last_modification: moment,
    };
    utimensat(CWD, name, &times, AtFlags::empty())
}

//! The transports of requests from the kernel.

use clap::ValueEnum;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Transport {
    Device,
    IoUring,
}

/// Whether the kernel hands requests out over io_uring.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

impl Transport {
    /// Both, if this machine has io_uring switched on for FUSE.
    pub fn permitted() -> Vec<Transport> {
        match std::fs::read_to_string(SWITCH) {
            Ok(value) if value.trim() == "Y" => vec![Transport::Device, Transport::IoUring],
            _ => {
                eprintln!("{SWITCH} does not say Y: measured over /dev/fuse only");
                vec![Transport::Device]
            }
        }
    }

    /// As `gupfs up --transport` takes it.
    pub fn flag(self) -> &'static str {
        match self {
            Transport::Device => "device",
            Transport::IoUring => "io-uring",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Device => "over /dev/fuse",
            Transport::IoUring => "over io_uring",
        })
    }
}

//! The machine that the figures were taken on.

use gupfs_kit::{date, machine};
use serde::Serialize;

#[derive(Serialize)]
pub struct Machine {
    pub cpus: usize,
    pub cpu: String,
    pub memory_kib: u64,
    pub kernel: String,
    pub date: String,
    pub command: Vec<String>,
}

pub fn describe() -> Machine {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        cpus: machine::cpus(),
        cpu: machine::processor().unwrap_or_default(),
        memory_kib: machine::memory("MemTotal").unwrap_or(0) >> 10,
        kernel: kernel.trim().to_owned(),
        date: date::day(),
        command: std::env::args()
            .map(|arg| arg.rsplit('/').next().unwrap_or_default().to_owned())
            .collect(),
    }
}

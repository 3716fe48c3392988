//! # contract: tests of the kernel behaviour that coherent caching over FUSE depends on
//!
//! Owns   the facts, each with its test; the FUSE server that tests them (the probe); the running kernel as one kernel under
//!        test.
//! Never  knows the file systems that gupfs mounts, or which kernel version has which fact: it tests.
//! Enter  at `ALL` for the facts, `try_all` to test them.
//!
//! A fact is tested on any [`KernelUnderTest`]: the running kernel ([`RunningKernel`]), or a model of it. Some facts are
//! *required*: a kernel without them would return stale data, and gupfs refuses to mount. Some decide whether the kernel's page
//! cache is used. Others are *tolerated*: they describe behaviour that gupfs handles, and a kernel without it needs no such
//! handling.

// The kernel is not behind the platform seams: its tests run on the real clock.
#![allow(clippy::disallowed_methods)]

mod fact;
mod facts;
mod kernel_under_test;
mod probe;
mod running_kernel;
mod shared_mapping;

pub use fact::{
    CoherenceRule, FactFinding, FactVerdict, FactWeight, KernelFact, ProbeFailure, ProbeResult,
};
pub use facts::{ALL, try_all};
pub use kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
pub use probe::{LONG_TTL, Probe, RequestGate};
pub use running_kernel::RunningKernel;

//! # contract: the kernel behaviour that coherent caching over FUSE depends on, with a probe of each
//!
//! Owns   the behaviours, each with its probe; the FUSE server that the probes use; the running kernel as one kernel under test.
//! Never  knows the file systems that gupfs mounts, or which kernel version behaves how: it tests.
//! Enter  at `ALL` for the behaviours, `probe_all` to probe them, `cache_support` for the caches that they permit.
//!
//! A behaviour is probed on any [`KernelUnderTest`]: the running kernel ([`RunningKernel`]), or a model of it. Some behaviours are
//! *required*: a kernel without them would return stale data, and gupfs refuses to mount. Some decide which of the kernel's caches
//! are used. Others are *tolerated*: gupfs handles them, and a kernel without them needs no such handling.

// The kernel is not behind the platform seams: its tests run on the real clock.
#![allow(clippy::disallowed_methods)]

mod behaviour;
mod cache_support;
mod kernel_under_test;
mod probe_server;
mod probes;
mod request_gate;
mod running_file;
mod running_kernel;
mod shared_mapping;
mod working_directory;

pub use behaviour::{
    CoherenceRule, KernelBehaviour, KernelCache, ProbeFailure, ProbeOutcome, ProbeReport,
    ProbeResult, RequirementLevel,
};
pub use cache_support::{CacheSupport, cache_support};
pub use kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeDirectory, ProbeFile, ProbeMount,
    ProbeOpenMode, ProbePipe,
};
pub use probe_server::{LONG_TTL, ProbeServer, acl_user};
pub use probes::{ALL, probe_all};
pub use request_gate::RequestGate;
pub use running_kernel::RunningKernel;

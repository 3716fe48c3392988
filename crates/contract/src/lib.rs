//! # contract: what Linux does with the answers of a FUSE server
//!
//! Owns   the facts on which coherent caching rests, each as something to try; the server that tries them; the running
//!        kernel as one that is tried.
//! Never  knows what is mounted in the end, or which kernel has which fact: it tries.
//! Enter  at `ALL` for the facts, `try_all` to try them.
//!
//! A fact is tried on whatever is a [`Linux`]: the running kernel ([`Running`]), or a model of it. Some facts are *counted
//! on*: a kernel without them would make us serve what is not so, and a mount is refused. Some decide whether its page cache
//! is used. Others are *guarded against*: if
//! a kernel does otherwise our care is in vain, and that is all.

// The kernel stands outside the simulated world: it is tried by its own clock.
#![allow(clippy::disallowed_methods)]

mod fact;
mod facts;
mod linux;
mod map;
mod probe;
mod running;

pub use fact::{Fact, Finding, Otherwise, Rule, Tried, Verdict, Weight};
pub use facts::{ALL, try_all};
pub use linux::{Flags, How, Linux, OpenFile, Tree, Word};
pub use probe::{Gate, LONG, Probe};
pub use running::Running;

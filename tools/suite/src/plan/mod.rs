//! # plan: workloads on targets side by side, as data
//!
//! Owns   what a plan says and its check; values that depend on the machine; which run follows which; the plans that ship.
//! Never  starts a program; knows what a program measures.
//! Enter  at [`Plan::parse`], [`jobs`] for the order of runs, [`ListPlans`] for the command that lists plans.

mod arguments;
mod file;
mod order;
pub mod shipped;
mod value;

pub use arguments::{NAME_OF_DIR, fill};
pub use file::{Args, Plan, PlannedWorkload, Target};
pub use order::{Job, SweepValues, jobs};
pub use shipped::ListPlans;
pub use value::{MachineNumbers, Value};

//! # results: figures of many runs, and their comparison
//!
//! Owns   the lines of a result file; medians, spread and intervals; when a difference is more than noise; the milestone's lines.
//! Never  starts anything; leaves out a run that failed without saying so.
//! Enter  at [`Results::read`] for a file, [`Series`] for what was measured.

pub mod compare;
mod lines;
pub mod milestone;
pub mod series;
pub mod spread;

pub use lines::{
    Cache, Ceiling, Direction, Failed, FinishedRun, Header, Layer, Line, Machine, Results,
    TargetMount, write,
};
pub use series::Series;

//! The client against small honest servers (`fake`), which check what they are asked; and against the real ones over
//! faked disks (`town`), through kills and power cuts.

mod allocations;
mod away;
mod concurrency;
mod fake;
mod faults;
mod locks;
mod locks_random;
mod model;
mod names;
mod orphans;
mod sessions;
mod sharing;
mod sharing_model;
mod times;
mod town;
mod user;
mod words;

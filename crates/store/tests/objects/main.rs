//! Tests of one target on a real directory and on a simulated disk that crashes: reads return what was written.

mod basics;
mod concurrent;
mod crashes;
mod failing;
mod fixture;
mod identity;
mod model;
mod numbered;
mod regions;
mod repairs;
mod reserved;

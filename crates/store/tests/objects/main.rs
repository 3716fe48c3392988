//! One target on a real directory and on a disk that crashes: what it is told is what it gives back.

mod basics;
mod crashes;
mod failing;
mod model;
mod place;
mod regions;
mod scene;
mod together;

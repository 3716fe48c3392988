//! A cluster of real daemons on this host: one metadata server, two object servers, several mounts.

#![allow(clippy::disallowed_methods)] // real processes are waited for, in real time

#[path = "../running/mod.rs"]
mod running;

mod agree;
mod checked;
mod clocks;
mod crowd;
mod cut_off;
mod encrypted;
mod ends;
mod failing;
mod fragile;
#[path = "../power_cut/images.rs"]
mod images;
mod in_time;
mod joined;
mod keys;
mod load;
mod locks;
mod networks;
mod panics;
mod planted;
mod posix;
mod power;
mod refused;
mod restored;
mod rights;
mod squashed;
mod survive;
mod test_cluster;
mod verified;

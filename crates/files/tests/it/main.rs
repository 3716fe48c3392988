//! Tests of `files` above a client of real servers on fake disks.

mod directories;
mod fixture;
mod links;
mod lookups;
mod open_files;
mod permissions;

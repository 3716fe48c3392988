//! One file an operation, named as its system call.

mod access;
mod chmod;
mod copy;
mod link;
mod list;
mod mkdir;
mod open;
mod read_ranges;
mod readlink;
mod remove;
mod rename;
mod stat;
mod statfs;
mod symlink;
mod sync;
mod truncate;
mod xattrs;

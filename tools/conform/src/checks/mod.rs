//! # checks: the promises, one family of system calls a file
//!
//! Owns   what the standard says, and the shortest program that tells whether it holds.
//! Never  depends on another check, on the order of running, or on a file system's name (a limit that only its type
//!        can tell is asked of the test directory).
//! Enter  at [`all`].

mod access;
mod acl;
mod acl_access;
mod allocate;
mod chmod;
mod copy;
mod flags;
mod flock;
mod link;
mod lock;
mod lock_owner;
mod map;
mod map_edge;
mod mkdir;
mod model_data;
mod model_names;
mod mount;
mod name;
mod node;
mod open;
mod open_access;
mod open_flags;
mod open_special;
mod openat2;
mod path;
mod privilege;
mod race;
mod race_mixture;
mod readdir;
mod readdir_change;
mod rename;
mod rename_directories;
mod rename_flags;
mod rmdir;
mod seek;
mod stat;
mod sticky;
mod symlink;
mod sync;
mod times;
mod times_agree;
mod truncate;
mod unlink;
mod utimens;
mod vector;
mod write;
mod xattr;
mod xattr_rules;

use crate::check::Check;

/// Every check, by family.
pub fn all() -> Vec<Check> {
    let families: &[fn() -> Vec<Check>] = &[
        access::checks,
        acl::checks,
        acl_access::checks,
        allocate::checks,
        chmod::checks,
        copy::checks,
        flags::checks,
        flock::checks,
        link::checks,
        lock::checks,
        lock_owner::checks,
        map::checks,
        map_edge::checks,
        mkdir::checks,
        rmdir::checks,
        model_data::checks,
        model_names::checks,
        mount::checks,
        name::checks,
        node::checks,
        open::checks,
        open_access::checks,
        open_flags::checks,
        open_special::checks,
        openat2::checks,
        path::checks,
        privilege::checks,
        race::checks,
        race_mixture::checks,
        readdir::checks,
        readdir_change::checks,
        rename::checks,
        rename_directories::checks,
        rename_flags::checks,
        seek::checks,
        stat::checks,
        sticky::checks,
        symlink::checks,
        sync::checks,
        times::checks,
        times_agree::checks,
        truncate::checks,
        unlink::checks,
        utimens::checks,
        vector::checks,
        write::checks,
        xattr::checks,
        xattr_rules::checks,
    ];
    families.iter().flat_map(|family| family()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_check_has_a_name_of_its_own_and_a_promise() {
        let mut seen = BTreeSet::new();
        for check in all() {
            assert!(check.name.contains('/'), "{} has no group", check.name);
            assert!(!check.name.contains(' '), "{} has a blank", check.name);
            assert!(check.promise.len() >= 10, "{} promises nothing", check.name);
            assert!(
                seen.insert(check.name.clone()),
                "{} appears twice",
                check.name
            );
        }
    }
}

//! Steps that several operations share, one file a noun: names, orphans, write leases, attribute reports, truncates.
//!
//! A step reads and changes records through the view, like the operation that calls it. It never calls an operation.

pub(crate) mod attr_report;
pub(crate) mod confirmation;
pub(crate) mod default_layout;
pub(crate) mod dentry;
pub(crate) mod feature;
pub(crate) mod new_inode;
pub(crate) mod orphan;
pub(crate) mod privileges;
pub(crate) mod purge;
pub(crate) mod stale_members;
pub(crate) mod truncation;
pub(crate) mod write_lease;
pub(crate) mod write_lease_grant;

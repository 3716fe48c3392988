//! # mdmark: metadata operations on a tree that resembles a real one (Appendix A.3.5)
//!
//! Owns   densities taken from a real tree; a tree grown from them by chance; walks over it; mixed operations.
//! Never  grows another tree from the same densities, limits and seed; changes anything of the tree that it scans.
//! Enter  at [`Mdmark`].

mod args;
mod density;
mod mix;
mod profile;
mod report;
mod run;
mod tree;
mod walk;

pub use args::Mdmark;

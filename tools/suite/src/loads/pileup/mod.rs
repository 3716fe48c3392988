//! # pileup: a ramp of readers at random places of large files (HEPiX, after R. Többicke)
//!
//! Owns   preparing the files; which bytes of which file are read next; the curve of rates over readers.
//! Never  lets two readers make the same choices, or one reader other choices for the same seed.
//! Enter  at [`Pileup`].

mod args;
mod report;
mod run;

pub use args::Pileup;

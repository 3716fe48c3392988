//! # streams: sequential streams side by side, as with many lmdd (001 B, 000, 002, 003)
//!
//! Owns   which stream works on which record of which file; writing, reading; first and second run; the tables.
//! Never  mixes two numbers of streams or two record sizes in one figure.
//! Enter  at [`Streams`]; the arithmetic alone is `layout`.

mod args;
mod layout;
mod report;
mod run;

pub use args::{Streams, Sweep};
pub use layout::Shape;
pub use report::{Report, Row};
pub use run::work;

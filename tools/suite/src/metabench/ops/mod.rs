//! The operations of one process in one test, in its working directory: one operation a file.

mod append;
mod create;
mod stat;
mod untar;
mod utime;

pub use append::append;
pub use create::create;
pub use stat::stat;
pub use untar::{Unpacked, untar};
pub use utime::{MOMENT, utime};

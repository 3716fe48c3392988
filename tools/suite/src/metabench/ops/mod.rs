//! What one process does in one test, in the directory that it has entered: one operation a file.

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

//! # metrics: what Prometheus may fetch
//!
//! Owns   the page `/metrics`, its text format, timings of calls between client and servers.
//! Never  counts what a room counts itself, or asks a room for anything that waits.
//! Enter  at `start`.

mod calls;
mod page;
mod text;

pub use calls::Calls;
pub use page::{CONNECTIONS, MetricsSource, start};
pub use text::MetricsText;

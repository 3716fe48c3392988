//! # metrics: the metrics page for Prometheus
//!
//! Owns   the page `/metrics`, its text format, the durations of calls between client and servers.
//! Never  counts what another crate counts, or waits for a server.
//! Enter  at `start`.

mod calls;
mod page;
mod text;

pub use calls::Calls;
pub use page::{CONNECTIONS, MetricsSource, start};
pub use text::MetricsText;

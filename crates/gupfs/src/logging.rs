//! Logs to standard error: for people or for machines.

use crate::config::{Log, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// What is logged when nobody says.
const LEVEL: &str = "info";

/// Libraries that tell more than anybody wants to know, unless they are asked for by name. A block that does not match its checksum is
/// an error to whoever reads it, too: a line for each try, and the salvage of an index tries thousands of times.
const QUIET: &str = "fjall=warn,lsm_tree=warn,lsm_tree::table::block=off";

/// Wins over the configuration.
const VARIABLE: &str = "GUPFS_LOG";

/// Once a process, before anything is logged.
pub fn start(log: &Log) {
    let configured = log.level.as_deref().unwrap_or(LEVEL);
    let wished = std::env::var(VARIABLE).ok();
    let level = wished.as_deref().unwrap_or(configured);
    let filter = format!("{QUIET},{level}").parse().unwrap_or_else(|error| {
        eprintln!("gupfs: {VARIABLE}='{level}' is no filter ({error}); logging at '{configured}'.");
        EnvFilter::new(format!("{QUIET},{configured}"))
    });
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match log.format.unwrap_or_default() {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

/// For commands whose output is their result: only what went wrong is logged.
pub fn start_quiet() {
    start(&Log {
        level: Some("warn".into()),
        ..Log::default()
    });
}

//! Logs to standard error: for people or for machines.

use crate::config::{Log, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The level if neither the configuration nor GUPFS_LOG sets one.
const LEVEL: &str = "info";

/// Libraries whose logs are too verbose unless a filter names them. lsm_tree logs a line for each block that does not match its
/// checksum; the reader gets the same error, and the salvage of an index reads thousands of such blocks.
const QUIET: &str = "fjall=warn,lsm_tree=warn,lsm_tree::table::block=off";

/// Takes precedence over the configuration.
const VARIABLE: &str = "GUPFS_LOG";

/// Once a process, before anything is logged.
pub fn start(log: &Log) {
    let configured = log.level.as_deref().unwrap_or(LEVEL);
    let wished = std::env::var(VARIABLE).ok();
    let level = wished.as_deref().unwrap_or(configured);
    let filter = format!("{QUIET},{level}").parse().unwrap_or_else(|error| {
        eprintln!("gupfs: {VARIABLE}='{level}' is not a log filter ({error}); logging with '{configured}'.");
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

/// For commands whose output is their result: only warnings and errors are logged.
pub fn start_quiet() {
    start(&Log {
        level: Some("warn".into()),
        ..Log::default()
    });
}

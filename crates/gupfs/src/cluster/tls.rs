//! The flags of TLS certificates.

use crate::config;
use crate::exit::CliResult;
use clap::Args;
use gupfs_files::TlsOptions;
use gupfs_rpc::TlsConfig;
use std::path::PathBuf;

/// Whether connections use TLS, and with which certificates.
#[derive(Args)]
pub struct TlsFlags {
    /// Speak TLS alone: a directory with ca.pem, and cert.pem and key.pem, which servers need [default: no TLS]
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// The name that certificates of servers carry [default: that in DIR/name, or of the host that is asked]
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
}

impl TlsFlags {
    /// Sets in the configuration what the flags give.
    pub fn apply_to(&self, config: &mut config::Cluster) {
        config.tls = self.tls.clone().or(config.tls.take());
        config.tls_name = self.tls_name.clone().or(config.tls_name.take());
    }

    /// For commands without a configuration.
    pub fn read(&self) -> CliResult<Option<TlsConfig>> {
        let mut config = config::Cluster::default();
        self.apply_to(&mut config);
        read_tls(&config)
    }
}

/// The TLS configuration; None if no directory is named.
///
/// # Errors
/// If a file is missing or cannot be used, with its name.
pub fn read_tls(config: &config::Cluster) -> CliResult<Option<TlsConfig>> {
    let Some(dir) = &config.tls else {
        return Ok(None);
    };
    let options = TlsOptions {
        dir: dir.clone(),
        name: config.tls_name.clone(),
        require_client_certificates: config.tls_clients.unwrap_or(false),
    };
    Ok(Some(gupfs_files::read_tls(&options)?))
}

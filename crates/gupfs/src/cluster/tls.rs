//! The files of TLS certificates.

use crate::config;
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_rpc::{TlsConfig, TlsMaterial};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Advice for missing or wrong files.
const ADVICE: &str = "docs/operate.md, \"TLS\", describes how to make them";

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
    let ca = read(&dir.join("ca.pem"))?;
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let own = match (cert.exists(), key.exists()) {
        (false, false) => None,
        _ => {
            check_mode(&key)?;
            Some((read(&cert)?, read(&key)?))
        }
    };
    // `gupfs tls init` writes this file.
    let name_file = std::fs::read_to_string(dir.join("name")).ok();
    let name = config
        .tls_name
        .as_deref()
        .or(name_file.as_deref().map(str::trim));
    let parts = TlsMaterial {
        ca: &ca,
        own: own.as_ref().map(|(cert, key)| (&cert[..], &key[..])),
        name,
        require_client_certificates: config.tls_clients.unwrap_or(false),
    };
    let tls = TlsConfig::new(parts).map_err(|error| {
        CliError::new(format!(
            "the files in '{}' cannot be used for TLS",
            dir.display()
        ))
        .because(&error)
        .todo(ADVICE)
        .exit(Exit::Unusable)
    })?;
    Ok(Some(tls))
}

fn read(path: &Path) -> CliResult<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        CliError::new(format!("cannot read '{}' for TLS", path.display()))
            .because(&error)
            .todo(ADVICE)
            .exit(Exit::Unusable)
    })
}

/// Refuses a private key that other users can read.
pub(super) fn check_mode(key: &Path) -> CliResult<()> {
    match std::fs::metadata(key) {
        Ok(found) if found.mode() & 0o077 != 0 => Err(CliError::new(format!(
            "other users than its owner can read the private key '{}'",
            key.display()
        ))
        .todo(format!("chmod 600 '{}'", key.display()))
        .exit(Exit::Unusable)),
        // `read` reports a file that cannot be read.
        _ => Ok(()),
    }
}

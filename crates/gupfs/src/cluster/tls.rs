//! The site's certificates, as files.

use crate::config;
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_rpc::{TlsConfig, TlsMaterial};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where what is to be done is written down.
const HOW: &str = "docs/operate.md, \"TLS\", says how to make them";

/// Whether connections are encrypted, and by what certificates the other side is believed.
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
    /// Lays the flags over the configuration.
    pub fn over(&self, config: &mut config::Cluster) {
        config.tls = self.tls.clone().or(config.tls.take());
        config.tls_name = self.tls_name.clone().or(config.tls_name.take());
    }

    /// For commands without a configuration.
    pub fn read(&self) -> CliResult<Option<TlsConfig>> {
        let mut config = config::Cluster::default();
        self.over(&mut config);
        read_tls(&config)
    }
}

/// None if no directory is named.
///
/// # Errors
/// When a file is missing or cannot be used, with its name.
pub fn read_tls(config: &config::Cluster) -> CliResult<Option<TlsConfig>> {
    let Some(dir) = &config.tls else {
        return Ok(None);
    };
    let ca = read(&dir.join("ca.pem"))?;
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let own = match (cert.exists(), key.exists()) {
        (false, false) => None,
        _ => {
            must_be_secret(&key)?;
            Some((read(&cert)?, read(&key)?))
        }
    };
    // As `gupfs tls init` leaves it beside the certificates.
    let beside = std::fs::read_to_string(dir.join("name")).ok();
    let name = config
        .tls_name
        .as_deref()
        .or(beside.as_deref().map(str::trim));
    let parts = TlsMaterial {
        ca: &ca,
        own: own.as_ref().map(|(cert, key)| (&cert[..], &key[..])),
        name,
        require_client_certificates: config.tls_clients.unwrap_or(false),
    };
    let tls = TlsConfig::new(parts).map_err(|error| {
        CliError::new(format!("no TLS with the files in '{}'", dir.display()))
            .because(&error)
            .todo(HOW)
            .exit(Exit::Unusable)
    })?;
    Ok(Some(tls))
}

fn read(path: &Path) -> CliResult<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        CliError::new(format!("cannot read '{}' for TLS", path.display()))
            .because(&error)
            .todo(HOW)
            .exit(Exit::Unusable)
    })
}

fn must_be_secret(key: &Path) -> CliResult<()> {
    match std::fs::metadata(key) {
        Ok(found) if found.mode() & 0o077 != 0 => Err(CliError::new(format!(
            "others than its owner may read the private key '{}'",
            key.display()
        ))
        .todo(format!("chmod 600 '{}'", key.display()))
        .exit(Exit::Unusable)),
        // That it cannot be read is told when it is.
        _ => Ok(()),
    }
}

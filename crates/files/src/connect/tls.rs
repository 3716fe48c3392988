//! The files of TLS certificates.

use super::{SetupError, SetupErrorKind};
use gupfs_rpc::{TlsConfig, TlsMaterial};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Advice for missing or wrong files.
const ADVICE: &str = "docs/operate.md, \"TLS\", describes how to make them";

/// Where the certificates are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsOptions {
    /// Has ca.pem, and cert.pem and key.pem, which servers need.
    pub dir: PathBuf,
    /// The name that certificates of servers carry; None: that in the file `name` of the directory, or of the host that is asked.
    pub name: Option<String>,
    pub require_client_certificates: bool,
}

/// The TLS configuration.
///
/// # Errors
/// If a file is missing or cannot be used, with its name.
pub fn read_tls(options: &TlsOptions) -> Result<TlsConfig, SetupError> {
    let dir = &options.dir;
    let ca = read(&dir.join("ca.pem"))?;
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let own = match (cert.exists(), key.exists()) {
        (false, false) => None,
        _ => {
            check_private_key(&key)?;
            Some((read(&cert)?, read(&key)?))
        }
    };
    // `gupfs tls init` writes this file.
    let name_file = std::fs::read_to_string(dir.join("name")).ok();
    let name = options
        .name
        .as_deref()
        .or(name_file.as_deref().map(str::trim));
    let parts = TlsMaterial {
        ca: &ca,
        own: own.as_ref().map(|(cert, key)| (&cert[..], &key[..])),
        name,
        require_client_certificates: options.require_client_certificates,
    };
    TlsConfig::new(parts).map_err(|error| {
        let what = format!("the files in '{}' cannot be used for TLS", dir.display());
        unusable(what).because(error).todo(ADVICE)
    })
}

fn unusable(what: String) -> SetupError {
    SetupError::new(SetupErrorKind::Unusable, what)
}

fn read(path: &Path) -> Result<Vec<u8>, SetupError> {
    std::fs::read(path).map_err(|error| {
        let what = format!("cannot read '{}' for TLS", path.display());
        unusable(what).because(error).todo(ADVICE)
    })
}

/// Refuses a private key that other users can read.
///
/// # Errors
/// That they can.
pub fn check_private_key(key: &Path) -> Result<(), SetupError> {
    match std::fs::metadata(key) {
        Ok(found) if found.mode() & 0o077 != 0 => Err(unusable(format!(
            "other users than its owner can read the private key '{}'",
            key.display()
        ))
        .todo(format!("chmod 600 '{}'", key.display()))),
        // `read` reports a file that cannot be read.
        _ => Ok(()),
    }
}

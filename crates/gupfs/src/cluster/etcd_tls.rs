//! The files of certificates for TLS to etcd.

use crate::config::MetadataServer;
use crate::exit::{CliError, CliResult, Exit};
use gupfs_files::check_private_key;
use gupfs_platform::arbiter::{EtcdTls, PemText};
use gupfs_rpc::{TlsConfig, TlsMaterial};
use std::path::Path;

/// Advice for missing or wrong files.
const ADVICE: &str = "docs/operate.md, \"Several metadata servers\", describes them";

/// The certificates that the configuration names; None if it names no CA.
///
/// # Errors
/// If a file is missing or cannot be used, with its name, or one file is named without another that it needs.
pub(super) fn read_etcd_tls(config: &MetadataServer) -> CliResult<Option<EtcdTls>> {
    let (certificate, key) = (&config.etcd_cert, &config.etcd_key);
    let own = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (..) => {
            return Err(CliError::new(
                "a client certificate for etcd needs its private key: give both, or neither",
            )
            .todo("set mds.etcd_cert and mds.etcd_key in the configuration")
            .exit(Exit::Unusable));
        }
    };
    let Some(ca) = &config.etcd_ca else {
        return match own {
            None => Ok(None),
            Some(_) => Err(CliError::new(
                "mds.etcd_cert and mds.etcd_key are set, and no CA is known that signs etcd's certificates",
            )
            .todo("set mds.etcd_ca in the configuration")
            .exit(Exit::Unusable)),
        };
    };
    let own = match own {
        None => None,
        Some((certificate, key)) => {
            check_private_key(key)?;
            Some((read(certificate)?, read(key)?))
        }
    };
    let tls = EtcdTls { ca: read(ca)?, own };
    check(&tls)?;
    Ok(Some(tls))
}

fn read(path: &Path) -> CliResult<PemText> {
    let file = path.display().to_string();
    let pem = std::fs::read(path).map_err(|error| {
        CliError::new(format!("cannot read '{file}' for TLS to etcd"))
            .because(&error)
            .todo(ADVICE)
            .exit(Exit::Unusable)
    })?;
    Ok(PemText { file, pem })
}

/// That the files are certificates, and the key belongs to its certificate: the connection to etcd would only say that it failed.
fn check(tls: &EtcdTls) -> CliResult<()> {
    let material = TlsMaterial {
        ca: &tls.ca.pem,
        own: (tls.own.as_ref()).map(|(certificate, key)| (&certificate.pem[..], &key.pem[..])),
        name: None,
        require_client_certificates: false,
    };
    let Err(error) = TlsConfig::new(material) else {
        return Ok(());
    };
    let mut files = vec![format!("mds.etcd_ca '{}'", tls.ca.file)];
    if let Some((certificate, key)) = &tls.own {
        files.push(format!("mds.etcd_cert '{}'", certificate.file));
        files.push(format!("mds.etcd_key '{}'", key.file));
    }
    Err(CliError::new(format!(
        "these files cannot be used for TLS to etcd: {}",
        files.join(", ")
    ))
    .because(&error)
    .todo(ADVICE)
    .exit(Exit::Unusable))
}

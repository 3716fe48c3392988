//! `gupfs tls`: makes certificates for a site without a CA.

use crate::exit::{CliError, CliResult, Exit};
use clap::{Args, Subcommand};
use gupfs_platform::Platform;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// The lifetime of a CA: when it expires, every host needs a new ca.pem.
const CA_LIFETIME: Duration = DAY.saturating_mul(3650);

/// The longest lifetime that browsers accept, and short enough that administrators renew it in time.
const SERVER_LIFETIME: Duration = DAY.saturating_mul(825);

/// The clocks of hosts may be this far behind when a certificate is new.
const CLOCK_TOLERANCE: Duration = DAY;

/// The name in the certificate of all servers if none is given.
const DEFAULT_NAME: &str = "gupfs.internal";

/// Make and renew certificates for a site without a CA
#[derive(Subcommand)]
pub enum Tls {
    Init(Init),
}

/// Make a CA and a certificate for all servers; if the CA exists, make a new certificate with it
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs tls init /root/gupfs-tls
  scp -r /root/gupfs-tls/servers node2:/etc/gupfs/tls
  scp -r /root/gupfs-tls/hosts node7:/etc/gupfs/tls

DIR/servers is for hosts that serve, DIR/hosts for those that only mount; each is then named with --tls or cluster.tls. DIR/ca.key \
must stay here: it can sign certificates. Run again, the command renews the servers' certificate.

Exit codes: 0 made · 1 it could not be made · 2 wrong name, or the directory contains something else")]
pub struct Init {
    /// A directory that root alone can open; made if it does not exist
    dir: PathBuf,
    /// The name that the servers' certificate carries [default: gupfs.internal]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Tls {
    pub fn run(self) -> CliResult<Exit> {
        match self {
            Tls::Init(init) => init.run(),
        }
    }
}

impl Init {
    fn run(self) -> CliResult<Exit> {
        let now = Duration::from_secs(Platform::real().clock.now().secs.max(0).unsigned_abs());
        let made = self.make(now)?;
        let dir = self.dir.display();
        if made {
            println!("'{dir}' has a new CA and a certificate for all servers.");
        } else {
            println!("'{dir}/servers' has a new certificate, signed by the existing CA.");
        }
        println!(
            "Copy '{dir}/servers' to each server and '{dir}/hosts' to each host that only mounts, as /etc/gupfs/tls."
        );
        Ok(Exit::Fine)
    }

    /// Returns whether it made a CA, too.
    fn make(&self, now: Duration) -> CliResult<bool> {
        let (ca_key, name_file) = (self.dir.join("ca.key"), self.dir.join("servers/name"));
        let ca_exists = ca_key.exists();
        let name = match ca_exists {
            false => self.name.clone().unwrap_or_else(|| DEFAULT_NAME.into()),
            true => {
                let known = fs::read_to_string(&name_file);
                let known = known.map_err(|error| path_error("read", &name_file, &error))?;
                let known = known.trim().to_string();
                if self.name.as_ref().is_some_and(|name| *name != known) {
                    return Err(CliError::new(format!(
                        "the CA in '{}' was made for the name '{known}'",
                        self.dir.display()
                    ))
                    .todo("leave --name out, or give another directory")
                    .exit(Exit::Unusable));
                }
                known
            }
        };
        let failed = |error: rcgen::Error| {
            CliError::new(format!("cannot make certificates for the name '{name}'"))
                .because(&error)
                .exit(Exit::Unusable)
        };
        let server = server(&name, now).map_err(failed)?;
        let key = match ca_exists {
            true => {
                let pem = fs::read_to_string(&ca_key)
                    .map_err(|error| path_error("read", &ca_key, &error))?;
                KeyPair::from_pem(&pem).map_err(failed)?
            }
            false => {
                self.prepare()?;
                KeyPair::generate().map_err(failed)?
            }
        };
        let ca = ca(&name, now).map_err(failed)?;
        if !ca_exists {
            let certificate = ca.self_signed(&key).map_err(failed)?.pem();
            for dir in ["servers", "hosts"] {
                write(&self.dir.join(dir).join("ca.pem"), 0o644, &certificate)?;
                write(
                    &self.dir.join(dir).join("name"),
                    0o644,
                    &format!("{name}\n"),
                )?;
            }
        }
        let (own, ca_key_pem) = (KeyPair::generate().map_err(failed)?, key.serialize_pem());
        let certificate = server
            .signed_by(&own, &Issuer::new(ca, key))
            .map_err(failed)?
            .pem();
        write(
            &self.dir.join("servers/key.pem"),
            0o600,
            &own.serialize_pem(),
        )?;
        write(&self.dir.join("servers/cert.pem"), 0o644, &certificate)?;
        // Last: if this file exists, all others do.
        if !ca_exists {
            write(&ca_key, 0o600, &ca_key_pem)?;
        }
        Ok(!ca_exists)
    }

    fn prepare(&self) -> CliResult<()> {
        let make_dir = |dir: &Path, mode| {
            let made = fs::DirBuilder::new().recursive(true).mode(mode).create(dir);
            made.map_err(|error| path_error("make", dir, &error))
        };
        make_dir(&self.dir, 0o700)?;
        let entries =
            fs::read_dir(&self.dir).map_err(|error| path_error("read", &self.dir, &error))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            // An interrupted run leaves these.
            if name != "servers" && name != "hosts" {
                return Err(CliError::new(format!(
                    "'{}' contains something else: '{}'",
                    self.dir.display(),
                    name.to_string_lossy()
                ))
                .todo("give an empty directory, or one that `gupfs tls init` made")
                .exit(Exit::Unusable));
            }
        }
        make_dir(&self.dir.join("servers"), 0o755)?;
        make_dir(&self.dir.join("hosts"), 0o755)
    }
}

/// The parameters of the CA. Apart from the dates they are the same at each call, because certificates name their issuer by them.
fn ca(name: &str, now: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name
        .push(DnType::CommonName, format!("CA of {name}"));
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut ca, now, CA_LIFETIME);
    Ok(ca)
}

fn server(name: &str, now: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut server = CertificateParams::new(vec![name.to_string()])?;
    server.distinguished_name.push(DnType::CommonName, name);
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Servers are clients of each other, and must present a certificate if the other side requires one.
    server.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    set_validity(&mut server, now, SERVER_LIFETIME);
    Ok(server)
}

fn set_validity(params: &mut CertificateParams, now: Duration, lifetime: Duration) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(CLOCK_TOLERANCE);
    params.not_after = epoch + now + lifetime;
}

fn write(path: &Path, mode: u32, text: &str) -> CliResult<()> {
    let temporary = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let _ = fs::remove_file(&temporary);
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| path_error("write", path, &error))
}

fn path_error(op: &str, path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(format!("cannot {op} '{}'", path.display())).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_rpc::TlsMaterial;
    use std::os::unix::fs::MetadataExt;

    fn init(dir: &Path, name: Option<&str>) -> Init {
        Init {
            dir: dir.to_path_buf(),
            name: name.map(str::to_string),
        }
    }

    #[test]
    fn certificates_can_be_used_and_renewed_by_the_same_ca() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("site");
        let now = Duration::from_secs(1_800_000_000);
        assert!(init(&site, None).make(now).unwrap());
        let read = |name: &str| fs::read(site.join(name)).unwrap();
        let (ca, first) = (read("hosts/ca.pem"), read("servers/cert.pem"));
        for secret in ["ca.key", "servers/key.pem"] {
            let mode = fs::metadata(site.join(secret)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "{secret}");
        }
        assert!(!site.join("hosts/key.pem").exists());
        assert!(!init(&site, None).make(now + SERVER_LIFETIME).unwrap());
        assert_ne!(read("servers/cert.pem"), first);
        assert_eq!(
            (read("hosts/ca.pem"), read("servers/ca.pem")),
            (ca.clone(), ca.clone())
        );
        let (cert, key) = (read("servers/cert.pem"), read("servers/key.pem"));
        let parts = TlsMaterial {
            ca: &ca,
            own: Some((&cert, &key)),
            name: Some(DEFAULT_NAME),
            require_client_certificates: true,
        };
        assert!(gupfs_rpc::TlsConfig::new(parts).unwrap().can_serve());
        let other = init(&site, Some("other")).make(now).unwrap_err();
        assert!(
            other.to_string().contains("was made for the name"),
            "{other}"
        );
    }

    #[test]
    fn a_directory_with_something_else_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        let error = init(dir.path(), None).make(Duration::ZERO).unwrap_err();
        assert!(
            error.to_string().contains("contains something else"),
            "{error}"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

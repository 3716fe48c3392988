//! The arbiter of a cluster whose metadata has copies: etcd, as the configuration names it.

use super::etcd_tls::read_etcd_tls;
use crate::config::MetadataServer;
use crate::exit::{CliError, CliResult, Exit};
use gupfs_platform::arbiter::EtcdTls;
use gupfs_platform::{Arbiter, Platform};
use gupfs_proto::ClusterId;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The members of etcd, and what this process shows them.
#[cfg_attr(not(feature = "etcd"), allow(dead_code))] // such a build only refuses them
pub struct EtcdSettings {
    endpoints: Vec<String>,
    prefix: Option<String>,
    user: Option<(String, String)>,
    tls: Option<EtcdTls>,
}

impl EtcdSettings {
    /// None if the configuration names no member.
    ///
    /// # Errors
    /// If an address is no URL, the password or a certificate cannot be read, or addresses and certificates do not fit.
    pub fn of(config: &MetadataServer) -> CliResult<Option<EtcdSettings>> {
        let Some(members) = config.etcd.as_ref().filter(|members| !members.is_empty()) else {
            return Ok(None);
        };
        let user = match (&config.etcd_user, &config.etcd_password_file) {
            (None, None) => None,
            (Some(name), Some(file)) => Some((name.clone(), read_password(file)?)),
            (..) => {
                return Err(CliError::new(
                    "a user of etcd needs a name and a password: give both, or neither",
                )
                .todo("set mds.etcd_user and mds.etcd_password_file in the configuration")
                .exit(Exit::Unusable));
            }
        };
        let tls = read_etcd_tls(config)?;
        Ok(Some(EtcdSettings {
            endpoints: endpoints(members, tls.is_some())?,
            prefix: config.etcd_prefix.clone(),
            user,
            tls,
        }))
    }

    /// The register of this cluster.
    ///
    /// # Errors
    /// If this program was built without etcd.
    #[cfg(feature = "etcd")]
    pub fn arbiter(self, cluster: ClusterId, platform: &Platform) -> CliResult<Arbiter> {
        let options = self.options(|| format!("gupfs/{:032x}", cluster.0));
        Ok(Arbiter::etcd(options, platform.clock.clone()))
    }

    /// Questions to the members, and measurements beside the registers.
    #[cfg(feature = "etcd")]
    pub fn check(self, platform: &Platform) -> gupfs_platform::arbiter::etcd_check::EtcdCheck {
        gupfs_platform::arbiter::etcd_check::EtcdCheck::new(
            self.options(|| "gupfs".into()),
            platform.clock.clone(),
            platform.random.clone(),
        )
    }

    #[cfg(feature = "etcd")]
    fn options(self, prefix: impl FnOnce() -> String) -> gupfs_platform::arbiter::EtcdOptions {
        gupfs_platform::arbiter::EtcdOptions {
            endpoints: self.endpoints,
            prefix: self.prefix.unwrap_or_else(prefix),
            user: self.user,
            tls: self.tls,
        }
    }

    /// # Errors
    /// This program was built without etcd.
    #[cfg(not(feature = "etcd"))]
    pub fn arbiter(self, _: ClusterId, _: &Platform) -> CliResult<Arbiter> {
        Err(built_without_etcd())
    }
}

/// Why such a program cannot use etcd.
#[cfg(not(feature = "etcd"))]
pub fn built_without_etcd() -> CliError {
    CliError::new("this program was built without etcd, which several copies of the metadata need")
        .todo("build it with the feature etcd")
        .exit(Exit::Unusable)
}

/// "host:port" becomes a URL. All members are reached with TLS, or none.
fn endpoints(members: &[String], has_ca: bool) -> CliResult<Vec<String>> {
    let wrong = |what: String, todo: &str| Err(CliError::new(what).todo(todo).exit(Exit::Unusable));
    let mut endpoints = Vec::new();
    for member in members {
        match (member.split_once("://"), has_ca) {
            (None, false) => endpoints.push(format!("http://{member}")),
            (None, true) => endpoints.push(format!("https://{member}")),
            (Some(("http", _)), false) | (Some(("https", _)), true) => {
                endpoints.push(member.clone());
            }
            (Some(("http", _)), true) => {
                return wrong(
                    format!(
                        "the member of etcd '{member}' would be asked without TLS, and mds.etcd_ca is set"
                    ),
                    "name every member as https://HOST:PORT, or set no mds.etcd_ca",
                );
            }
            (Some(("https", _)), false) => {
                return wrong(
                    format!(
                        "the member of etcd '{member}' cannot be asked with TLS: no CA is known that signs its certificate"
                    ),
                    "set mds.etcd_ca in the configuration to a file with the certificate of that CA, or name every member as http://HOST:PORT",
                );
            }
            (Some((scheme, _)), _) => {
                return wrong(
                    format!(
                        "'{member}' is no address of etcd that this program can use: it has {scheme}"
                    ),
                    "name each member as http://HOST:PORT, or as https://HOST:PORT with mds.etcd_ca",
                );
            }
        }
    }
    Ok(endpoints)
}

fn read_password(path: &Path) -> CliResult<String> {
    let failed = |why: &dyn std::fmt::Display| {
        CliError::new(format!(
            "cannot use the password of etcd in '{}': {why}",
            path.display()
        ))
        .todo("write it into a file that only this user can read (chmod 600)")
        .exit(Exit::Unusable)
    };
    let found = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if found.mode() & 0o077 != 0 {
        return Err(failed(&"other users can read it"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_string())
}

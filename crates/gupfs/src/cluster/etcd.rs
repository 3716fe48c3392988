//! The arbiter of a cluster whose metadata has copies: etcd, as the configuration names it.

use crate::config::MetadataServer;
use crate::exit::{CliError, CliResult, Exit};
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
}

impl EtcdSettings {
    /// None if the configuration names no member.
    ///
    /// # Errors
    /// If an address is no URL, or the password cannot be read.
    pub fn of(config: &MetadataServer) -> CliResult<Option<EtcdSettings>> {
        let Some(members) = config.etcd.as_ref().filter(|members| !members.is_empty()) else {
            return Ok(None);
        };
        let endpoints = members.iter().map(|member| endpoint(member));
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
        Ok(Some(EtcdSettings {
            endpoints: endpoints.collect::<CliResult<Vec<String>>>()?,
            prefix: config.etcd_prefix.clone(),
            user,
        }))
    }

    /// The register of this cluster.
    ///
    /// # Errors
    /// If this program was built without etcd.
    #[cfg(feature = "etcd")]
    pub fn arbiter(self, cluster: ClusterId, platform: &Platform) -> CliResult<Arbiter> {
        let options = gupfs_platform::arbiter::EtcdOptions {
            endpoints: self.endpoints,
            prefix: (self.prefix).unwrap_or_else(|| format!("gupfs/{:032x}", cluster.0)),
            user: self.user,
        };
        Ok(Arbiter::etcd(options, platform.clock.clone()))
    }

    /// # Errors
    /// This program was built without etcd.
    #[cfg(not(feature = "etcd"))]
    pub fn arbiter(self, _: ClusterId, _: &Platform) -> CliResult<Arbiter> {
        Err(CliError::new(
            "this program was built without etcd, which several copies of the metadata need",
        )
        .todo("build it with the feature etcd")
        .exit(Exit::Unusable))
    }
}

/// "host:port" becomes a URL.
fn endpoint(member: &str) -> CliResult<String> {
    match member.split_once("://") {
        None => Ok(format!("http://{member}")),
        Some(("http", _)) => Ok(member.to_string()),
        Some((scheme, _)) => Err(CliError::new(format!(
            "'{member}' is no address of etcd that this program can use: it has {scheme}"
        ))
        .todo("name each member as http://HOST:PORT")
        .exit(Exit::Unusable)),
    }
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

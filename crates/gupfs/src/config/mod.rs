//! # config: the configuration files of `gupfs up`, `mds`, `oss` and `mount`
//!
//! Owns   the keys, their valid values, and error messages with file, line, key, and the key that was probably meant.
//! Never  applies flags: the commands do, and flags take precedence.
//! Enter  at `Config::read`. docs/gupfs.example.toml describes every key, and a test reads it.

mod parse_error;

use crate::amount::{BusyPoll, Deadline, Size, TimeLimit};
use crate::exit::{CliError, CliResult, Exit};
use gupfs_proto::DomainName;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// All keys. A key that the file omits is None; its default is where the key is used.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub cluster: Cluster,
    pub mds: MetadataServer,
    pub store: Store,
    pub oss: Oss,
    pub mount: Mount,
    pub threads: Threads,
    pub log: Log,
    pub metrics: Metrics,
}

/// How the processes of a cluster find and authenticate each other.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    pub mds: Option<String>,
    pub key: Option<PathBuf>,
    pub listen: Option<String>,
    pub root_squash: Option<bool>,
    pub tls: Option<PathBuf>,
    pub tls_name: Option<String>,
    pub tls_clients: Option<bool>,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetadataServer {
    pub rebuild_after: Option<TimeLimit>,
    pub resync_rate: Option<Size>,
    pub scrub_period: Option<TimeLimit>,
    pub etcd: Option<Vec<String>>,
    pub etcd_prefix: Option<String>,
    pub etcd_user: Option<String>,
    pub etcd_password_file: Option<PathBuf>,
    pub etcd_ca: Option<PathBuf>,
    pub etcd_cert: Option<PathBuf>,
    pub etcd_key: Option<PathBuf>,
    pub advertise: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Oss {
    pub targets: Option<Vec<PathBuf>>,
    pub advertise: Option<String>,
    pub domain: Option<DomainName>,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    pub osts: Option<u16>,
    pub virtual_shards: Option<u16>,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mount {
    pub point: Option<PathBuf>,
    pub allow_other: Option<bool>,
    pub read_only: Option<bool>,
    pub read_ahead: Option<Size>,
    pub data_cache: Option<Size>,
    pub write_behind: Option<bool>,
    pub relay: Option<Relay>,
    pub transport: Option<Transport>,
    pub threads: Option<u16>,
    pub deadline: Option<Deadline>,
    pub atime: Option<Atime>,
    pub directory_atime: Option<bool>,
    pub setuid: Option<bool>,
    pub devices: Option<bool>,
    pub exec: Option<bool>,
    pub permissions: Option<Permissions>,
    pub job: Option<String>,
}

/// How `mds`, `oss` and `mount` use the processors of their host.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Threads {
    pub workers: Option<u16>,
    pub busy_poll: Option<BusyPoll>,
}

/// Who checks what a program may do, where other mounts use the same files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Permissions {
    /// The kernel, that asks for attributes at each step, and the servers.
    Kernel,
    /// The servers alone.
    Servers,
}

/// When object servers relay the bytes of mirrored files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relay {
    Auto,
    Always,
    Never,
}

impl Relay {
    pub fn mode(self) -> gupfs_client::RelayMode {
        match self {
            Relay::Auto => gupfs_client::RelayMode::Auto,
            Relay::Always => gupfs_client::RelayMode::Always,
            Relay::Never => gupfs_client::RelayMode::Never,
        }
    }
}

/// The way requests come from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Over io_uring if that is switched on on this machine, else through /dev/fuse.
    Auto,
    /// Through /dev/fuse.
    Device,
    /// Over io_uring; switches it on if need be.
    IoUring,
}

/// When reading a file moves its access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Atime {
    /// When it is not later than the last change, or older than a day.
    Relative,
    Always,
    Never,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    pub format: Option<LogFormat>,
    pub level: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    pub listen: Option<SocketAddr>,
}

impl Config {
    /// Reads a configuration file; without a path, no key is set.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_or_default(path: Option<&Path>) -> CliResult<Config> {
        path.map_or_else(|| Ok(Config::default()), Config::read)
    }

    /// # Errors
    /// If the file cannot be read, or a key or value is not valid.
    pub fn read(path: &Path) -> CliResult<Config> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            CliError::new(format!(
                "cannot read the configuration '{}'",
                path.display()
            ))
            .because(&error)
            .exit(Exit::Unusable)
        })?;
        Config::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> CliResult<Config> {
        let config: Config =
            toml::from_str(text).map_err(|error| parse_error::cli_error(text, path, &error))?;
        config.check(path)?;
        Ok(config)
    }

    /// Checks what the types of the keys do not.
    fn check(&self, path: &Path) -> CliResult<()> {
        let wrong = |key: &str, what: String| {
            Err(CliError::new(format!("{}: {key}: {what}", path.display())).exit(Exit::Unusable))
        };
        if let Some(level) = &self.log.level
            && let Err(error) = level.parse::<tracing_subscriber::EnvFilter>()
        {
            return wrong(
                "log.level",
                format!("'{level}' is not a log filter: {error}"),
            );
        }
        let positive = [
            ("store.osts", self.store.osts),
            ("store.virtual_shards", self.store.virtual_shards),
            ("mount.threads", self.mount.threads),
            ("threads.workers", self.threads.workers),
        ];
        for (key, value) in positive {
            if value == Some(0) {
                return wrong(key, "0 is not possible; it must be 1 or more".into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let shown = match Config::parse(text, Path::new("gupfs.conf")) {
            Ok(config) => format!("{config:?}"),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn an_empty_configuration_sets_no_key() {
        assert_eq!(
            Config::parse("", Path::new("x")).unwrap(),
            Config::default()
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        check(
            "[mount]\nallow_other = true\nreadahead = \"8MiB\"\n",
            expect![[r#"
                gupfs.conf, line 3: there is no key 'readahead' in [mount].
                  → probably 'read_ahead' was meant; valid keys: point, allow_other, read_only, read_ahead, data_cache, write_behind, relay, transport, threads, deadline, atime, directory_atime, setuid, devices, exec, permissions, job."#]],
        );
        check(
            "[motn]\nallow_other = true\n",
            expect![[r#"
                gupfs.conf, line 1: there is no section 'motn'.
                  → probably 'mount' was meant; valid sections: cluster, mds, store, oss, mount, threads, log, metrics."#]],
        );
        check(
            "[metrics]\nzebra = 1\n",
            expect![[r#"
                gupfs.conf, line 2: there is no key 'zebra' in [metrics].
                  → valid keys: listen."#]],
        );
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        check(
            "\n[mount]\nread_ahead = \"much\"\n",
            expect![[
                r#"gupfs.conf, line 3: read_ahead: 'much' is not a size; write a number and one of B, KiB, MiB, GiB, TiB."#
            ]],
        );
        check(
            "[mount]\ndeadline = \"soon\"\n",
            expect![[
                r#"gupfs.conf, line 2: deadline: 'soon' is not a deadline; write a number and s, min, h or d, or none."#
            ]],
        );
        check(
            "[mount]\ndeadline = \"0s\"\n",
            expect![[
                r#"gupfs.conf, line 2: deadline: '0s' is not a deadline: calls would not wait at all; write none for no deadline."#
            ]],
        );
        check(
            "[store]\nosts = \"four\"\n",
            expect![[r#"gupfs.conf, line 2: osts: invalid type: string "four", expected u16."#]],
        );
        check(
            "[log]\nformat = \"xml\"\n",
            expect![[
                r#"gupfs.conf, line 2: format: unknown variant `xml`, expected `text` or `json`."#
            ]],
        );
        check(
            "[oss]\ndomain = \"rack 7\"\n",
            expect![[
                r#"gupfs.conf, line 2: domain: 'rack 7' is not a name of a failure domain; write 1 to 32 letters, digits, '.', '-' or '_'."#
            ]],
        );
        check(
            "[store]\nosts = 0\n",
            expect!["gupfs.conf: store.osts: 0 is not possible; it must be 1 or more."],
        );
    }

    #[test]
    fn a_syntax_error_is_reported_with_its_line() {
        check(
            "[store]\nosts == 4\n",
            expect![[r#"gupfs.conf, line 2: extra `=`, expected nothing."#]],
        );
    }

    #[test]
    fn the_configuration_files_of_the_services_are_valid() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster");
        for name in ["mds.toml", "oss.toml", "mount.toml"] {
            let config = Config::read(&dir.join(name)).unwrap();
            assert_ne!(config, Config::default(), "{name}");
        }
    }

    #[test]
    fn the_example_configuration_is_valid_and_has_every_key() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gupfs.example.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        Config::parse(&text, &path).unwrap();
        // Values in comments are examples, too: without the comment signs the file must be valid.
        let uncommented: String = text
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .fold(String::new(), |text, line| text + line + "\n");
        let config = Config::parse(&uncommented, &path).unwrap();
        assert!(!format!("{config:?}").contains("None"), "{config:?}");
    }
}

//! Files of keys: the cluster key of the servers, and client keys.

use super::{SetupError, SetupErrorKind};
use gupfs_rpc::{AuthKey, ClientKey, ClientKeyId, ClusterKey};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The files that a process reads if none is named.
const DEFAULT_CLUSTER_KEY: &str = "/etc/gupfs/cluster.key";
const DEFAULT_CLIENT_KEY: &str = "/etc/gupfs/client.key";

const FORMAT: &str = "gupfs client key";
const VERSION: u32 = 1;

/// The file of a client key, as TOML.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientKeyFile {
    format: String,
    version: u32,
    name: String,
    number: String,
    key: String,
}

/// The part that all format versions share.
#[derive(Deserialize)]
struct KeyFileHead {
    format: String,
    version: u32,
}

/// The key of a client or a monitoring command: a client key, or the cluster key. None if no file is named and no default file exists.
///
/// # Errors
/// If the file cannot be read, is no key, or other users can read it.
pub fn read_key(path: Option<&Path>) -> Result<Option<AuthKey>, SetupError> {
    let usual = [DEFAULT_CLIENT_KEY, DEFAULT_CLUSTER_KEY].map(Path::new);
    let path = path.or_else(|| usual.into_iter().find(|path| path.exists()));
    path.map(read).transpose()
}

/// The cluster key, for a server. None if no file is named and the default file does not exist.
///
/// # Errors
/// As `read_key`, and if the file has a client key.
pub fn read_cluster_key(path: Option<&Path>) -> Result<Option<ClusterKey>, SetupError> {
    let usual = Path::new(DEFAULT_CLUSTER_KEY);
    let Some(path) = path.or_else(|| usual.exists().then_some(usual)) else {
        return Ok(None);
    };
    match read(path)? {
        AuthKey::Cluster(key) => Ok(Some(key)),
        AuthKey::Client(key) => Err(unusable(format!(
            "'{}' is the client key of '{}', and servers need the cluster key",
            path.display(),
            key.id.name
        ))
        .todo("copy cluster.key from the metadata server's directory, and let only root read it")),
    }
}

fn unusable(what: String) -> SetupError {
    SetupError::new(SetupErrorKind::Unusable, what)
}

fn read(path: &Path) -> Result<AuthKey, SetupError> {
    let failed = |error: std::io::Error| {
        unusable(format!("cannot read the key '{}'", path.display()))
            .because(error)
            .todo("make one for this host with `gupfs key client` on the metadata server, copy it here, and let only root read it")
    };
    let found = std::fs::metadata(path).map_err(failed)?;
    if found.mode() & 0o077 != 0 {
        return Err(unusable(format!(
            "other users than its owner can read the key '{}'",
            path.display()
        ))
        .todo(format!("chmod 600 '{}'", path.display())));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    parse(&bytes).map_err(|why| {
        unusable(format!("'{}' is not a key of gupfs: {why}", path.display())).todo(
            "a cluster key has 32 bytes; a client key is a text file that `gupfs key client` wrote",
        )
    })
}

fn parse(bytes: &[u8]) -> Result<AuthKey, String> {
    if let Ok(key) = <[u8; 32]>::try_from(bytes) {
        return Ok(ClusterKey::new(key).into());
    }
    let length = bytes.len();
    let not_a_key = || format!("it has {length} bytes and does not contain '{FORMAT}'");
    let text = std::str::from_utf8(bytes).map_err(|_| not_a_key())?;
    let head: KeyFileHead = toml::from_str(text).map_err(|_| not_a_key())?;
    if head.format != FORMAT {
        return Err(not_a_key());
    }
    if head.version > VERSION {
        return Err(format!(
            "it has version {}, and this program reads up to {VERSION}",
            head.version
        ));
    }
    let file: ClientKeyFile = toml::from_str(text).map_err(|error| error.message().to_string())?;
    let number = u64::from_str_radix(&file.number, 16).map_err(|_| "its number is not valid")?;
    let secret = from_hex(&file.key).ok_or("its key does not have 64 hexadecimal digits")?;
    if !ClientKeyId::is_valid_name(&file.name) {
        return Err("its name is not valid".into());
    }
    let of = ClientKeyId {
        name: file.name,
        number,
    };
    Ok(ClientKey::new(of, secret).into())
}

/// Creates the file of a client key.
///
/// # Errors
/// If the file exists, or cannot be written.
pub fn write_client_key(
    path: &Path,
    cluster: &ClusterKey,
    of: &ClientKeyId,
) -> std::io::Result<()> {
    let text = toml::to_string(&ClientKeyFile {
        format: FORMAT.into(),
        version: VERSION,
        name: of.name.clone(),
        number: format!("{:016x}", of.number),
        key: to_hex(&ClientKey::secret(cluster, of)),
    })
    .expect("a key has only values that TOML has");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    write!(
        file,
        "# With this key a host can mount the file system. Keep it secret: /etc/gupfs/client.key, mode 0600.\n\n{text}"
    )?;
    file.sync_all()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::os::unix::fs::PermissionsExt;

    fn check(bytes: &[u8], expected: Expect) {
        let shown = match parse(bytes) {
            Ok(AuthKey::Cluster(_)) => "the cluster's key".to_string(),
            Ok(AuthKey::Client(key)) => format!("client key {}", key.id),
            Err(why) => why,
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_client_key_reads_back_from_a_file_that_only_its_owner_can_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node7.key");
        let cluster = ClusterKey::new([7; 32]);
        let of = ClientKeyId {
            name: "node7".into(),
            number: 0xabc,
        };
        write_client_key(&path, &cluster, &of).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let bytes = std::fs::read(&path).unwrap();
        check(&bytes, expect!["client key node7#0000000000000abc"]);
        assert!(write_client_key(&path, &cluster, &of).is_err());
        // The error for a server names the key.
        let error = read_cluster_key(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("is the client key of 'node7'"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_key_is_refused_with_the_reason() {
        check(&[1; 32], expect!["the cluster's key"]);
        check(
            &[1; 31],
            expect!["it has 31 bytes and does not contain 'gupfs client key'"],
        );
        check(
            b"format = \"gupfs client key\"\nversion = 9\nshape = 1\n",
            expect!["it has version 9, and this program reads up to 1"],
        );
        check(
            b"format = \"gupfs client key\"\nversion = 1\nname = \"a\"\nnumber = \"1\"\nkey = \"12\"\n",
            expect!["its key does not have 64 hexadecimal digits"],
        );
    }
}

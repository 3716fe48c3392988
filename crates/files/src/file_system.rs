//! The file system, from `connect` to `stop`.

use crate::connect::{
    DialedCluster, SetupError, SetupErrorKind, TlsOptions, host_name, identity, read_key, read_tls,
};
use crate::host_rules::HostRules;
use crate::limits::{CONNECT_TIMEOUT, DEADLINE};
use crate::shared_session::SharedSession;
use crate::user_files::UserFiles;
use gupfs_client::{Client, SessionOptions};
use gupfs_platform::Platform;
use gupfs_proto::{Caller, FsError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which cluster, and how.
#[derive(Clone)]
pub struct ConnectOptions {
    /// The metadata server, "HOST[:PORT]", or several of them, separated by commas. One is enough: it names the others.
    pub mds: String,
    /// The file of the key; None: that of this host, as `gupfs mount` reads it.
    pub key: Option<PathBuf>,
    /// None: connections are not encrypted.
    pub tls: Option<TlsOptions>,
    /// The servers' messages show this program's host and this name.
    pub what: String,
    /// How long to wait for servers that do not answer.
    pub timeout: Duration,
    /// Tries again for `timeout` after servers have refused the connection, instead of reporting that at once.
    pub is_patient: bool,
    /// After how long a call returns `TimedOut`; None: never.
    pub deadline: Option<Duration>,
    /// Small writes wait some milliseconds for each other; the end of this process loses those that were not sent.
    pub write_behind: bool,
    /// Bytes of files that this process keeps in memory; None: as a mount.
    pub data_cache_max: Option<usize>,
}

impl ConnectOptions {
    pub fn new(mds: impl Into<String>) -> ConnectOptions {
        ConnectOptions {
            mds: mds.into(),
            key: None,
            tls: None,
            what: format!("process {}", std::process::id()),
            timeout: CONNECT_TIMEOUT,
            is_patient: false,
            deadline: Some(DEADLINE),
            write_behind: true,
            data_cache_max: None,
        }
    }

    fn session_options(&self) -> SessionOptions {
        let defaults = SessionOptions::default();
        SessionOptions {
            name: format!("{}:{}", host_name(), self.what),
            shared: true,
            write_behind: self.write_behind,
            data_cache_max: self.data_cache_max.unwrap_or(defaults.data_cache_max),
            ..defaults
        }
    }
}

/// A session with one file system. A clone is the same session.
#[derive(Clone)]
pub struct ClusterFiles {
    core: Arc<SharedSession>,
}

impl ClusterFiles {
    /// Connects and opens a session. Runs on a tokio runtime, which must live as long as this.
    ///
    /// # Errors
    /// What is wrong with the key, the certificates or the addresses; that no server answers, or that it refuses this host.
    pub async fn connect(options: ConnectOptions) -> Result<ClusterFiles, SetupError> {
        let platform = Platform::real();
        let key = read_key(options.key.as_deref())?;
        let tls = options.tls.as_ref().map(read_tls).transpose()?;
        let identity = identity(&platform, key, tls);
        let dialed = DialedCluster::dial(identity, &options.mds, &options.what);
        let server = match options.is_patient {
            true => dialed.wait_connected(options.timeout).await,
            false => dialed.wait_first_attempt(options.timeout).await,
        }?;
        let opening = dialed.open_session(&server, options.session_options());
        let session = tokio::select! {
            session = opening => session?,
            () = platform.clock.sleep(options.timeout) => {
                let what = format!("the metadata server at '{}' accepts the connection, and opens no session", options.mds);
                let todo = "see whether it is starting, with `gupfs status` on its host";
                return Err(SetupError::new(SetupErrorKind::Unreachable, what).todo(todo));
            }
        };
        Ok(ClusterFiles {
            core: Arc::new(SharedSession {
                client: session.client.clone(),
                session: Some(session),
                tasks: platform.tasks,
                clock: platform.clock,
                runtime: tokio::runtime::Handle::current(),
                deadline: options.deadline,
                rules: HostRules::read(),
            }),
        })
    }

    /// Above a client that is connected. Runs on a tokio runtime, which must live as long as this.
    pub fn over(client: Arc<Client>, platform: Platform, rules: HostRules) -> ClusterFiles {
        ClusterFiles {
            core: Arc::new(SharedSession {
                client,
                session: None,
                tasks: platform.tasks,
                clock: platform.clock,
                runtime: tokio::runtime::Handle::current(),
                deadline: None,
                rules,
            }),
        }
    }

    /// The files as this user sees them; new files get the umask.
    pub fn user(&self, caller: Caller, umask: u32) -> UserFiles {
        UserFiles {
            core: self.core.clone(),
            caller,
            umask,
        }
    }

    /// The address of the metadata server; None above a client in this process.
    pub fn mds_address(&self) -> Option<&str> {
        let session = self.core.session.as_ref();
        session.map(|session| session.mds_address.as_str())
    }

    /// The client below.
    pub fn client(&self) -> &Arc<Client> {
        &self.core.client
    }

    /// Ends the session: closes open files, reports writes, gives back leases. Nothing may be called afterwards.
    ///
    /// # Errors
    /// The first error; `TimedOut` after `limit`.
    pub async fn stop(&self, limit: Duration) -> Result<(), FsError> {
        if let Some(session) = &self.core.session {
            session.stop_renewal();
        }
        tokio::select! {
            ended = self.core.client.stop() => ended,
            () = self.core.clock.sleep(limit) => Err(FsError::TimedOut(self.core.unreachable_servers())),
        }
    }
}

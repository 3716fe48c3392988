//! Where the counts come from: a process of this host, or the metadata server.

use crate::cluster::send_request;
use crate::control::{ControlRequest, ControlTarget};
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult};
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::jobs::{JobKey, JobUse};
use gupfs_rpc::{ProcessIdentity, Role};

pub enum Source {
    Process(ControlTarget),
    Server {
        identity: Box<ProcessIdentity>,
        address: String,
    },
}

impl Source {
    pub fn name(&self) -> String {
        match self {
            Source::Process(target) => target.name(),
            Source::Server { address, .. } => address.clone(),
        }
    }

    /// All rows.
    ///
    /// # Errors
    /// If the process or server cannot be reached, or has no counts.
    pub fn read(&self) -> CliResult<JobUse> {
        let mut all = self.page(None)?;
        while let Some(after) = all.next {
            let mut more = self.page(Some(after))?;
            all.next = more.next;
            all.rows.append(&mut more.rows);
        }
        Ok(all)
    }

    fn page(&self, after: Option<JobKey>) -> CliResult<JobUse> {
        match self {
            Source::Process(target) => target.request(&ControlRequest::JobUse { after }),
            Source::Server { identity, address } => {
                let request = ClusterRequest::JobUse { after };
                let (reply, _) = block_on(send_request(identity, address, Role::Visitor, request))?;
                match reply {
                    ClusterReplyBody::JobUse(job_use) => Ok(job_use),
                    _ => Err(CliError::new(format!(
                        "'{address}' sent an unexpected reply to the request for its load"
                    ))),
                }
            }
        }
    }
}

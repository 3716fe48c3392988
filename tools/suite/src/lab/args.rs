//! The flags of lab.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::hosts::Hosts;
use super::links::Rate;
use super::plan::Plan;
use super::{clean, run};
use crate::error::SuiteResult;
use crate::runner::SelfCommand;
use crate::workload::usage_error;

/// Hosts with slow links between them, on this machine alone: servers and clients start what a plan says, and all is removed
#[derive(Args, Clone, Debug)]
pub struct Lab {
    /// Hosts named s1, s2, …
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    servers: Option<u16>,
    /// Hosts named c1, c2, …
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    clients: Option<u16>,
    /// What each host's link carries in each direction, such as 400mbit or 10gbit [default: as much as this machine can]
    #[arg(long, value_name = "RATE")]
    link: Option<Rate>,
    /// What the hosts start: a TOML file (docs/bench.md)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Remove what labs left behind that were killed
    #[arg(long, exclusive = true)]
    clean: bool,
    /// What to run then, outside of the hosts; `on HOST COMMAND…` runs something inside. Without it the lab stands until Ctrl-C
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// More hosts than this get no addresses of one network.
const HOSTS_MAX: usize = 1000;

impl Lab {
    pub fn run(self, self_command: &SelfCommand) -> SuiteResult<u8> {
        if !rustix::process::geteuid().is_root() {
            return usage_error("a lab makes network namespaces and limits links: run it as root");
        }
        if self.clean {
            return clean::all().map(|()| 0);
        }
        let mut plan = match &self.plan {
            Some(file) => Plan::read(file)?,
            None => Plan::default(),
        };
        plan.servers = self.servers.unwrap_or(plan.servers);
        plan.clients = self.clients.unwrap_or(plan.clients);
        plan.link = self.link.or(plan.link);
        let hosts = Hosts::new(plan.servers, plan.clients);
        if hosts.all().is_empty() {
            return usage_error(
                "a lab needs hosts: give --servers and --clients, or a plan that has them",
            );
        }
        if hosts.all().len() > HOSTS_MAX {
            return usage_error(format!("a lab has at most {HOSTS_MAX} hosts"));
        }
        plan.check(&hosts)?;
        run::run(&plan, &hosts, &self.command, self_command)
    }
}

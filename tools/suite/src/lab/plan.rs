//! The commands that the hosts of a lab start, as data.

use std::path::Path;

use serde::Deserialize;

use super::hosts::Hosts;
use super::links::Rate;
use crate::error::{SuiteError, SuiteResult};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    #[serde(default)]
    pub servers: u16,
    #[serde(default)]
    pub clients: u16,
    #[serde(default)]
    pub link: Option<Rate>,
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
}

/// A shell's line, in some hosts at once. The next step begins when all of them are ready or have ended.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `servers`, `clients`, `all`, or a host's name.
    pub on: String,
    pub command: String,
    /// It goes on running, and is ready when it has said this.
    #[serde(default)]
    pub ready: Option<String>,
    /// It goes on running, and is ready when it takes connections at this port.
    #[serde(default)]
    pub port: Option<u16>,
    /// Seconds until it must be ready, or have ended.
    #[serde(default = "ten_minutes")]
    pub timeout: f64,
    /// A shell's line for the end, before what goes on running is ended.
    #[serde(default)]
    pub stop: Option<String>,
}

fn ten_minutes() -> f64 {
    600.0
}

impl Step {
    /// Whether it goes on while later steps are done.
    pub fn stays(&self) -> bool {
        self.ready.is_some() || self.port.is_some()
    }
}

impl Plan {
    pub fn read(file: &Path) -> SuiteResult<Plan> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            SuiteError::usage(format!("cannot read the plan {}: {error}", file.display()))
        })?;
        toml::from_str(&text).map_err(|error| {
            SuiteError::usage(format!(
                "{} is not a plan of a lab: {error}",
                file.display()
            ))
        })
    }

    pub fn check(&self, hosts: &Hosts) -> SuiteResult<()> {
        for (index, step) in self.steps.iter().enumerate() {
            let wrong = |text: &str| {
                let number = index + 1;
                Err(SuiteError::usage(format!(
                    "step {number} ({}): {text}",
                    step.command
                )))
            };
            match hosts.named(&step.on) {
                None => {
                    return wrong(&format!(
                        "'{}' is none of servers, clients, all, and no host's name",
                        step.on
                    ));
                }
                Some([]) => return wrong(&format!("the lab has no {}", step.on)),
                Some(_) => {}
            }
            if step.ready.is_some() && step.port.is_some() {
                return wrong("it is ready when it says something or at a port: not both");
            }
            if step.ready.as_deref() == Some("") {
                return wrong(
                    "every program says nothing at once: what does it say when it is ready?",
                );
            }
            if !(step.timeout > 0.0 && step.timeout <= 1e6) {
                return wrong("timeout takes a number of seconds above 0");
            }
        }
        Ok(())
    }
}

#[test]
fn a_plan_is_checked_with_its_hosts() {
    let check = |text: &str| {
        let plan: Plan = toml::from_str(text).unwrap();
        let hosts = Hosts::new(plan.servers, plan.clients);
        plan.check(&hosts).map_err(|error| error.to_string())
    };
    let step = "servers = 1\nlink = '400mbit'\n[[step]]\non = 's1'\ncommand = 'x'\n";
    assert_eq!(check(step), Ok(()));
    for (more, says) in [
        ("on = 'clients'", "no clients"),
        ("on = 's2'", "no host's name"),
        ("on = 's1'\nready = 'r'\nport = 1", "not both"),
        ("on = 's1'\nready = ''", "says nothing"),
        ("on = 's1'\ntimeout = 0", "above 0"),
    ] {
        let said = check(&format!("servers = 1\n[[step]]\ncommand = 'x'\n{more}")).unwrap_err();
        assert!(said.contains(says), "{said}");
    }
    assert!(toml::from_str::<Plan>("server = 1").is_err());
}

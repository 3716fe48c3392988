//! A command that asks a server something and leaves.

use super::Identity;
use crate::exit::{Exit, Outcome, Trouble};
use gupfs_proto::cluster::{Answer, Request};
use gupfs_proto::{ClusterId, Refusal};
use gupfs_rpc::{Hosts, Line, LineOptions, Role};
use std::time::Duration;

/// Connecting, and then the answer, may take so long each.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the server at `address`, as a process of this role; its answer, and its cluster.
pub async fn visit(
    identity: &Identity,
    address: &str,
    role: Role,
    question: Request,
) -> Outcome<(Answer, ClusterId)> {
    let line = Line::open(LineOptions {
        to: address.to_string(),
        whom: "the server".into(),
        net: identity.net.clone(),
        platform: identity.platform.clone(),
        me: identity.myself(role, "command"),
        cluster: None,
        key: identity.key.clone(),
        tls: identity.tls.clone(),
        patience: Some(PATIENCE),
        fence: false,
        hosts: Hosts::none(),
    });
    let met = line.ready(PATIENCE).await.map_err(|error| {
        let exit = match error.is_for_good() {
            true => Exit::Unusable,
            false => Exit::NotRunning,
        };
        Trouble::new(format!("cannot reach '{address}'"))
            .because(&*error)
            .exit(exit)
    })?;
    let answer: Result<Answer, Refusal> = line.peer().call(question).await;
    let answer =
        answer.map_err(|refusal| Trouble::new(format!("'{address}' refused")).because(&refusal))?;
    Ok((answer, met.cluster))
}

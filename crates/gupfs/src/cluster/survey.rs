//! Object servers elsewhere are heard before a start that accepts a loss: what is lost is told, and numbers begin above theirs.

use super::{Identity, ListFile, Listening, capacity, listen, open_files};
use crate::exit::{OrTrouble, Outcome};
use crate::node::say;
use gupfs_mds::{Survey, Surveyed};
use gupfs_platform::Platform;
use gupfs_proto::{ClusterId, OstId};
use gupfs_rpc::{Hosts, Myself, Unattended};
use gupfs_store::kv::Kv;
use std::sync::Arc;
use std::time::Duration;

/// How long the address may take to be free again after the survey.
const FREE_AGAIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Who takes the survey, and where.
pub struct Surveying<'a> {
    pub identity: &'a Identity,
    pub me: Myself,
    pub cluster: ClusterId,
    /// Clients that come meanwhile are known, and told to wait.
    pub keys: Arc<ListFile>,
    /// Targets of this process.
    pub here: &'a [OstId],
    pub json: bool,
}

/// Listens until all known targets elsewhere were heard, or for a while; returns what they said, and the address, free again.
pub async fn survey(
    listening: Listening,
    kv: &Kv,
    by: Surveying<'_>,
    platform: &Platform,
) -> Outcome<(Vec<Surveyed>, Listening)> {
    let unreadable = || "the metadata store cannot be read".into();
    let survey = Survey::new(kv, by.cluster, platform.clock.clone()).or_trouble(unreadable)?;
    if !survey.expects(by.here) {
        return Ok((Vec::new(), listening));
    }
    say(
        by.json,
        "waiting",
        "a loss may be accepted: all OSTs are heard first",
    );
    let address = listening.address();
    let hosts = Hosts::none().with(survey.clone());
    let server = listening.open(
        by.identity,
        by.me,
        by.cluster,
        by.keys,
        (hosts, Arc::new(Unattended)),
        capacity(open_files()),
    );
    let heard = survey.heard(by.here).await;
    drop(server);
    let begun = platform.clock.boot();
    loop {
        match listen(by.identity, &address).await {
            Ok(listening) => return Ok((heard, listening)),
            Err(trouble) if platform.clock.boot().since(begun) >= FREE_AGAIN => {
                return Err(trouble);
            }
            Err(_) => platform.clock.sleep(LOOK_AGAIN).await,
        }
    }
}

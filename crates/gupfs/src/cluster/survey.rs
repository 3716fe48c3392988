//! Object servers elsewhere are heard before a start that accepts a loss: what is lost is told, and numbers begin above theirs.

use super::{BoundListener, KeyListFile, ProcessIdentity, capacity, listen, open_files};
use crate::events::print_event;
use crate::exit::{CliResult, OrCliError};
use gupfs_mds::{SurveyedTarget, TargetSurvey};
use gupfs_platform::Platform;
use gupfs_proto::{ClusterId, OstId};
use gupfs_rpc::{Handlers, LocalIdentity, NoObserver};
use gupfs_store::kv::Kv;
use std::sync::Arc;
use std::time::Duration;

/// How long the address may take to be free again after the survey.
const FREE_AGAIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Who takes the survey, and where.
pub struct SurveyContext<'a> {
    pub identity: &'a ProcessIdentity,
    pub me: LocalIdentity,
    pub cluster: ClusterId,
    /// Clients that come meanwhile are known, and told to wait.
    pub keys: Arc<KeyListFile>,
    /// Targets of this process.
    pub here: &'a [OstId],
    pub json: bool,
}

/// Listens until all known targets elsewhere were heard, or for a while; returns what they said, and the address, free again.
pub async fn survey(
    listening: BoundListener,
    kv: &Kv,
    by: SurveyContext<'_>,
    platform: &Platform,
) -> CliResult<(Vec<SurveyedTarget>, BoundListener)> {
    let unreadable = || "the metadata store cannot be read".into();
    let survey =
        TargetSurvey::new(kv, by.cluster, platform.clock.clone()).or_cli_error(unreadable)?;
    if !survey.expects(by.here) {
        return Ok((Vec::new(), listening));
    }
    print_event(
        by.json,
        "waiting",
        "a loss may be accepted: all OSTs are heard first",
    );
    let address = listening.address();
    let hosts = Handlers::none().with_service(survey.clone());
    let server = listening.open(
        by.identity,
        by.me,
        by.cluster,
        by.keys,
        (hosts, Arc::new(NoObserver)),
        capacity(open_files()),
    );
    let heard = survey.wait_for_reports(by.here).await;
    drop(server);
    let begun = platform.clock.boot();
    loop {
        match listen(by.identity, &address).await {
            Ok(listening) => return Ok((heard, listening)),
            Err(error) if platform.clock.boot().since(begun) >= FREE_AGAIN => {
                return Err(error);
            }
            Err(_) => platform.clock.sleep(LOOK_AGAIN).await,
        }
    }
}

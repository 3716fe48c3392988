//! The survey of targets before a start that accepts a loss: the metadata server collects the reports of all object servers, so that it
//! can tell what is lost and assigns no number that a target has seen.

use super::{BoundListener, KeyListFile, capacity, listen, open_files};
use crate::events::print_event;
use crate::exit::{CliResult, OrCliError};
use gupfs_mds::{SurveyedTarget, TargetSurvey};
use gupfs_platform::Platform;
use gupfs_proto::{ClusterId, OstId};
use gupfs_rpc::{Handlers, LocalIdentity, NoObserver, ProcessIdentity};
use gupfs_store::kv::Kv;
use std::sync::Arc;
use std::time::Duration;

/// How long the address may stay in use after the survey's server has closed.
const REBIND_TIMEOUT: Duration = Duration::from_secs(5);
const REBIND_PAUSE: Duration = Duration::from_millis(20);

/// The parameters of a survey.
pub struct SurveyContext<'a> {
    pub identity: &'a ProcessIdentity,
    pub local: LocalIdentity,
    pub cluster: ClusterId,
    /// The server tells clients with these keys to wait.
    pub keys: Arc<KeyListFile>,
    /// Targets of this process.
    pub local_targets: &'a [OstId],
    pub json: bool,
}

/// Listens until all known targets of object servers have reported, or a timeout. Returns the reports and the address, bound again.
///
/// # Errors
/// If the metadata store cannot be read, or the address cannot be bound again.
pub async fn survey(
    listener: BoundListener,
    kv: &Kv,
    context: SurveyContext<'_>,
    platform: &Platform,
) -> CliResult<(Vec<SurveyedTarget>, BoundListener)> {
    let unreadable = || "cannot read the metadata store".into();
    let survey =
        TargetSurvey::new(kv, context.cluster, platform.clock.clone()).or_cli_error(unreadable)?;
    if !survey.expects(context.local_targets) {
        return Ok((Vec::new(), listener));
    }
    print_event(
        context.json,
        "waiting",
        "--accept-loss: waiting for the reports of all OSTs",
    );
    let address = listener.address();
    let handlers = Handlers::none().with_service(survey.clone());
    let server = listener.serve(
        context.identity,
        context.local,
        context.cluster,
        context.keys,
        (handlers, Arc::new(NoObserver)),
        capacity(open_files()),
    );
    let reports = survey.wait_for_reports(context.local_targets).await;
    drop(server);
    let start = platform.clock.boot();
    loop {
        match listen(context.identity, &address).await {
            Ok(listener) => return Ok((reports, listener)),
            Err(error) if platform.clock.boot().since(start) >= REBIND_TIMEOUT => {
                return Err(error);
            }
            Err(_) => platform.clock.sleep(REBIND_PAUSE).await,
        }
    }
}

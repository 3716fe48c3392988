//! The parts that handle requests.

use super::MdsPartsInput;
use super::driving::{DriverParts, PendingParts};
use super::lower::LowerParts;
use crate::access_check::AccessCheck;
use crate::capability_replies::CapabilityReplies;
use crate::client_operation::ClientOperations;
use crate::in_flight::InFlightRequests;
use crate::replay::{Replay, ReplayParts};
use crate::request::RequestHandler;
use crate::session_end::{SessionEnd, SessionEndParts};
use gupfs_accounting::JobTable;
use std::sync::Arc;

pub struct RequestParts {
    pub session_end: Arc<SessionEnd>,
    pub replay: Arc<Replay>,
    pub in_flight: Arc<InFlightRequests>,
    pub requests: RequestHandler,
}

impl RequestParts {
    pub fn new(
        input: &MdsPartsInput,
        lower: &LowerParts,
        pending: &PendingParts,
        driving: &DriverParts,
    ) -> RequestParts {
        let session_end = Arc::new(session_end(input, lower, pending, driving));
        let access = Arc::new(AccessCheck::new(lower.store.clone(), input.issuer.clone()));
        let replay = Arc::new(Replay::new(ReplayParts {
            store: lower.store.clone(),
            grace: lower.grace.clone(),
            callbacks: lower.callbacks.clone(),
            registry: lower.registry.clone(),
            access: access.clone(),
            locks: lower.locks.clone(),
            operations: driving.operations.clone(),
            truncates: driving.truncates.clone(),
            session_end: session_end.clone(),
            stats: lower.stats.clone(),
        }));
        let in_flight = Arc::new(InFlightRequests::new(lower.serving.clone()));
        let capability_replies = Arc::new(CapabilityReplies::new(
            lower.store.clone(),
            lower.registry.clone(),
            access.clone(),
            input.issuer.clone(),
        ));
        let operations = ClientOperations {
            store: lower.store.clone(),
            driver: driving.operations.clone(),
            waits: lower.waits.clone(),
            targets: input.targets.clone(),
            placement: lower.placement.clone(),
            truncates: driving.truncates.clone(),
            pending_truncates: pending.truncates.clone(),
            capability_replies: capability_replies.clone(),
            session_end: session_end.clone(),
            unfinished: pending.unfinished.clone(),
        };
        let requests = RequestHandler {
            store: lower.store.clone(),
            serving: lower.serving.clone(),
            in_flight: in_flight.clone(),
            stats: lower.stats.clone(),
            targets: input.targets.clone(),
            registry: lower.registry.clone(),
            grace: lower.grace.clone(),
            replay: replay.clone(),
            access,
            locks: lower.locks.clone(),
            leases: lower.leases.clone(),
            operations,
            capability_replies,
            conversions: pending.conversions.clone(),
            owner_epoch: input.owner_epoch,
            jobs: Arc::new(JobTable::new(input.platform.clock.clone())),
            clock: input.platform.clock.clone(),
        };
        RequestParts {
            session_end,
            replay,
            in_flight,
            requests,
        }
    }
}

fn session_end(
    input: &MdsPartsInput,
    lower: &LowerParts,
    pending: &PendingParts,
    driving: &DriverParts,
) -> SessionEnd {
    SessionEnd::new(SessionEndParts {
        store: lower.store.clone(),
        registry: lower.registry.clone(),
        driver: driving.driver.clone(),
        targets: input.targets.clone(),
        recovery: driving.writer_recovery.clone(),
        callbacks: lower.callbacks.clone(),
        locks: lower.locks.clone(),
        grace: lower.grace.clone(),
        unfinished: pending.unfinished.clone(),
        clock: input.platform.clock.clone(),
    })
}

//! The text of a status, for administrators.

use super::Status;
use super::copies::show_copies;
use crate::amount::{show_count, show_size, show_time};
use gupfs_mds::{MdsState, MdsStatus, RecoveryReport};
use gupfs_oss::AuthorizerStatus;
use gupfs_proto::OstId;
use gupfs_proto::cluster::FailureDomain;
use gupfs_proto::rebalance::RebalanceState;
use gupfs_proto::resync::ResyncState;
use gupfs_rpc::{ClientConnectionStatus, RpcServerStatus};
use gupfs_store::object::{OstState, OstStatus};
use std::fmt::Write;
use std::time::Duration;

/// Waiting calls that the text lists; the JSON contains all.
const WAITS_SHOWN: usize = 10;

/// Damaged objects that the text lists for one OST.
const DAMAGE_SHOWN: usize = 10;

/// Connections that the text lists.
const CONNECTIONS_SHOWN: usize = 20;

impl Status {
    /// The text for administrators. Writing to a String cannot fail.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let uptime = show_time(Duration::from_secs(self.uptime_seconds));
        let _ = writeln!(
            out,
            "{} is served by process {} for {uptime}",
            self.dir, self.pid
        );
        if let Some(mount) = &self.mount {
            let _ = writeln!(
                out,
                "mount     {} · {} requests over {}, {} under way · {} read, {} written",
                mount.at.display(),
                show_count(mount.requests),
                mount.over,
                mount.under_way,
                show_size(mount.bytes_read),
                show_size(mount.bytes_written)
            );
            if mount.late > 0 {
                let _ = writeln!(
                    out,
                    "          {} calls continue although their programs got an error or were killed; later calls on the same file or directory wait for them",
                    show_count(mount.late)
                );
            }
        }
        if let Some(client) = &self.client {
            let _ = writeln!(
                out,
                "client    session {} · {} open files, {} write leases · {} inodes known to the kernel",
                client.session,
                show_count(client.open_files as u64),
                client.leased_inodes,
                show_count(client.known_inodes as u64)
            );
            client_leases_text(&mut out, client);
        }
        for connection in &self.client_connections {
            client_connection_text(&mut out, connection);
        }
        for line in self.copies.iter().flat_map(show_copies) {
            let _ = writeln!(out, "copy      {line}");
        }
        if let Some(error) = &self.etcd_error {
            let _ = writeln!(out, "etcd      cannot be used by this process now: {error}");
        }
        if let Some(mds) = &self.mds {
            metadata(&mut out, mds);
            if !mds.domains.is_empty() {
                let _ = writeln!(out, "domains   {}", show_domains(&mds.domains));
            }
            for target in mds
                .targets
                .iter()
                .filter(|target| !self.is_local(target.ost) || target.lost_since.is_some())
            {
                remote_ost_text(&mut out, target);
            }
        }
        let former = self.mds.iter().flat_map(|mds| &mds.targets);
        let former: Vec<OstId> = former
            .filter(|target| target.lost_since.is_some())
            .map(|target| target.ost)
            .collect();
        for target in &self.osts {
            if !former.contains(&target.ost) {
                ost(&mut out, target);
            }
        }
        if let Some(authorizer) = &self.authorizer {
            authorizer_text(&mut out, authorizer);
        }
        if let Some(server) = &self.server {
            server_text(&mut out, server);
        }
        self.waits(&mut out);
        out
    }

    fn is_local(&self, ost: OstId) -> bool {
        self.osts.iter().any(|target| target.ost == ost)
    }

    fn waits(&self, out: &mut String) {
        let mds = self.mds.iter().flat_map(|mds| &mds.waits).map(|wait| {
            let text = format!("{} waits for {}", wait.op, wait.waits_for);
            (wait.millis, text)
        });
        let waiting = self.client.iter().flat_map(|client| &client.pending_calls);
        let client = waiting.map(|wait| {
            let about = wait
                .ino
                .as_ref()
                .map_or(String::new(), |ino| format!(" (inode {ino})"));
            (
                wait.for_ms,
                format!("{} waits for {}{about}", wait.operation, wait.server),
            )
        });
        let mut waits: Vec<(u64, String)> = mds.chain(client).collect();
        if waits.is_empty() {
            let _ = writeln!(out, "waiting   no calls");
            return;
        }
        waits.sort_by(|a, b| b.cmp(a));
        let _ = writeln!(out, "waiting   {} calls", waits.len());
        for (millis, text) in waits.iter().take(WAITS_SHOWN) {
            let time = show_time(Duration::from_millis(*millis));
            let _ = writeln!(out, "          {time:>8}  {text}");
        }
    }
}

/// "rack1 (ost0, ost2) · host 10.0.0.3 (ost1)".
pub fn show_domains(domains: &[FailureDomain]) -> String {
    let shown = domains.iter().map(|domain| {
        let osts: Vec<String> = (domain.osts.iter())
            .map(|ost| format!("ost{ost}"))
            .collect();
        format!("{} ({})", domain.name, osts.join(", "))
    });
    match domains.is_empty() {
        true => "none".into(),
        false => shown.collect::<Vec<_>>().join(" · "),
    }
}

/// The space that object servers keep for what the mount sends later.
fn reserved_space_text(out: &mut String, client: &gupfs_client::ClientStatus) {
    let keeping = client.reservations.iter();
    let keeping: Vec<_> = keeping.filter(|target| target.reserved_bytes > 0).collect();
    if keeping.is_empty() {
        return;
    }
    let of = |bytes: fn(&gupfs_client::TargetReservationStatus) -> u64| {
        show_size(keeping.iter().map(|target| bytes(target)).sum())
    };
    let _ = writeln!(
        out,
        "          {} reserved at {} OSTs for bytes that are sent later; {} charged",
        of(|target| target.reserved_bytes),
        keeping.len(),
        of(|target| target.charged_bytes)
    );
}

/// Nothing where the server grants no leases on metadata.
fn client_leases_text(out: &mut String, client: &gupfs_client::ClientStatus) {
    if !client.leases_accepted {
        return;
    }
    if client.concurrently_leased_inodes > 0 {
        let _ = writeln!(
            out,
            "          {} files are written here and by other clients at the same time",
            show_count(client.concurrently_leased_inodes as u64)
        );
    }
    if client.unsent_bytes > 0 {
        let _ = writeln!(
            out,
            "          {} written and not sent to object servers yet",
            show_size(client.unsent_bytes as u64)
        );
    }
    reserved_space_text(out, client);
    let counts = &client.counts;
    let _ = writeln!(
        out,
        "          {} leased values · {} inodes with attributes, {} files with pages in the kernel · answered {} operations without a request, {} with one · {} revocations",
        show_count(client.leased_values as u64),
        show_count(client.kernel_attributes as u64),
        show_count(client.kernel_pages as u64),
        show_count(counts.lease_hits),
        show_count(counts.lease_misses),
        show_count(counts.lease_revocations)
    );
}

fn metadata(out: &mut String, mds: &MdsStatus) {
    let state = match &mds.state {
        MdsState::Serving => "serving".to_string(),
        MdsState::Stopping => "stopping".to_string(),
        MdsState::Failed(why) => format!("FAILED: {why}; start the server again"),
    };
    let _ = writeln!(
        out,
        "metadata  {state} · {} inodes · {} sessions · {} operations under way",
        mds.inodes.map_or("unknown".into(), show_count),
        mds.sessions.len(),
        mds.under_way
    );
    let _ = writeln!(
        out,
        "log       change {} made, {} committed, {} durable",
        mds.staged, mds.committed, mds.durable
    );
    if !mds.growth_allowed {
        let _ = writeln!(
            out,
            "          the metadata disk is FULL up to its reserve: only removals are possible"
        );
    }
    let purge = &mds.purge;
    let _ = writeln!(
        out,
        "purge     {} removed files pending · {} done since the start, {} objects",
        mds.purging.map_or("unknown".into(), show_count),
        show_count(purge.files_done),
        show_count(purge.objects_removed)
    );
    if !mds.missing.is_empty() {
        let named = mds.missing.iter().map(|session| {
            let client = mds
                .sessions
                .get(session)
                .map_or("ended", |info| &info.client);
            format!("{session} ({client})")
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            out,
            "starting  no request is served until these sessions have reconnected or expired: {named}"
        );
    }
    background_tasks(out, mds);
    let _ = writeln!(out, "start     {}", recovery(&mds.recovery));
}

fn background_tasks(out: &mut String, mds: &MdsStatus) {
    let unfinished = &mds.unfinished;
    if unfinished.cuts + unfinished.sessions > 0 {
        let _ = writeln!(
            out,
            "pending   {} truncates, {} cleanups of sessions",
            unfinished.cuts, unfinished.sessions
        );
    }
    let (sweep, confirm) = (&mds.sweep, &mds.confirm);
    if sweep.left > 0 {
        let _ = writeln!(
            out,
            "sweep     {} OSTs are still to be searched for objects without a file · {} removed, {} quarantined",
            sweep.left,
            show_count(sweep.objects_removed),
            show_count(sweep.objects_set_aside)
        );
    }
    if confirm.files_left > 0 {
        let _ = writeln!(
            out,
            "confirm   {} closed files are still to be confirmed",
            show_count(confirm.files_left)
        );
    }
    let resync = &mds.resync;
    if resync.is_expected || resync.is_paused || resync.files_left > 0 {
        let _ = writeln!(out, "resync    {}", show_resync(resync));
    }
    scrub_text(out, mds);
    replacement_text(out, mds);
    drain_text(out, mds);
    rebalance_text(out, mds);
    conversion_text(out, mds);
    let failures = [
        &mds.purge.last_error,
        &unfinished.last_error,
        &sweep.last_error,
        &confirm.last_error,
        &resync.last_error,
        &mds.replacement.last_error,
    ];
    for error in failures.into_iter().flatten() {
        let _ = writeln!(out, "          last error: {error}");
    }
}

/// What scrubs have found, and the one that is under way.
fn scrub_text(out: &mut String, mds: &MdsStatus) {
    let scrub = &mds.scrub;
    let found_nothing = scrub.blocks_repaired + scrub.members_renewed + scrub.damaged == 0;
    if !scrub.is_scrubbing && scrub.passes == 0 && found_nothing {
        return;
    }
    let _ = writeln!(
        out,
        "scrub     {} verified since the start · {} damaged blocks repaired, {} copies made anew, {} objects DAMAGED beyond repair",
        show_size(scrub.bytes_verified),
        show_count(scrub.blocks_repaired),
        show_count(scrub.members_renewed),
        show_count(scrub.damaged)
    );
    if scrub.is_scrubbing {
        let _ = writeln!(
            out,
            "          {} of {} inodes examined",
            show_count(scrub.inodes_examined),
            mds.inodes.map_or("unknown".into(), show_count)
        );
    } else if let Some(at) = scrub.last_pass {
        let _ = writeln!(
            out,
            "          the last `gupfs scrub` ended at {}; {} files could not be verified whole",
            at.format_minute(),
            show_count(scrub.files_left)
        );
    }
    for damaged in scrub.damaged_objects.iter().take(DAMAGE_SHOWN) {
        let _ = writeln!(
            out,
            "          inode {}: object {} on ost{} {}",
            damaged.ino, damaged.object, damaged.ost, damaged.what
        );
    }
}

/// The files whose layout changes.
fn conversion_text(out: &mut String, mds: &MdsStatus) {
    let conversions = &mds.conversions;
    if conversions.waiting == 0 && conversions.converting.is_none() {
        return;
    }
    let _ = writeln!(
        out,
        "convert   {} files wait for another layout · {} converted since the start, {} copied",
        show_count(conversions.waiting + u64::from(conversions.converting.is_some())),
        show_count(conversions.files_converted),
        show_size(conversions.bytes_copied)
    );
}

/// "3 files have copies that lack writes · 120 MiB left to compare, remaining time about 3 s · 4 brought up to date, 1.0 MiB copied of 9.0 MiB compared".
pub fn show_resync(resync: &ResyncState) -> String {
    let mut text = match (resync.files_left, resync.is_expected) {
        (0, true) => {
            "it is due or under way: some files may have copies that lack writes".to_string()
        }
        (0, false) => "all copies of mirrored files are up to date".to_string(),
        (files, _) => format!("{} files have copies that lack writes", show_count(files)),
    };
    if resync.is_paused {
        text += " · PAUSED (`gupfs resync --resume`)";
    } else if let Some(seconds) = resync.seconds_left {
        let (left, time) = (
            show_size(resync.bytes_left),
            show_time(Duration::from_secs(seconds)),
        );
        text += &format!(" · {left} left to compare, remaining time about {time}");
    }
    if let Some(rate) = resync.rate {
        text += &format!(" · copies no more than {}/s", show_size(rate));
    }
    if resync.files_done > 0 || resync.files_left > 0 {
        text += &format!(
            " · {} brought up to date, {} copied of {} compared",
            show_count(resync.files_done),
            show_size(resync.bytes_copied),
            show_size(resync.bytes_compared)
        );
    }
    text
}

/// How far the rebalance is.
fn rebalance_text(out: &mut String, mds: &MdsStatus) {
    let rebalance = &mds.rebalance;
    let Some(since) = rebalance.since else {
        return;
    };
    let shown = show_rebalance(rebalance);
    let _ = writeln!(out, "rebalance since {}: {shown}", since.format_minute());
    if let (true, Some(examined)) = (rebalance.is_going_on(), rebalance.inodes_examined) {
        let _ = writeln!(
            out,
            "          {} of {} inodes examined",
            show_count(examined),
            mds.inodes.map_or("unknown".into(), show_count)
        );
    }
}

/// "1,204 files moved, 31.0 GiB · 12.1 GiB left, about 4 min · use 61 to 74 %".
pub fn show_rebalance(rebalance: &RebalanceState) -> String {
    let mut text = format!(
        "{} files moved, {} of {} copied",
        show_count(rebalance.files_moved),
        show_size(rebalance.bytes_moved),
        show_size(rebalance.bytes_copied)
    );
    if let Some(outcome) = &rebalance.outcome {
        text += &format!(" · ended at {}: ", outcome.at.format_minute());
        text += match (&outcome.why, outcome.is_even) {
            (Some(why), _) => why,
            (None, true) => "the use of the OSTs is even",
            (None, false) => "the use of the OSTs is not even",
        };
    } else {
        text += &show_rebalance_under_way(rebalance);
    }
    let ratios = rebalance.volumes.iter();
    let ratios = ratios.map(|volume| volume.used as f64 * 100.0 / volume.total.max(1) as f64);
    let (least, most) = (
        ratios.clone().fold(f64::INFINITY, f64::min),
        ratios.fold(0.0, f64::max),
    );
    if least <= most {
        text += &format!(" · OSTs are filled {least:.1} to {most:.1} %");
    }
    text
}

fn show_rebalance_under_way(rebalance: &RebalanceState) -> String {
    let mut text = String::new();
    if rebalance.is_paused {
        text += " · PAUSED (`gupfs rebalance --resume`)";
    }
    if let Some(left) = rebalance.bytes_left {
        text += &format!(" · {} left to move", show_size(left));
    }
    if let Some(seconds) = rebalance.seconds_left.filter(|_| !rebalance.is_paused) {
        let time = show_time(Duration::from_secs(seconds));
        text += &format!(", remaining time about {time}");
    }
    if let Some(rate) = rebalance.rate {
        text += &format!(" · at no more than {}/s", show_size(rate));
    }
    match (&rebalance.why, rebalance.files_left) {
        (Some(why), 0) => text += &format!(" · waits: {why}"),
        (Some(why), left) => text += &format!(" · {} files left ({why})", show_count(left)),
        (None, _) => {}
    }
    text
}

/// What is done about lost OSTs.
fn replacement_text(out: &mut String, mds: &MdsStatus) {
    if !(mds.targets.iter()).any(|target| target.lost_since.is_some() && !target.is_removed) {
        return;
    }
    let replacement = &mds.replacement;
    let _ = writeln!(
        out,
        "lost      {} files have lost bytes (`gupfs ost lost N` lists them) · {} mirrored files got other OSTs, {} are still without redundancy",
        show_count(replacement.files_lost),
        show_count(replacement.files_replaced),
        show_count(replacement.files_left)
    );
    if replacement.is_walking {
        let _ = writeln!(
            out,
            "          {} of {} inodes examined for members on lost OSTs",
            show_count(replacement.inodes_examined),
            mds.inodes.map_or("unknown".into(), show_count)
        );
    }
}

/// How far the drains of OSTs are.
fn drain_text(out: &mut String, mds: &MdsStatus) {
    let replacement = &mds.replacement;
    for target in &mds.targets {
        let Some(since) = target
            .draining_since
            .filter(|_| target.lost_since.is_none())
        else {
            continue;
        };
        let mut walked = replacement.draining.iter();
        let walked = walked.find(|drain| (drain.ost, drain.since) == (target.ost, since));
        let left = match walked.map(|drain| drain.files_left) {
            Some(0) => format!("it is empty (`gupfs ost remove {}`)", target.ost),
            Some(left) => format!("{} files are left there", show_count(left)),
            None => "not all files are examined yet".into(),
        };
        let pace = match (target.drain_is_paused, target.drain_rate) {
            (true, _) => " · PAUSED (`gupfs ost drain N --resume`)".into(),
            (false, Some(rate)) => format!(" · at no more than {}/s", show_size(rate)),
            (false, None) => String::new(),
        };
        let _ = writeln!(
            out,
            "drain     ost{} since {}: {left} · {} files moved, {}{pace}",
            target.ost,
            since.format_minute(),
            show_count(replacement.files_moved),
            show_size(replacement.bytes_moved)
        );
    }
    if let Some(estimate) = replacement.estimate.filter(|_| replacement.is_walking) {
        let time = estimate
            .seconds_left
            .map_or("not known yet".into(), |seconds| {
                format!("about {}", show_time(Duration::from_secs(seconds)))
            });
        let _ = writeln!(
            out,
            "          {} left to move; remaining time {time}",
            show_size(estimate.bytes_left)
        );
    }
    if replacement.is_walking && !replacement.draining.is_empty() {
        let _ = writeln!(
            out,
            "          {} of {} inodes examined for objects that must move",
            show_count(replacement.inodes_examined),
            mds.inodes.map_or("unknown".into(), show_count)
        );
    }
}

/// A target of an object server on another host, or that is not part of the cluster any more, as the metadata server knows it.
fn remote_ost_text(out: &mut String, target: &gupfs_mds::osts::MdsTargetStatus) {
    let name = format!("ost{}", target.ost);
    let address = target.address.as_deref().unwrap_or("an unknown address");
    let _ = match &target.why_not {
        Some(why) if target.is_removed => writeln!(out, "{name:<9} removed: {why}"),
        Some(why) if target.lost_since.is_some() => writeln!(out, "{name:<9} LOST: {why}"),
        None => writeln!(
            out,
            "{name:<9} at {address} · {} of {} available · {} objects",
            show_size(target.available),
            show_size(target.total),
            show_count(target.objects)
        ),
        Some(why) => writeln!(out, "{name:<9} at {address} · NOT USED: {why}"),
    };
}

fn client_connection_text(out: &mut String, connection: &ClientConnectionStatus) {
    let time = show_time(Duration::from_millis(connection.for_ms));
    let _ = match &connection.last_error {
        None if connection.connected => writeln!(
            out,
            "connected to {} at {} for {time} · {} pending requests",
            connection.peer_name, connection.address, connection.pending_requests
        ),
        why => writeln!(
            out,
            "server    {} at {} NOT CONNECTED for {time}: {} · {} pending requests",
            connection.peer_name,
            connection.address,
            why.as_deref().unwrap_or("connecting"),
            connection.pending_requests
        ),
    };
}

fn server_text(out: &mut String, server: &RpcServerStatus) {
    let _ = writeln!(
        out,
        "listening at {} · {} connections, {} unauthenticated · {} requests in progress, {} of payload",
        server.address,
        server.connections.len(),
        server.unauthenticated,
        show_count(server.requests as u64),
        show_size(server.payload as u64)
    );
    for connection in server.connections.iter().take(CONNECTIONS_SHOWN) {
        let time = show_time(Duration::from_millis(connection.for_ms));
        let _ = writeln!(
            out,
            "          {} {} from {}, connected for {time}, {} requests",
            connection.role, connection.name, connection.address, connection.requests
        );
    }
    if let Some(last) = &server.last_rejected {
        let _ = writeln!(
            out,
            "          {} connections were rejected; the last: {last}",
            show_count(server.rejected)
        );
    }
    if let Some(last) = &server.last_protocol_error {
        let _ = writeln!(
            out,
            "          {} connections sent an invalid message; the last: {last}",
            show_count(server.protocol_errors)
        );
    }
}

fn authorizer_text(out: &mut String, authorizer: &AuthorizerStatus) {
    let _ = writeln!(
        out,
        "rights    {} sessions known · {} capabilities verified · {} requests refused, {} with an expired capability",
        authorizer.sessions,
        show_count(authorizer.verified),
        show_count(authorizer.refused()),
        show_count(authorizer.expired)
    );
    if let Some(last) = &authorizer.last {
        let _ = writeln!(out, "          REFUSED, the last: {last}");
    }
}

fn ost(out: &mut String, target: &OstStatus) {
    let name = format!("ost{}", target.ost);
    match &target.state {
        OstState::Down(why) => {
            let _ = writeln!(out, "{name:<9} DOWN: {why}");
        }
        OstState::Serving => {
            let served = &target.served;
            let _ = writeln!(
                out,
                "{name:<9} serving · {} of {} available · {} objects · {} read, {} written · {} under way",
                show_size(target.available),
                show_size(target.total),
                show_count(target.objects),
                show_size(served.bytes_read),
                show_size(served.bytes_written),
                served.under_way
            );
        }
    }
    if target.reserved_bytes > 0 {
        let _ = writeln!(
            out,
            "          {} of it reserved for bytes that {} sessions send later",
            show_size(target.reserved_bytes),
            show_count(target.reserving_sessions as u64)
        );
    }
    if target.lost_found.objects > 0 {
        let _ = writeln!(
            out,
            "          {} quarantined objects in lost+found, {}; each is removed 30 days after its quarantine",
            show_count(target.lost_found.objects),
            show_size(target.lost_found.bytes)
        );
    }
    if !target.damaged.is_empty() {
        let _ = writeln!(
            out,
            "          {} DAMAGED objects, found {} times:",
            target.damaged.len(),
            target.damage_met
        );
        for (object, what) in target.damaged.iter().take(DAMAGE_SHOWN) {
            let _ = writeln!(out, "          object {object} {what}");
        }
    }
}

fn recovery(report: &RecoveryReport) -> String {
    let took = show_time(Duration::from_millis(report.millis));
    if report.formatted {
        return "a new store".into();
    }
    let done = [
        (report.dead_sessions, "sessions ended"),
        (report.writers, "files measured at their OSTs"),
        (report.orphans_forgotten, "orphans removed"),
        (report.cuts_resumed, "truncates completed"),
        (
            report.sessions_left + report.cuts_left,
            "postponed because an OST is down",
        ),
    ];
    let done: Vec<String> = done
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", show_count(*count)))
        .collect();
    if done.is_empty() {
        return format!("nothing to recover ({took})");
    }
    format!("recovered in {took}: {}", done.join(", "))
}

//! Events of a process's life (ready, stopping, stopped, …), printed on standard output for people and scripts, and reported to the service
//! manager that has started the process, if one did (sd_notify(3)).

use gupfs_platform::Clock;
use sd_notify::NotifyState;

/// Prints one event: as a JSON object, or as a sentence.
pub fn print_event(json: bool, event: &str, text: &str) {
    if json {
        println!("{}", serde_json::json!({ "event": event, "text": text }));
    } else {
        println!("gupfs: {text}");
    }
    // One line is one assignment.
    let text = text.replace(['\n', '\r'], " ");
    let mut states = vec![NotifyState::Status(&text)];
    states.extend(match event {
        // A copy of the metadata is ready when it keeps the owner's records.
        "ready" | "copy" => Some(NotifyState::Ready),
        "stopping" => Some(NotifyState::Stopping),
        _ => None,
    });
    tell_service_manager(&states);
}

/// A daemon that its service manager does not hear goes on.
fn tell_service_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager does not take a notification");
    }
}

/// Tells the service manager again and again that this process's tasks run, if the unit has `WatchdogSec=`.
pub async fn feed_service_watchdog(clock: Clock) {
    let Some(term) = sd_notify::watchdog_enabled() else {
        return;
    };
    loop {
        tell_service_manager(&[NotifyState::Watchdog]);
        clock.sleep(term / 3).await;
    }
}

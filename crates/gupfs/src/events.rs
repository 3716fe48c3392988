//! Events of a process's life (ready, stopping, stopped, …), printed on standard output for people and scripts.

/// Prints one event: as a JSON object, or as a sentence.
pub fn print_event(json: bool, event: &str, text: &str) {
    if json {
        println!("{}", serde_json::json!({ "event": event, "text": text }));
    } else {
        println!("gupfs: {text}");
    }
}

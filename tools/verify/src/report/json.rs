//! The report that a program reads.

use serde_json::{Value, json};

use super::{Run, Verdict};

impl Run {
    pub fn to_json(&self) -> Value {
        json!({
            "verdict": match self.verdict() {
                Verdict::Agreed => "agreed",
                Verdict::Disagreed => "disagreed",
                Verdict::CouldNotRun => "could-not-run",
            },
            "reason": self.cut_short,
            "model": self.model,
            "seed": self.seed,
            "mounts": self.mounts,
            "mount_of_worker": self.mount_of,
            "figures": self.figures,
            "found": self.found.iter().map(|found| json!({
                "what": found.what,
                "about": found.about,
                "round": found.round,
                "session": self.session(found),
                "records": found.records,
                "fails": found.fails,
                "before": found.before,
                "replayed": found.replayed,
            })).collect::<Vec<Value>>(),
            "saved": self.saved,
        })
    }
}

//! The report that a person reads.

use std::fmt;

use super::{FindingKind, ReportedFinding, Run, Verdict};
use crate::check::Model;

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let figures = &self.figures;
        for (mount, name) in self.mounts.iter().enumerate() {
            let letter = super::mount_letter(Some(mount as u16));
            let workers = self.mount_of.iter().filter(|of| usize::from(**of) == mount);
            writeln!(f, "{letter}  {name}, {} processes", workers.count())?;
        }
        writeln!(
            f,
            "{} operations in {:.1} s ({:.0}/s), {} rounds, {} kinds, seed {:#x}",
            figures.operations,
            figures.seconds,
            figures.operations_per_second,
            figures.rounds,
            figures.kinds.len(),
            self.seed
        )?;
        writeln!(
            f,
            "{:.0} % ran beside one that they conflict with; the longest wait was {:.1} ms ({})",
            share(figures.conflicting, figures.operations),
            figures.longest_ms,
            figures.longest
        )?;
        writeln!(
            f,
            "{} looks may have shown anything (docs/verify.md), {} operations without an answer, {} undecided ({:.3} %)",
            figures.permitted,
            figures.unanswered,
            figures.undecided,
            share(figures.undecided, figures.operations)
        )?;
        if !figures.unsupported.is_empty() {
            let kinds: Vec<&str> = figures.unsupported.keys().map(String::as_str).collect();
            writeln!(f, "the file system does not know: {}", kinds.join(", "))?;
        }
        if figures.faults > 0 {
            let (done, failed) = (figures.faults, figures.faults_failed);
            writeln!(
                f,
                "{done} faults injected, {failed} of them failed themselves"
            )?;
        }
        if figures.clock_uncertain_us > 0.0 {
            let unsure = figures.clock_uncertain_us;
            writeln!(f, "clocks of other hosts are known within {unsure:.0} µs")?;
        }
        for found in &self.found {
            writeln!(f)?;
            self.found(f, found)?;
        }
        for path in &self.saved {
            writeln!(f, "saved: {}", path.display())?;
        }
        writeln!(f)?;
        let contract = match self.model {
            Model::Posix => "POSIX",
            Model::CloseToOpen => "close-to-open",
        };
        match (self.verdict(), &self.cut_short) {
            (Verdict::Agreed, _) => writeln!(f, "AGREED: {contract} holds in all that was seen"),
            (Verdict::Disagreed, _) => writeln!(f, "DISAGREED: {contract} does not hold"),
            (_, why) => writeln!(f, "COULD NOT RUN: {}", why.as_deref().unwrap_or("")),
        }
    }
}

fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl Run {
    fn found(&self, f: &mut fmt::Formatter, found: &ReportedFinding) -> fmt::Result {
        match found.what {
            FindingKind::Disagreement => writeln!(f, "DISAGREEMENT about {}:", found.about)?,
            FindingKind::Hang => writeln!(f, "HANG: {}", found.about)?,
        }
        for line in self.session(found) {
            writeln!(f, "   {line}")?;
        }
        if let Some(replayed) = found.replayed {
            let what = match replayed.alone {
                true => "these operations",
                false => "these operations and those before them on the same thing",
            };
            writeln!(
                f,
                "   Done again, {what} failed {} of {} times.",
                replayed.failed, replayed.of
            )?;
        }
        Ok(())
    }

    /// The records as a shell session: times in ms since the first, mount and worker, what was asked, what came back.
    pub fn session(&self, found: &ReportedFinding) -> Vec<String> {
        let Some(first) = found.records.iter().map(|record| record.start).min() else {
            return Vec::new();
        };
        let ms = |nanos: u64| nanos.saturating_sub(first) as f64 / 1e6;
        let mut lines = Vec::new();
        if !found.before.is_empty() {
            lines.push(format!("before: {}", found.before));
        }
        for (index, record) in found.records.iter().enumerate() {
            let until = record
                .end
                .map_or("          …".into(), |end| format!("{:>9.3}", ms(end)));
            let mark = match index == found.fails {
                true => "   ← no order of these explains this",
                false => "",
            };
            lines.push(format!(
                "{:>9.3} –{until} ms  {}.w{}$ {} #{}   → {}{mark}",
                ms(record.start),
                self.mount_name(record.worker),
                record.worker,
                record.asked(),
                record.number,
                record.answered(),
            ));
        }
        lines
    }
}

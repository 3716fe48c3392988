//! The copies of the metadata, as text.

use crate::amount::show_count;
use gupfs_proto::copy::{CopiesReport, CopyReport, CopyStanding};

/// One line for each copy, and what stands in the owner's way.
pub fn show_copies(report: &CopiesReport) -> Vec<String> {
    let mut lines: Vec<String> = report
        .members
        .iter()
        .map(|copy| line(copy, report))
        .collect();
    if let Some(error) = &report.arbiter_error {
        lines.push(format!(
            "etcd does not answer: the owner serves as long as all copies that count answer it, and no copy can be added or left out ({error})"
        ));
    }
    if !report.is_held {
        lines.push("no metadata server owns the metadata now".into());
    }
    lines
}

fn line(copy: &CopyReport, report: &CopiesReport) -> String {
    let standing = match (copy.is_owner && report.is_held, copy.standing) {
        (true, _) => format!("owner {}", report.epoch),
        (false, CopyStanding::Counting) => "up to date".into(),
        (false, CopyStanding::Joining) => match copy.snapshot_parts {
            Some(parts) => format!("gets all records: {} parts so far", show_count(parts)),
            None => "is brought up to date".into(),
        },
        (false, CopyStanding::Struck) => "left out".into(),
        (false, CopyStanding::LeftOut) => "left out until its process is started again".into(),
    };
    let behind = match copy.behind {
        Some(behind) if behind > 0 => format!(" · {} changes behind", show_count(behind)),
        _ => String::new(),
    };
    let why = match &copy.struck {
        Some(why) if copy.standing != CopyStanding::Counting => {
            format!(" · left out {} times, last because {why}", copy.strikes)
        }
        _ => String::new(),
    };
    let own = match copy.copy == report.reporter {
        true => " · this one",
        false => "",
    };
    format!("{} · {standing}{behind}{why}{own}", copy.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use gupfs_proto::{CopyId, OwnerEpoch};

    #[test]
    fn copies_are_shown_with_what_they_lack() {
        let copy = |number: u64, standing| CopyReport {
            copy: CopyId(number),
            address: format!("node{number}:7700"),
            is_owner: number == 1,
            standing,
            behind: Some(0),
            unsynced: Some(0),
            snapshot_parts: None,
            struck: None,
            strikes: 0,
        };
        let mut report = CopiesReport {
            reporter: CopyId(1),
            epoch: OwnerEpoch(4),
            is_held: true,
            arbiter_error: None,
            members: vec![
                copy(1, CopyStanding::Counting),
                copy(2, CopyStanding::Counting),
                CopyReport {
                    behind: Some(1_200),
                    struck: Some("it did not answer".into()),
                    strikes: 2,
                    ..copy(3, CopyStanding::Struck)
                },
            ],
        };
        expect![[r#"
            node1:7700 · owner 4 · this one
            node2:7700 · up to date
            node3:7700 · left out · 1,200 changes behind · left out 2 times, last because it did not answer"#]]
        .assert_eq(&show_copies(&report).join("\n"));
        report.is_held = false;
        report.arbiter_error = Some("timed out".into());
        expect![[r#"
            node1:7700 · up to date · this one
            etcd does not answer: the owner serves as long as all copies that count answer it, and no copy can be added or left out (timed out)
            no metadata server owns the metadata now"#]]
        .assert_eq(&{
            let lines = show_copies(&report);
            [&lines[0], &lines[3], &lines[4]].map(String::as_str).join("\n")
        });
    }
}

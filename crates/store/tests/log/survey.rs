//! A survey reads what is left of a damaged log.

use super::fixture::{disk, open, options, simulate, some_log};
use gupfs_platform::fake::{FakeDisk, FakePlatform};
use gupfs_proto::Seq;
use gupfs_store::log::{LogSurvey, LogSurveyFindings};

/// The seqs of the batches that a survey returns, and its findings.
async fn survey(disk: &FakeDisk, after: u64) -> (Vec<u64>, LogSurveyFindings) {
    let mut survey = LogSurvey::begin(&disk.disk(), options().store, Seq(after))
        .await
        .unwrap();
    let mut seqs = Vec::new();
    while let Some(record) = survey.next().await.unwrap() {
        seqs.push(record.seq.0);
    }
    (seqs, survey.findings().clone())
}

#[test]
fn a_survey_returns_the_batches_before_the_first_missing_one() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let starts = some_log(&disk, &platform, 10).await;
        disk.flip_bit("0000000000000001.log", starts[3] + 50, 3);
        let (seqs, found) = survey(&disk, 0).await;
        assert_eq!(seqs, [1, 2, 3]);
        assert_eq!(found.lost(), Some((Seq(4), Seq(10))));
        assert_eq!((found.first, found.unproven), (Some(Seq(1)), 6));
        assert_eq!(
            found.damage,
            [("0000000000000001.log".to_string(), starts[3])]
        );
        // A caller that has the damaged batch gets all others.
        let (seqs, found) = survey(&disk, 4).await;
        assert_eq!(seqs, [5, 6, 7, 8, 9, 10]);
        assert_eq!(found.lost(), None);
    });
}

#[test]
fn a_survey_of_an_intact_log_returns_all_of_it_and_changes_nothing() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        some_log(&disk, &platform, 300).await;
        let (seqs, found) = survey(&disk, 0).await;
        assert_eq!(seqs, (1..=300).collect::<Vec<_>>());
        assert_eq!((found.proven, found.highest), (Seq(300), Seq(300)));
        assert_eq!((found.lost(), found.damage), (None, vec![]));
        let (_log, recovery, _) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert_eq!(recovery.last, Seq(300));
    });
}

#[test]
fn a_survey_continues_after_a_damaged_header_and_stops_at_a_missing_segment() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        some_log(&disk, &platform, 300).await;
        let second = "0000000000000002.log";
        disk.flip_bit(second, 20, 1);
        assert_eq!(survey(&disk, 0).await.0.len(), 300);
        disk.disk().remove_file(second).await.unwrap();
        let (seqs, found) = survey(&disk, 0).await;
        let last = *seqs.last().unwrap();
        assert!(last < 300, "{last}");
        assert_eq!(found.lost(), Some((Seq(last + 1), Seq(300))));
    });
}

//! Every operation with the longest names, values, ACLs and layouts, on the longest records that are valid. Each makes a batch
//! within the limits of the log.

mod background_ops;
mod client_ops;
mod records;

use gupfs_proto::limits::{BATCH_BYTES, BATCH_BYTES_MAX};
use gupfs_proto::operations::{Execution, OperationKind};
use records::LargestRecords;
use std::collections::BTreeSet;

#[test]
fn the_largest_batch_of_every_operation_fits_the_log() {
    let mut test = LargestRecords::new();
    client_ops::run_on_names(&mut test);
    client_ops::run_on_files(&mut test);
    client_ops::run_on_sessions(&mut test);
    background_ops::run_background_ops(&mut test);
    background_ops::run_repair(&mut test);
    let changing = |kind: &&OperationKind| {
        matches!(kind.execution(), Execution::Change | Execution::OpenSession)
    };
    let requests: BTreeSet<&str> = OperationKind::ALL
        .iter()
        .filter(changing)
        .map(|kind| kind.name())
        .collect();
    for name in &requests {
        assert!(test.sizes.contains_key(name), "no batch of {name}");
    }
    // And the background operations (`BackgroundOp`).
    assert_eq!(test.sizes.len(), requests.len() + 14, "{:#?}", test.sizes);
    for (op_name, bytes) in &test.sizes {
        let bytes = *bytes as u64;
        let most = match *op_name {
            // The last file may be added to an almost full batch.
            "forgotten" => BATCH_BYTES_MAX.get(),
            _ => BATCH_BYTES_MAX.get() - BATCH_BYTES.get(),
        };
        assert!(
            bytes <= most,
            "{op_name}: {bytes}, at most {most}: {:#?}",
            test.sizes
        );
    }
    assert!(
        test.sizes["forgotten"] as u64 >= BATCH_BYTES.get(),
        "a batch was full"
    );
}

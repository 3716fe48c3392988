//! Every operation with the longest names, values, ACLs and layouts, on the longest records that are valid. Each makes a batch
//! within the limits of the log.

mod background_ops;
mod client_ops;
mod records;

use gupfs_proto::limits::{BATCH_BYTES, BATCH_BYTES_MAX};
use gupfs_proto::meta::MetaOp;
use records::LargestRecords;

/// Whether the operation makes a batch of its own: the test must run those that do.
fn makes_batch(op: &MetaOp) -> bool {
    match op {
        MetaOp::Lookup { .. }
        | MetaOp::LookupParent { .. }
        | MetaOp::GetAttr { .. }
        | MetaOp::Access { .. }
        | MetaOp::Readlink { .. }
        | MetaOp::Readdir { .. }
        | MetaOp::GetXattr { .. }
        | MetaOp::ListXattr { .. }
        | MetaOp::StatFs
        | MetaOp::GetDefaultLayout { .. }
        | MetaOp::Sync { .. }
        | MetaOp::Renew
        | MetaOp::Replay { .. }
        | MetaOp::IssueCapability { .. }
        | MetaOp::Lock(_)
        // They make the batches of the operation that they contain, and of `TmpFile`.
        | MetaOp::WithOpenCapability { .. }
        | MetaOp::OpenTmpFile { .. } => false,
        MetaOp::Create { .. }
        | MetaOp::Mkdir { .. }
        | MetaOp::Mknod { .. }
        | MetaOp::Symlink { .. }
        | MetaOp::TmpFile { .. }
        | MetaOp::Link { .. }
        | MetaOp::Unlink { .. }
        | MetaOp::Rmdir { .. }
        | MetaOp::Rename { .. }
        | MetaOp::SetAttr { .. }
        | MetaOp::SetXattr { .. }
        | MetaOp::RemoveXattr { .. }
        | MetaOp::SetDefaultLayout { .. }
        | MetaOp::Open { .. }
        | MetaOp::Truncate { .. }
        | MetaOp::WriteInline { .. }
        | MetaOp::BeginWrite { .. }
        | MetaOp::SpillInline { .. }
        | MetaOp::EndWrite { .. }
        | MetaOp::KillPrivileges { .. }
        | MetaOp::SetFlags { .. }
        | MetaOp::OpenSession { .. }
        | MetaOp::CloseSession
        | MetaOp::Forget { .. } => true,
    }
}

#[test]
fn the_largest_batch_of_every_operation_fits_the_log() {
    let mut test = LargestRecords::new();
    client_ops::run_on_names(&mut test);
    client_ops::run_on_files(&mut test);
    client_ops::run_on_sessions(&mut test);
    background_ops::run_background_ops(&mut test);
    background_ops::run_repair(&mut test);
    // 24 requests (`makes_batch`) and 9 background operations (`BackgroundOp`).
    assert!(!makes_batch(&MetaOp::StatFs) && makes_batch(&MetaOp::CloseSession));
    assert_eq!(test.sizes.len(), 24 + 9, "{:#?}", test.sizes);
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

//! The behaviours of Linux that each deviation of the model breaks.

use gupfs_sim::kernel::Quirk;

/// The behaviours that each quirk breaks; all others hold.
pub const QUIRKS: &[(Quirk, &[&str])] = &[
    (
        Quirk::AttributesNeverExpire,
        &[
            "new attributes drop the pages of a cached file",
            "with a writeback cache growth on the server is not seen",
            "attributes with lifetime zero are requested again",
            "attributes are requested again after their lifetime",
            "attributes of a listing are requested again after their lifetime",
            "attributes of an aborted connection are not served after their lifetime",
            "pages of an aborted connection are not served after their lifetime",
            "a link reply replaces newer attributes",
            "an invalidation drops cached attributes",
            "new attributes drop a cached acl",
            "a getattr reply that an invalidation overtakes is not cached",
            "a cached read ends at a size that an invalidation has made old",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a listing that an invalidation overtakes refreshes no known inode",
            "a setattr reply that an invalidation overtakes is not cached",
        ],
    ),
    (
        Quirk::LinkHasVersion,
        &["a link reply replaces newer attributes"],
    ),
    (
        Quirk::LookupHasVersion,
        &["an invalidation during a lookup is lost"],
    ),
    (
        Quirk::InodeInvalidationIgnored,
        &[
            "a link reply replaces newer attributes",
            "an invalidation drops cached attributes",
            "a getattr reply that an invalidation overtakes is not cached",
            "a cached read ends at a size that an invalidation has made old",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a listing that an invalidation overtakes refreshes no known inode",
            "a setattr reply that an invalidation overtakes is not cached",
        ],
    ),
    (
        Quirk::DentriesSurviveInvalidation,
        &[
            "a forget counts every reply that named the inode",
            "an open file is not forgotten",
            "an invalidated name is looked up again",
            "an invalidation of an unknown name is reported",
            "a negative dentry is cached",
            "a file that is open survives the invalidation of its name",
            "a working directory has no path after its name is invalidated",
            "a name invalidation unmounts a file system mounted there",
        ],
    ),
    (
        Quirk::EntryInvalidationTakesNoLock,
        &[
            "a name invalidation waits for a create in its directory",
            "a name invalidation waits for a lookup in its directory",
            "a name invalidation waits for a listing of its directory",
        ],
    ),
    (
        Quirk::EpochWaitsForDirectory,
        &[
            "inc epoch waits for no lock and expires all names",
            "inc epoch passes a name invalidation that waits",
            "names of a lookup in flight expire with inc epoch",
            "the name of a create in flight expires with inc epoch",
            "the name of a link in flight expires with inc epoch",
            "the name of a mkdir in flight expires with inc epoch",
            "names of a listing in flight survive inc epoch",
        ],
    ),
    (
        Quirk::ListingKeepsRequestEpoch,
        &["names of a listing in flight survive inc epoch"],
    ),
    (
        Quirk::CoveringMountStays,
        &["inc epoch unmounts file systems mounted inside the mount"],
    ),
    (
        Quirk::PagesSurviveAttributes,
        &["new attributes drop the pages of a cached file"],
    ),
    (
        Quirk::PageInvalidationTakesNoLock,
        &[
            "a store after an invalidation reads the page again",
            "a page invalidation waits for the read that fills the page",
            "a page invalidation writes dirty pages first",
        ],
    ),
    (
        Quirk::AttributeInvalidationWaitsForPages,
        &[
            "an attribute invalidation leaves mapped pages",
            "an attribute invalidation waits for no read",
        ],
    ),
    (
        Quirk::CachedReadsCarryOwner,
        &[
            "only a direct read carries a lock owner",
            "splice fills the page cache of a direct file",
        ],
    ),
    (
        Quirk::SpliceBypassesPageCache,
        &[
            "splice of a direct file asks for no attributes",
            "splice reads again after an invalidation",
            "sendfile reads again after an invalidation",
            "splice fills the page cache of a direct file",
        ],
    ),
    (
        Quirk::MappedStoresWriteThrough,
        &[
            "a page invalidation writes dirty pages first",
            "a store into a mapped page sends no request",
        ],
    ),
    (
        Quirk::PagesSurviveWrites,
        &[
            "a direct write drops the pages it covers",
            "pages filled during a direct write are dropped after it",
            "a direct write drops the mapped pages it covers",
        ],
    ),
    (
        Quirk::PagesDropBefore,
        &["pages filled during a direct write are dropped after it"],
    ),
    (
        Quirk::OpensDoNotStopParallelWrites,
        &["a cached open waits for no later direct write"],
    ),
    (
        Quirk::CreateHasVersion,
        &["a create reply replaces newer attributes"],
    ),
    (
        Quirk::NegativeDentriesNotCached,
        &["a negative dentry is cached"],
    ),
    (
        Quirk::DirtyPagesDropped,
        &[
            "a store after an invalidation reads the page again",
            "a page invalidation writes dirty pages first",
            "a direct read writes dirty mapped pages first",
        ],
    ),
    (
        Quirk::DirectWritesSerialized,
        &["direct writes within the file run in parallel"],
    ),
    (
        Quirk::ExtendingWritesParallel,
        &["direct writes that extend the file run one at a time"],
    ),
    (
        Quirk::AppendRevalidatesSize,
        &["the offset of an append may be stale"],
    ),
    (Quirk::FlockUnlockedBeforeRelease, &[]),
    (
        Quirk::FlockReleaseNotReported,
        &["closing a file releases its flock"],
    ),
    (
        Quirk::FlushWithoutOwner,
        &["a close names the owner whose posix locks it releases"],
    ),
    (
        Quirk::WritebackTakesServerSize,
        &["with a writeback cache growth on the server is not seen"],
    ),
    (
        Quirk::PagesDroppedOnAbort,
        &["with explicit inval data pages outlive an aborted connection"],
    ),
    (
        Quirk::NamesNeverExpire,
        &[
            "names are looked up again after their lifetime",
            "absent names are looked up again after their lifetime",
            "names of a listing are looked up again after their lifetime",
            "names of an aborted connection are not served after their lifetime",
            "a create reply replaces newer attributes",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a forget counts every reply that named the inode",
        ],
    ),
    (
        Quirk::NoIncEpoch,
        &[
            "inc epoch waits for no lock and expires all names",
            "inc epoch passes a name invalidation that waits",
            "names of a lookup in flight expire with inc epoch",
            "the name of a create in flight expires with inc epoch",
            "the name of a link in flight expires with inc epoch",
            "the name of a mkdir in flight expires with inc epoch",
            "names of a listing in flight survive inc epoch",
            "a working directory keeps its path through inc epoch",
            "inc epoch keeps attributes and pages",
            "inc epoch unmounts file systems mounted inside the mount",
        ],
    ),
    (
        Quirk::EpochSparesRepliesInFlight,
        &[
            "names of a lookup in flight expire with inc epoch",
            "the name of a create in flight expires with inc epoch",
            "the name of a link in flight expires with inc epoch",
            "the name of a mkdir in flight expires with inc epoch",
        ],
    ),
    (
        Quirk::EpochDropsPages,
        &["inc epoch keeps attributes and pages"],
    ),
    (
        Quirk::InodeInvalidationDropsNames,
        &["an inode invalidation of a directory keeps its names"],
    ),
    (
        Quirk::UnknownInodeAccepted,
        &[
            "an invalidation of an unknown inode is reported",
            "an invalidation during a lookup is lost",
        ],
    ),
    (
        Quirk::UnknownNameAccepted,
        &["an invalidation of an unknown name is reported"],
    ),
    (
        Quirk::RepliesHaveNoVersion,
        &[
            "a getattr reply that an invalidation overtakes is not cached",
            "a cached read ends at a size that an invalidation has made old",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a listing that an invalidation overtakes refreshes no known inode",
            "a setattr reply that an invalidation overtakes is not cached",
        ],
    ),
    (
        Quirk::ListingsNotCached,
        &[
            "names and attributes of a listing are cached",
            "a forget counts every reply that named the inode",
            "names of a listing in flight survive inc epoch",
        ],
    ),
    (
        Quirk::OpensKeepPages,
        &["an open without keep cache drops the pages"],
    ),
    (
        Quirk::OpensDropPages,
        &["an open with keep cache keeps the pages"],
    ),
    (
        Quirk::PagesSurviveInvalidation,
        &[
            "an invalidation drops pages",
            "a read that an invalidation overtakes leaves no page",
            "an invalidation unmaps pages",
            "a store after an invalidation reads the page again",
            "splice reads again after an invalidation",
            "sendfile reads again after an invalidation",
            "a page invalidation waits for the read that fills the page",
            "a page invalidation writes dirty pages first",
        ],
    ),
    (
        Quirk::AttributesDropPages,
        &[
            "new attributes drop the pages of a cached file",
            "new content under the same size and mtime is not noticed",
        ],
    ),
    (
        Quirk::DirectFilesNotMapped,
        &[
            "a file open for direct io can be mapped shared",
            "a direct read writes dirty mapped pages first",
            "a direct write drops the mapped pages it covers",
        ],
    ),
    (
        Quirk::DirectFilesAlwaysMapped,
        &["without direct io allow mmap it cannot be mapped"],
    ),
    (
        Quirk::DirectReadsIgnoreDirtyPages,
        &["a direct read writes dirty mapped pages first"],
    ),
    (
        Quirk::DirectReadsCutAtCachedSize,
        &["a direct read is not cut at the cached size"],
    ),
    (
        Quirk::TruncatingOpensSendSetattr,
        &["an open with o trunc is one request and drops pages and size"],
    ),
    (
        Quirk::MappedLoadsRevalidate,
        &[
            "mapped pages of an aborted connection outlive their lifetime",
            "a mapped load asks for no attributes",
            "an attribute invalidation leaves mapped pages",
        ],
    ),
    (
        Quirk::SpliceRevalidates,
        &[
            "spliced pages of an aborted connection outlive their lifetime",
            "splice asks for no attributes",
            "splice of a direct file asks for no attributes",
        ],
    ),
    (
        Quirk::SetattrRepliesNotCached,
        &["a setattr reply is cached"],
    ),
    (
        Quirk::AclsNotCached,
        &[
            "a cached acl is served without a request",
            "a cached acl outlives the attributes",
        ],
    ),
    (
        Quirk::AclsSurviveInvalidation,
        &["an invalidation drops a cached acl"],
    ),
    (
        Quirk::AclsExpireWithAttributes,
        &["a cached acl outlives the attributes"],
    ),
    (
        Quirk::AclsSurviveAttributes,
        &["new attributes drop a cached acl"],
    ),
    (
        Quirk::MappingsSurviveInvalidation,
        &[
            "an invalidation unmaps pages",
            "a store after an invalidation reads the page again",
            "a direct write drops the mapped pages it covers",
        ],
    ),
    (
        Quirk::InvalidationEmptiesPipes,
        &["a pipe keeps bytes that were spliced before an invalidation"],
    ),
    (
        Quirk::ForgetsCountOneLookup,
        &["a forget counts every reply that named the inode"],
    ),
    (
        Quirk::OpenFilesForgotten,
        &["an open file is not forgotten"],
    ),
    (
        Quirk::WorkingDirectoriesKeepPath,
        &["a working directory has no path after its name is invalidated"],
    ),
    (
        Quirk::WorkingDirectoriesDie,
        &[
            "a working directory has no path after its name is invalidated",
            "a working directory works after its name is invalidated",
        ],
    ),
    (
        Quirk::EpochDropsPaths,
        &[
            "inc epoch passes a name invalidation that waits",
            "a working directory keeps its path through inc epoch",
        ],
    ),
    (
        Quirk::NoDeletionNotice,
        &[
            "a deletion notice of another inode is refused",
            "a deletion notice leaves an open file without links",
            "a deletion notice ends a working directory",
            "a deletion notice unmounts a file system mounted there",
        ],
    ),
    (
        Quirk::DeletionIgnoresInode,
        &["a deletion notice of another inode is refused"],
    ),
    (
        Quirk::DeletionKeepsLinks,
        &["a deletion notice leaves an open file without links"],
    ),
    (
        Quirk::DeletionSparesDirectories,
        &["a deletion notice ends a working directory"],
    ),
    (
        Quirk::DeletionRefusesCovered,
        &["a deletion notice unmounts a file system mounted there"],
    ),
];

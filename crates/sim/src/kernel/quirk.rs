//! Kernels that deviate from Linux in one behaviour each: they show that each probe can fail.

/// A deviation from Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quirk {
    /// Cached attributes never expire.
    AttributesNeverExpire,
    /// The reply to LINK is applied only if no newer attributes are cached.
    LinkHasVersion,
    /// A reply to LOOKUP is dropped if an invalidation has overtaken it.
    LookupHasVersion,
    /// INVAL_INODE does not invalidate attributes.
    InodeInvalidationIgnored,
    /// INVAL_ENTRY does not remove the dentry.
    DentriesSurviveInvalidation,
    /// INVAL_ENTRY does not wait for the directory's lock.
    EntryInvalidationTakesNoLock,
    /// INC_EPOCH waits for the directory's lock.
    EpochWaitsForDirectory,
    /// Dentries of a listing get the epoch at which the listing was requested.
    ListingKeepsRequestEpoch,
    /// A file system that is mounted on an expired dentry stays.
    CoveringMountStays,
    /// Changed attributes drop no pages.
    PagesSurviveAttributes,
    /// Pages are dropped while a READ fills them.
    PageInvalidationTakesNoLock,
    /// INVAL_INODE waits for pages also if it invalidates only attributes.
    AttributeInvalidationWaitsForPages,
    /// Reads that fill the page cache carry a lock owner, as direct reads do.
    CachedReadsCarryOwner,
    /// splice reads a file that is open for direct I/O past the page cache.
    SpliceBypassesPageCache,
    /// Each store through a mapping is written at once.
    MappedStoresWriteThrough,
    /// A direct write drops no pages.
    PagesSurviveWrites,
    /// A direct write drops pages before the write only, not after it.
    PagesDropBefore,
    /// Direct writes still run in parallel while a program opens the file for the page cache.
    OpensDoNotStopParallelWrites,
    /// The reply to CREATE is applied only if no newer attributes are cached.
    CreateHasVersion,
    /// Negative dentries are not cached.
    NegativeDentriesNotCached,
    /// Dirty pages are dropped without being written.
    DirtyPagesDropped,
    /// Direct writes never run in parallel.
    DirectWritesSerialized,
    /// Direct writes that extend the file run in parallel.
    ExtendingWritesParallel,
    /// An append requests the size first.
    AppendRevalidatesSize,
    /// The kernel unlocks a flock before RELEASE. No probe rejects that.
    FlockUnlockedBeforeRelease,
    /// RELEASE does not release a flock.
    FlockReleaseNotReported,
    /// FLUSH carries no lock owner.
    FlushWithoutOwner,
    /// With a write-back cache, too, the kernel takes the size from the server.
    WritebackTakesServerSize,
    /// Pages are dropped when the connection is aborted, whatever INIT negotiated.
    PagesDroppedOnAbort,
    /// Dentries never expire.
    NamesNeverExpire,
    /// INC_EPOCH is not known.
    NoIncEpoch,
    /// Replies in flight during INC_EPOCH count as of the new epoch.
    EpochSparesRepliesInFlight,
    /// INC_EPOCH drops all pages.
    EpochDropsPages,
    /// INVAL_INODE of a directory drops its names.
    InodeInvalidationDropsNames,
    /// INVAL_INODE of an unknown node is no error.
    UnknownInodeAccepted,
    /// INVAL_ENTRY of an unknown name is no error.
    UnknownNameAccepted,
    /// Replies to GETATTR, LOOKUP and READDIRPLUS replace newer attributes.
    RepliesHaveNoVersion,
    /// Attributes and names of a listing are not cached.
    ListingsNotCached,
    /// Opens never drop pages.
    OpensKeepPages,
    /// Opens always drop pages.
    OpensDropPages,
    /// INVAL_INODE drops no pages.
    PagesSurviveInvalidation,
    /// Every reply with attributes drops pages.
    AttributesDropPages,
    /// A file that is open for direct I/O can never be mapped shared.
    DirectFilesNotMapped,
    /// A file that is open for direct I/O can always be mapped shared.
    DirectFilesAlwaysMapped,
    /// A direct read does not write dirty mapped pages first.
    DirectReadsIgnoreDirtyPages,
    /// A direct read ends at the size that is cached.
    DirectReadsCutAtCachedSize,
    /// open(2) with O_TRUNC sends a SETATTR after OPEN.
    TruncatingOpensSendSetattr,
    /// A load from a mapping requests attributes that have expired.
    MappedLoadsRevalidate,
    /// splice requests attributes that have expired.
    SpliceRevalidates,
    /// The attributes of a reply to SETATTR are not cached.
    SetattrRepliesNotCached,
    /// ACLs are not cached.
    AclsNotCached,
    /// INVAL_INODE drops no ACL.
    AclsSurviveInvalidation,
    /// A cached ACL ends with the lifetime of the attributes.
    AclsExpireWithAttributes,
    /// A request for attributes drops no ACL.
    AclsSurviveAttributes,
    /// Pages that are dropped stay mapped.
    MappingsSurviveInvalidation,
    /// INVAL_INODE changes bytes that splice has moved into a pipe.
    InvalidationEmptiesPipes,
    /// A FORGET gives one lookup back.
    ForgetsCountOneLookup,
    /// INVAL_ENTRY of an open file's name forgets the inode.
    OpenFilesForgotten,
    /// INVAL_ENTRY of a working directory's name leaves its path.
    WorkingDirectoriesKeepPath,
    /// INVAL_ENTRY of a working directory's name counts as its removal.
    WorkingDirectoriesDie,
    /// INC_EPOCH removes all dentries.
    EpochDropsPaths,
    /// FUSE_NOTIFY_DELETE is not known.
    NoDeletionNotice,
    /// FUSE_NOTIFY_DELETE does not compare the inode.
    DeletionIgnoresInode,
    /// FUSE_NOTIFY_DELETE leaves the number of links.
    DeletionKeepsLinks,
    /// FUSE_NOTIFY_DELETE leaves a directory usable.
    DeletionSparesDirectories,
    /// FUSE_NOTIFY_DELETE of a name with a file system mounted on it fails.
    DeletionRefusesCovered,
}

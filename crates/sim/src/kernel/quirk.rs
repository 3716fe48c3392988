//! Kernels that do otherwise, each in one thing: so the contract's facts are seen to fail.

/// What a kernel does otherwise than Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quirk {
    /// Once known, attributes are never asked for again.
    AttributesNeverAgain,
    /// The answer to LINK is taken only if nothing newer is known.
    LinkHasVersion,
    /// An answer to LOOKUP is not taken when an invalidation has passed it.
    LookupHasVersion,
    /// INVAL_INODE leaves attributes alone.
    InvalidationIgnored,
    /// Names stay after INVAL_ENTRY.
    NamesSurvive,
    /// INVAL_ENTRY does not wait for the directory's lock.
    NamesWithoutLock,
    /// INC_EPOCH waits for creates.
    EpochWaits,
    /// Names that a listing brings are as old as its request.
    ListingHasEpoch,
    /// What is mounted on an old name stays.
    CoverStays,
    /// Attributes that changed leave pages alone.
    PagesSurviveAttributes,
    /// Pages are dropped while they are read.
    PagesWithoutLock,
    /// INVAL_INODE of attributes waits for pages, too.
    AttributesWaitForPages,
    /// Reads for the page cache name an owner as others do.
    OwnerEverywhere,
    /// splice of a file that is opened direct reads past the page cache.
    SpliceDirect,
    /// Each store into a mapped page is written at once.
    StoresAreWritten,
    /// A write past the page cache drops no pages.
    PagesSurviveWrites,
    /// It drops them before it, not after it.
    PagesDropBefore,
    /// Writes run in parallel also while a program opens the file for the page cache.
    OpensWaitForAll,
    /// The answer to CREATE is taken only if nothing newer is known.
    CreateHasVersion,
    /// That there is no such name is not remembered.
    AbsenceForgotten,
    /// Dirty pages are dropped without being written.
    DirtyPagesVanish,
    /// Every write has the file for itself.
    WritesOneByOne,
    /// Writes behind the end go beside each other.
    ExtendingTogether,
    /// An append asks for the size first.
    AppendAsks,
    /// flock is taken back before RELEASE: as good.
    FlockUnlocks,
    /// The server is not told that a flock has been released.
    FlockStays,
    /// FLUSH names an owner of its own.
    FlushByNobody,
    /// The kernel believes the server's size with a write-back cache, too.
    WritebackBelieves,
    /// Pages of a dead server are dropped whatever was agreed on.
    PagesDieWithServer,
}

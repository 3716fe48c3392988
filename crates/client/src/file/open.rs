//! open(2) of a file: the server gives permission and says where the bytes are; who has it open already knows better.

use super::handle::{OpenFile, OpenFlags};
use super::table::{File, Moment, Pin};
use crate::answer;
use crate::limits::{REMOVED_PAUSE, REMOVED_TRIES};
use crate::opening::Underway;
use crate::service::Client;
use gupfs_proto::meta::{Access, Make, Op, OpenHow, Opened};
use gupfs_proto::{Attr, Caller, InodeId, Name, Refusal};
use std::sync::Arc;

/// What open and create give: the open file, and attributes as stat(2) would now.
pub struct OpenedFile {
    pub file: Arc<OpenFile>,
    pub attr: Attr,
    /// Create only: the file was made by this call.
    pub created: bool,
}

impl Client {
    /// open(2) of an existing regular file.
    pub async fn open(
        &self,
        caller: &Caller,
        ino: InodeId,
        how: OpenHow,
        flags: OpenFlags,
    ) -> Result<OpenedFile, Refusal> {
        let inode = self.table.pin(ino);
        let op = Op::Open { ino, open: how };
        for _ in 0..REMOVED_TRIES {
            match self.open_once(caller, &inode, op.clone(), how).await {
                // Somebody took its last name, and has not heard yet that it is open here.
                Err(Refusal::Stale) if self.is_open_here(&inode) => {
                    self.platform.clock.sleep(REMOVED_PAUSE).await;
                }
                other => {
                    let _opening = other?;
                    return self.opened(inode, how.access, flags, false);
                }
            }
        }
        Err(Refusal::Stale)
    }

    fn is_open_here(&self, inode: &File) -> bool {
        self.options.shared && inode.state().handles > 0
    }

    async fn open_once(
        &self,
        caller: &Caller,
        inode: &Pin,
        op: Op,
        how: OpenHow,
    ) -> Result<Option<Underway<'_>>, Refusal> {
        let ino = inode.ino;
        let opening = self.opening(Some(ino));
        if how.truncate {
            // Nobody reads or writes while the content goes, and no older word of ours arrives after it.
            let _all = inode.ranges.whole().await;
            let _telling = inode.telling.lock().await;
            if self.options.shared {
                // What is to be cut must be known.
                self.tell(inode).await?;
            }
            let opened = answer::opened("open", self.ask(caller, op).await?)?;
            let mut state = inode.state();
            self.table.count_no_more(ino);
            state.was_opened(self.session(), &opened, how.access);
            state.load(opened);
            state.took_privileges(how.kill_privileges);
        } else {
            let opened = answer::opened("open", self.ask(caller, op).await?)?;
            let mut state = inode.state();
            state.was_opened(self.session(), &opened, how.access);
            state.take(opened);
        }
        Ok(opening)
    }

    /// open(2) with O_CREAT: makes the file, or opens it if it is there and `exclusive` is not asked. The entry counts
    /// as given (`Client::forget` takes it back).
    #[allow(clippy::too_many_arguments)] // they are open(2)'s, and each is typed
    pub async fn create(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        make: Make,
        exclusive: bool,
        how: OpenHow,
        flags: OpenFlags,
    ) -> Result<OpenedFile, Refusal> {
        let moment = self.table.moment();
        let _opening = self.opening(None);
        let asked = self.how_to_create(how);
        let op = Op::Create {
            dir,
            name: name.clone(),
            make,
            exclusive,
            open: asked,
        };
        let opened = answer::opened("create", self.ask(caller, op).await?)?;
        let (ino, created) = (opened.attr.ino, opened.created);
        let inode = self.table.pin(ino);
        (inode.state()).was_opened(self.session(), &opened, asked.access);
        if !created && how.truncate {
            self.cut_what_was_there(&inode, moment, opened, how).await?;
        } else {
            self.take_if_current(&inode, moment, opened).await?;
        }
        self.ledger.lock().gave(ino);
        self.opened(inode, how.access, flags, created)
    }

    /// open(2) with O_TMPFILE: a file without a name. The entry counts as given.
    pub async fn tmpfile(
        &self,
        caller: &Caller,
        dir: InodeId,
        make: Make,
        access: Access,
        flags: OpenFlags,
    ) -> Result<OpenedFile, Refusal> {
        let op = Op::OpenTmpFile { dir, make, access };
        let opened = answer::opened("tmpfile", self.ask(caller, op).await?)?;
        let attr = opened.attr;
        let inode = self.table.pin(attr.ino);
        {
            let mut state = inode.state();
            state.was_opened(self.session(), &opened, access);
            state.take(opened);
        }
        {
            let mut ledger = self.ledger.lock();
            ledger.gave(attr.ino);
            let gone = ledger.orphaned(attr.ino);
            debug_assert_eq!(gone, None, "it was given a line above");
        }
        self.opened(inode, access, flags, true)
    }

    /// The open file of a number that `OpenFile::id` gave; `Stale` after its release.
    pub fn file(&self, id: u64) -> Result<Arc<OpenFile>, Refusal> {
        self.handles.get(id).ok_or(Refusal::Stale)
    }

    /// # Errors
    /// `Stale` if the session was lost in which it was opened.
    pub(crate) fn must_count(&self, file: &OpenFile) -> Result<(), Refusal> {
        if self.session.is_lost() || file.session() != self.session() {
            return Err(Refusal::Stale);
        }
        Ok(())
    }

    /// Whether somebody has the file open for writing: who reads it then should not keep what he read.
    pub fn has_writer(&self, ino: InodeId) -> bool {
        self.table
            .get(ino)
            .is_some_and(|file| file.state().writers > 0)
    }

    fn opened(
        &self,
        inode: Pin,
        access: Access,
        flags: OpenFlags,
        created: bool,
    ) -> Result<OpenedFile, Refusal> {
        let attr = {
            let state = inode.state();
            state.base().map(|base| state.overlay(*base))
        };
        // Lost in between, with the session.
        let attr = attr.ok_or(Refusal::Stale)?;
        self.ledger.lock().opened(inode.ino);
        Ok(OpenedFile {
            file: self.handles.add(inode, access, flags, self.session()),
            attr,
            created,
        })
    }

    /// The answer tells what the file is, unless it was opened, changed and closed while the answer was under way.
    async fn take_if_current(
        &self,
        inode: &File,
        moment: Moment,
        opened: Opened,
    ) -> Result<(), Refusal> {
        if self.table.dropped_since(moment, inode.ino) {
            self.load(inode).await
        } else {
            inode.state().take(opened);
            Ok(())
        }
    }

    /// A file that is found there is cut by us, after we have told of it what we know: the server does not ask who asks it.
    fn how_to_create(&self, how: OpenHow) -> OpenHow {
        if !self.options.shared || !how.truncate {
            return how;
        }
        OpenHow {
            access: how.access | Access::WRITE,
            truncate: false,
            ..how
        }
    }

    /// Lists an open as under way.
    fn opening(&self, ino: Option<InodeId>) -> Option<Underway<'_>> {
        self.options.shared.then(|| self.opening.begin(ino))
    }

    /// A create that found a file and cut it. Who had it open did not know: it may have written since, or told the
    /// server the old size. So it is cut again, this time under the file's lock.
    async fn cut_what_was_there(
        &self,
        inode: &File,
        moment: Moment,
        opened: Opened,
        how: OpenHow,
    ) -> Result<(), Refusal> {
        let known = self.options.shared
            || inode.state().is_loaded()
            || self.table.dropped_since(moment, inode.ino);
        if known {
            let _all = inode.ranges.whole().await;
            return self
                .resize(inode, &Caller::root(), 0, true, how.kill_privileges)
                .await
                .map(|_| ());
        }
        inode.state().take(opened);
        Ok(())
    }

    /// Asks the server for what a file is, if what is known here does not count. It must be open here, or be readable by root.
    pub(crate) async fn load(&self, inode: &File) -> Result<(), Refusal> {
        if inode.state().counts() {
            return Ok(());
        }
        let op = Op::Open {
            ino: inode.ino,
            open: OpenHow {
                access: Access::empty(),
                truncate: false,
                kill_privileges: false,
            },
        };
        let opened = answer::opened("open", self.ask(&Caller::root(), op).await?)?;
        inode.state().take(opened);
        Ok(())
    }
}

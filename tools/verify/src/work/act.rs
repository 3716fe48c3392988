//! Performs a call and returns its answer.

use super::{RoundDirectory, SysResult};
use crate::history::{Answer, Call, SpliceCall};
use crate::subject::Subject;

impl RoundDirectory {
    /// Makes what a call needs and is no part of it: the file that will be published.
    pub fn prepare(&mut self, subject: Subject, call: &Call, number: u32) -> SysResult<()> {
        match call {
            Call::Publish { tag, .. } => self.write_unpublished(number, *tag),
            Call::Lock { .. } | Call::Unlock { .. } => self.open_lock(subject),
            Call::Splice {
                how: SpliceCall::CopyFileRange,
                ..
            } => self.open_copy(),
            _ => Ok(()),
        }
    }

    /// Does it.
    pub fn act(&mut self, subject: Subject, call: &Call) -> Answer {
        let answered = self.try_it(subject, call);
        answered.unwrap_or_else(|errno| Answer::Errno(errno.raw_os_error()))
    }

    fn try_it(&mut self, subject: Subject, call: &Call) -> SysResult {
        use Call::*;
        match *call {
            Create { at, exclusive } => self.create(subject, at, exclusive),
            Get { at } => self.get(subject, at),
            Look { at } => self.look(subject, at),
            List { directory } => self.list(subject, directory),
            Unlink { at } => self.unlink(subject, at),
            Rename { from, to, how } => self.rename(subject, from, to, how),
            Link { from, to } => self.link(subject, from, to),
            Symlink { at, tag } => self.symlink(subject, at, tag),
            ReadLink { at } => self.read_link(subject, at),
            MakeDir { at } => self.make_dir(subject, at),
            RemoveDir { at } => self.remove_dir(subject, at),
            Publish { at, .. } => self.publish(subject, at),
            Open => self.open_session(subject),
            Close => self.close_session(subject),
            Write {
                range,
                tag,
                flavour,
            } => self.write(subject, range, tag, flavour),
            Read { range, flavour } => self.read(subject, range, flavour),
            Truncate { to } => self.truncate(subject, to),
            Allocate { range, how } => self.allocate(subject, range, how),
            Size { flavour } => self.size(subject, flavour),
            Sync => self.sync(subject),
            MapRead { range } => self.map_read(subject, range),
            MapWrite { range, tag } => self.map_write(subject, range, tag),
            Append { tag } => self.append(subject, tag),
            ReadLog => self.read_log(subject),
            LogSize => self.log_size(subject),
            CutLog => self.cut_log(subject),
            SetMode { mode } => self.set_mode(subject, mode),
            SetTime { seconds } => self.set_time(subject, seconds),
            SetXattr { tag } => self.set_xattr(subject, tag),
            RemoveXattr => self.remove_xattr(subject),
            GetXattr => self.get_xattr(subject),
            Stat => self.stat(subject),
            Lock {
                first,
                last,
                exclusive,
            } => self.lock(subject, first, last, Some(exclusive)),
            Unlock { first, last } => self.lock(subject, first, last, None),
            MoveDir { to } => self.move_dir(subject, to),
            GetCwd => self.get_cwd(),
            Splice {
                range,
                how,
                flavour,
            } => self.splice(subject, range, how, flavour),
        }
    }
}

//! Operations as a person reads them.

use super::{Allocate, Answer, Call, Flavour, Kind, Record, Rename, tag};
use crate::subject::{HELD_CALLED, Subject, held_name, slot_path, subject_path};

/// A tag as its writer: `w3#17` is the 17th operation of worker 3.
pub fn writer(of: u64) -> String {
    match of {
        0 => "zeros".into(),
        tag::BAD => "bytes nobody wrote".into(),
        _ => match tag::writer(of) {
            Some((worker, number)) => format!("w{worker}#{number}"),
            None => format!("bytes of unknown writer {of:x}"),
        },
    }
}

impl Record {
    /// The operation as one would type it.
    pub fn asked(&self) -> String {
        let whole = subject_path(self.subject);
        let path = |slot: u8| match self.subject {
            Subject::HeldDir(_) => format!("{whole}/*/{}", held_name(slot)),
            _ => format!("{whole}/{}", slot_path(slot)),
        };
        let call = &self.call;
        let name = call.name();
        match call {
            Call::Create { at, .. }
            | Call::Get { at }
            | Call::Look { at }
            | Call::Unlink { at }
            | Call::ReadLink { at }
            | Call::MakeDir { at }
            | Call::RemoveDir { at } => format!("{name} {}", path(*at)),
            Call::List { directory } => {
                format!("{name} {whole}/{}", ["x", "y"][usize::from(*directory)])
            }
            Call::Rename { from, to, how } => {
                let how = match how {
                    Rename::Over => "",
                    Rename::NoReplace => " (only if new)",
                    Rename::Exchange => " (exchange)",
                };
                format!("rename {} {}{how}", path(*from), path(*to))
            }
            Call::MoveDir { to } => {
                let [from, to] = [1 - to, *to].map(|at| HELD_CALLED[usize::from(at)]);
                format!("rename {whole}/{from} {whole}/{to}")
            }
            Call::Link { from, to } => format!("link {} {}", path(*from), path(*to)),
            Call::Symlink { at, tag } => format!("symlink to-{} {}", writer(*tag), path(*at)),
            Call::Publish { at, tag } => {
                format!("rename {}'s new file to {}", writer(*tag), path(*at))
            }
            Call::Write {
                range,
                tag,
                flavour,
            } => format!(
                "{}write {whole} {}..{} as {}",
                fresh(*flavour),
                range.from,
                range.to,
                writer(*tag)
            ),
            Call::Read { range, flavour } => {
                format!(
                    "{}read {whole} {}..{}",
                    fresh(*flavour),
                    range.from,
                    range.to
                )
            }
            Call::Splice { range, flavour, .. } => {
                format!(
                    "{}fstat, {name} {whole} {}..{}",
                    fresh(*flavour),
                    range.from,
                    range.to
                )
            }
            Call::MapRead { range } => format!("{name} {whole} {}..{}", range.from, range.to),
            Call::MapWrite { range, tag } => format!(
                "{name} {whole} {}..{} as {}",
                range.from,
                range.to,
                writer(*tag)
            ),
            Call::Truncate { to } => format!("truncate {whole} to {to}"),
            Call::Allocate { range, how } => {
                let how = match how {
                    Allocate::Plain => "allocate",
                    Allocate::KeepSize => "allocate (keep size)",
                    Allocate::Punch => "punch",
                    Allocate::Zero => "zero",
                };
                format!("{how} {whole} {}..{}", range.from, range.to)
            }
            Call::Append { tag } => format!("append {whole} as {}", writer(*tag)),
            Call::SetMode { mode } => format!("chmod {mode:o} {whole}"),
            Call::SetTime { seconds } => format!("utimensat {whole} {seconds}"),
            Call::SetXattr { tag } => format!("setxattr {whole} {}", writer(*tag)),
            Call::Size { flavour } => format!("{}{name} {whole}", fresh(*flavour)),
            Call::Lock {
                first,
                last,
                exclusive,
            } => format!(
                "{} {whole} {first}..{last}",
                ["lock shared", "lock exclusive"][usize::from(*exclusive)]
            ),
            Call::Unlock { first, last } => format!("unlock {whole} {first}..{last}"),
            _ => format!("{name} {whole}"),
        }
    }

    /// The answer, as a person reads it.
    pub fn answered(&self) -> String {
        match &self.answer {
            Answer::None => "no answer".into(),
            Answer::Done => "done".into(),
            Answer::Errno(errno) => errno_name(*errno),
            Answer::File { inode, tag, .. } => match self.call {
                Call::Get { .. } => format!("file {inode}, {}", writer(*tag)),
                _ => format!("file {inode}"),
            },
            Answer::Seen { kind, inode, links } => match kind {
                Kind::File => format!("file {inode}, {links} links"),
                Kind::Dir => "a directory".into(),
                Kind::Symlink => "a symbolic link".into(),
            },
            Answer::Target { tag } => format!("to-{}", writer(*tag)),
            Answer::Linked { inode, errno, .. } => match errno {
                0 => format!("done, file {inode}"),
                errno => format!("{} for file {inode}", errno_name(*errno)),
            },
            Answer::Listed { slots, stranger } => {
                let names: Vec<String> = (0..crate::subject::FOLDERS)
                    .filter(|slot| slots & (1 << slot) != 0)
                    .map(|slot| slot_path(slot)[2..].to_string())
                    .collect();
                let more = ["", " and a stranger"][usize::from(*stranger)];
                format!("[{}]{more}", names.join(" "))
            }
            Answer::Bytes { count, runs } => {
                let runs: Vec<String> = runs
                    .iter()
                    .map(|(end, tag)| format!("{} up to {end}", writer(*tag)))
                    .collect();
                format!("{count} bytes: {}", runs.join(", "))
            }
            Answer::Size(size) => format!("{size} bytes"),
            Answer::Log(tags) => {
                let tags: Vec<String> = tags.iter().map(|tag| writer(*tag)).collect();
                format!("{} records: {}", tags.len(), tags.join(" "))
            }
            Answer::Value(tag) => match tag {
                0 => "none".into(),
                tag => writer(*tag),
            },
            Answer::Called(name) => match HELD_CALLED.get(usize::from(*name)) {
                Some(name) => format!("called {name}"),
                None => "called by another name".into(),
            },
            Answer::Attributes { mode, seconds } => format!("mode {mode:o}, time {seconds}"),
        }
    }
}

impl Subject {
    /// The kind of things it is.
    pub fn group(self) -> &'static str {
        match self {
            Subject::Names(_) => "names",
            Subject::Data(_) => "data",
            Subject::Mapped(_) => "mmap",
            Subject::Log(_) => "append",
            Subject::Attr(_) => "attributes",
            Subject::Lock(_) => "locks",
            Subject::Spliced(_) => "splice",
            Subject::HeldData(_)
            | Subject::HeldMapped(_)
            | Subject::HeldAttr(_)
            | Subject::HeldDir(_) => "held",
        }
    }
}

fn fresh(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Fresh => "open, ",
        Flavour::Session => "",
    }
}

/// The symbol of an errno where it has one here, else its text.
pub fn errno_name(errno: i32) -> String {
    let known = match errno {
        libc::ENOENT => "ENOENT",
        libc::EEXIST => "EEXIST",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::ELOOP => "ELOOP",
        libc::EINVAL => "EINVAL",
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::EAGAIN => "EAGAIN",
        libc::EIO => "EIO",
        libc::ESTALE => "ESTALE",
        libc::ENODATA => "ENODATA",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::EBADF => "EBADF",
        _ => return std::io::Error::from_raw_os_error(errno).to_string(),
    };
    known.into()
}

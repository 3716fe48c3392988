//! When requests get a reply before their handlers are done.

use std::time::Duration;

use crate::Errno;

/// Deadlines after which a request gets an error reply although its handler is not done; the handler goes on. Resources that
/// the handler's result gives out later (a node, an open file) are released, and no request begins on a node that must follow a
/// change that is still in progress.
///
/// Only for file systems whose data and attributes the kernel does not cache: the kernel is not told what a late handler
/// changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyDeadlines {
    /// Longest time until a request gets a reply, except for requests that wait for a lock. None: no limit.
    pub deadline: Option<Duration>,
    /// The error reply after the deadline.
    pub overdue_errno: Errno,
    /// The error reply to a program that a signal is ending; the program does not see it.
    pub killed_errno: Errno,
}

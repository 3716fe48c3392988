//! Errors of the arbiter.

/// The reason why a call of the arbiter did not do what it was to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArbiterError {
    /// Nothing was changed.
    #[error("the arbiter does not answer: {0}")]
    Unavailable(String),

    /// The change may have been done, or may be done later.
    #[error("the arbiter has not said whether it changed the register: {0}")]
    Unknown(String),

    /// Nothing was changed, and the same call would fail again until an administrator does something.
    #[error("the arbiter refuses: {0}")]
    Refused(String),

    /// The lease is not alive any more.
    #[error("the lease has ended")]
    LeaseEnded,
}

//! Why a client connection is not connected.

use crate::handshake::HandshakeError;
use crate::tls::TlsError;
use std::fmt;
use std::sync::Arc;

/// Why a client connection is not connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot connect: {0}")]
    Connect(#[source] std::io::Error),
    #[error(transparent)]
    Handshake(HandshakeError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the server does not respond")]
    TimedOut,
    #[error("the server has proved its key, but does not say whether it accepts the connection")]
    NoVerdict,
    #[error("this process may not send now: it would have to renew its lease")]
    MayNotSend,
    /// An established connection ended for this reason.
    #[error("{0}")]
    Lost(String),
    /// The server has several addresses.
    #[error("{0}")]
    AtAddresses(AddressFailures),
}

/// Why there is no connection to any of several addresses.
#[derive(Debug)]
pub struct AddressFailures {
    /// The addresses at which an attempt has failed since the last connection, each with the error of the last one.
    pub failures: Vec<(String, Arc<ConnectError>)>,
    /// All known addresses are among them, each with a permanent error.
    pub are_permanent: bool,
}

impl fmt::Display for AddressFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (address, why)) in self.failures.iter().enumerate() {
            let separator = match number {
                0 => "",
                _ => "; ",
            };
            write!(f, "{separator}at {address}: {why}")?;
        }
        Ok(())
    }
}

impl ConnectError {
    /// A new attempt fails too until the administrator has changed something.
    pub fn is_permanent(&self) -> bool {
        match self {
            ConnectError::Handshake(error) => error.is_permanent(),
            ConnectError::Tls(_) => true,
            ConnectError::AtAddresses(failures) => failures.are_permanent,
            _ => false,
        }
    }
}

impl From<HandshakeError> for ConnectError {
    fn from(error: HandshakeError) -> ConnectError {
        ConnectError::Handshake(error)
    }
}

//! Errors of TLS, with texts that tell the administrator what to do.

use rustls::pki_types::pem;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Why the TLS material cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the {0} is not PEM: {1}")]
    Pem(&'static str, String),
    #[error("found no {0} in the PEM data")]
    Empty(&'static str),
    #[error("'{0}' is not a valid certificate name")]
    Name(String),
    #[error("a server needs a certificate and its key")]
    NoCertificate,
    #[error("{0}")]
    Unusable(String),
}

impl TlsError {
    pub(super) fn pem(what: &'static str, error: pem::Error) -> TlsError {
        match error {
            pem::Error::NoItemsFound => TlsError::Empty(what),
            other => TlsError::Pem(what, other.to_string()),
        }
    }

    pub(super) fn verifier(error: rustls::server::VerifierBuilderError) -> TlsError {
        TlsError::Unusable(error.to_string())
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> TlsError {
        TlsError::Unusable(match error {
            Error::InconsistentKeys(_) => {
                "the private key does not belong to the certificate".to_string()
            }
            other => other.to_string(),
        })
    }
}

/// Why the TLS handshake of a connection failed, or why its TLS session ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsFault {
    #[error("the peer does not use TLS, and this process requires TLS")]
    NotTls,
    #[error("the peer's certificate has expired: make a new one")]
    Expired,
    #[error("the peer's certificate is not valid yet: check the clocks of both hosts")]
    NotYetValid,
    #[error("the peer's certificate has another name: {0}")]
    Name(String),
    #[error("the peer's certificate is not signed by our CA")]
    UnknownIssuer,
    #[error("the peer sent no certificate, and this server requires one from clients")]
    NoCertificate,
    #[error("the server requires a client certificate, and this process has none")]
    CertificateRequired,
    #[error("the peer rejects our certificate ({0})")]
    CertificateRejected(String),
    #[error("TLS: {0}")]
    Other(String),
}

impl TlsFault {
    /// A new attempt fails too until the administrator has changed something.
    pub fn is_permanent(&self) -> bool {
        !matches!(self, TlsFault::Other(_))
    }
}

impl From<Error> for TlsFault {
    fn from(error: Error) -> TlsFault {
        use AlertDescription as Alert;
        use CertificateError as Bad;
        match error {
            Error::InvalidCertificate(bad) => match bad {
                Bad::Expired | Bad::ExpiredContext { .. } => TlsFault::Expired,
                Bad::NotValidYet | Bad::NotValidYetContext { .. } => TlsFault::NotYetValid,
                Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                    TlsFault::Name(bad.to_string())
                }
                Bad::UnknownIssuer | Bad::BadSignature => TlsFault::UnknownIssuer,
                other => TlsFault::Other(other.to_string()),
            },
            Error::NoCertificatesPresented => TlsFault::NoCertificate,
            Error::AlertReceived(Alert::CertificateRequired) => TlsFault::CertificateRequired,
            Error::AlertReceived(
                alert @ (Alert::UnknownCA
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnsupportedCertificate
                | Alert::DecryptError),
            ) => TlsFault::CertificateRejected(format!("{alert:?}")),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsFault::NotTls,
            other => TlsFault::Other(other.to_string()),
        }
    }
}

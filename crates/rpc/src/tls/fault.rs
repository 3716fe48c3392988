//! Why there is no TLS, in words that say what to do.

use rustls::pki_types::pem;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Why the parts given are no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the {0} is not PEM: {1}")]
    Pem(&'static str, String),
    #[error("there is no {0} in it")]
    Empty(&'static str),
    #[error("'{0}' is no name that a certificate could carry")]
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
            Error::InconsistentKeys(_) => "the key is not the one of the certificate".to_string(),
            other => other.to_string(),
        })
    }
}

/// Why a connection's TLS did not come about, or ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsFault {
    #[error("it speaks without TLS, and we speak TLS alone")]
    Plain,
    #[error("its certificate has expired: make a new one")]
    Expired,
    #[error("its certificate is not valid yet: is the clock of one of the hosts wrong?")]
    NotYet,
    #[error("its certificate is of another name: {0}")]
    Name(String),
    #[error("its certificate is not signed by our CA")]
    Stranger,
    #[error("it showed no certificate, and clients must")]
    NoCertificate,
    #[error("it wants to see a certificate of ours, and we gave none")]
    AskedForOurs,
    #[error("it does not believe our certificate ({0})")]
    NotBelieved(String),
    #[error("TLS: {0}")]
    Other(String),
}

impl TlsFault {
    /// Trying again will not help: something must be set right first.
    pub fn is_for_good(&self) -> bool {
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
                Bad::NotValidYet | Bad::NotValidYetContext { .. } => TlsFault::NotYet,
                Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                    TlsFault::Name(bad.to_string())
                }
                Bad::UnknownIssuer | Bad::BadSignature => TlsFault::Stranger,
                other => TlsFault::Other(other.to_string()),
            },
            Error::NoCertificatesPresented => TlsFault::NoCertificate,
            Error::AlertReceived(Alert::CertificateRequired) => TlsFault::AskedForOurs,
            Error::AlertReceived(
                alert @ (Alert::UnknownCA
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnsupportedCertificate
                | Alert::DecryptError),
            ) => TlsFault::NotBelieved(format!("{alert:?}")),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsFault::Plain,
            other => TlsFault::Other(other.to_string()),
        }
    }
}

//! # etcd_client: calls to members of etcd, and what a failed one means
//!
//! Owns   how a member is reached (addresses, TLS, user), one connection for all calls, the time limit of a call.
//! Never  reads a file, knows a key of the register.
//! Enter  at `EtcdClient::call`.

use super::ArbiterError;
use super::etcd_options::{EtcdOptions, EtcdTls};
use super::limits::{CALL_TIMEOUT, KEEP_ALIVE};
use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use std::future::Future;
use tokio::sync::Mutex;
use tonic::Code;

/// What a call without a reply means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Look,
    Change,
}

/// Whether a member answers calls while it knows no leader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WithoutLeader {
    Refuses,
    Answers,
}

pub(super) struct EtcdClient {
    options: EtcdOptions,
    without_leader: WithoutLeader,
    client: Mutex<Option<Client>>,
}

impl EtcdClient {
    /// It connects with the first call, and the library connects again.
    pub(super) fn new(options: EtcdOptions, without_leader: WithoutLeader) -> EtcdClient {
        EtcdClient {
            options,
            without_leader,
            client: Mutex::new(None),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.options.prefix
    }

    pub(super) async fn call<T, F: Future<Output = Result<T, Error>>>(
        &self,
        kind: CallKind,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, ArbiterError> {
        let answered = async {
            let client = self.client().await?;
            call(client)
                .await
                .map_err(|error| self.meaning(error, kind))
        };
        match tokio::time::timeout(CALL_TIMEOUT, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(without_reply(
                format!("no reply within {CALL_TIMEOUT:?}"),
                kind,
            )),
        }
    }

    /// The next call connects anew. (While another call connects, that one does.)
    pub(super) fn forget_connection(&self) {
        if let Ok(mut client) = self.client.try_lock() {
            *client = None;
        }
    }

    async fn client(&self) -> Result<Client, ArbiterError> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let mut options = ConnectOptions::new()
            .with_require_leader(self.without_leader == WithoutLeader::Refuses)
            .with_connect_timeout(CALL_TIMEOUT)
            .with_keep_alive(KEEP_ALIVE, CALL_TIMEOUT)
            .with_keep_alive_while_idle(false);
        if let Some((name, password)) = &self.options.user {
            options = options
                .with_user(name, password)
                .with_auto_token_refresh(true);
        }
        if let Some(tls) = &self.options.tls {
            options = options.with_tls(tls_options(tls));
        }
        let connected = Client::connect(&self.options.endpoints, Some(options)).await;
        // Nothing was sent yet, whatever the call is.
        let connected = connected.map_err(|error| self.meaning(error, CallKind::Look))?;
        Ok(client.insert(connected).clone())
    }

    /// What an error of etcd says about the call.
    pub(super) fn meaning(&self, error: Error, kind: CallKind) -> ArbiterError {
        let text = with_sources(&error);
        // Members and this process prove who they are before a call is executed.
        let refusal = (self.options.tls.as_ref()).and_then(|tls| tls_refusal(&text, tls));
        if let Some(why) = refusal {
            return ArbiterError::Refused(why);
        }
        let status = match &error {
            Error::GRpcStatus(status) => status,
            Error::LeaseKeepAliveError(why) if why == "lease not found" => {
                return ArbiterError::LeaseEnded;
            }
            _ => return without_reply(self.with_hint(text), kind),
        };
        let said = status.message().to_owned();
        match status.code() {
            Code::NotFound if said.contains("lease") => ArbiterError::LeaseEnded,
            // Not applied: the alarm of a full database, or too many requests at once.
            Code::ResourceExhausted if said.contains("space") => ArbiterError::Refused(said),
            Code::ResourceExhausted => ArbiterError::Unavailable(said),
            Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated => {
                ArbiterError::Refused(said)
            }
            _ => without_reply(self.with_hint(text), kind),
        }
    }

    /// A member that rejects the certificate of this process ends the connection; whether its alert is read before depends on which comes first.
    fn with_hint(&self, text: String) -> String {
        let Some(tls) = &self.options.tls else {
            return text;
        };
        let ends = ["connection closed", "onnection reset", "roken pipe"];
        if !ends.iter().any(|end| text.contains(end)) {
            return text;
        }
        match &tls.own {
            None => format!(
                "{text} (etcd ends connections so if it requires a client certificate, and this process has none: mds.etcd_cert and mds.etcd_key)"
            ),
            Some((certificate, _)) => format!(
                "{text} (etcd ends connections so if it does not accept the certificate in '{}')",
                certificate.file
            ),
        }
    }
}

fn tls_options(tls: &EtcdTls) -> TlsOptions {
    let options = TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.ca.pem));
    match &tls.own {
        Some((certificate, key)) => {
            options.identity(Identity::from_pem(&certificate.pem, &key.pem))
        }
        None => options,
    }
}

fn without_reply(why: String, kind: CallKind) -> ArbiterError {
    match kind {
        CallKind::Look => ArbiterError::Unavailable(why),
        CallKind::Change => ArbiterError::Unknown(why),
    }
}

/// The texts of an error and of its sources; etcd's own words alone if there are some.
fn with_sources(error: &Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next: Option<&dyn std::error::Error> = match error {
        Error::GRpcStatus(status) => {
            texts.push(status.message().to_owned());
            std::error::Error::source(status)
        }
        Error::TransportError(error) => Some(error),
        other => Some(other),
    };
    while let Some(error) = next {
        let text = error.to_string();
        // Many errors repeat their source in their own text; the library's own says nothing.
        let is_told = texts.iter().any(|said| said.contains(&text));
        if !is_told && text != "transport error" {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

/// The reason if a member and this process do not accept each other's certificates: a new attempt fails, too. (rustls writes these texts; those
/// of alerts come through the HTTP/2 library, which keeps nothing but the text. tests/arbiter/tls.rs compares them.)
fn tls_refusal(text: &str, tls: &EtcdTls) -> Option<String> {
    if let Some(why) = after(text, "invalid peer certificate: ") {
        return Some(
            match why.starts_with("UnknownIssuer") || why.starts_with("BadSignature") {
                true => format!(
                    "etcd's certificate is not signed by the CA in '{}'",
                    tls.ca.file
                ),
                false => format!("etcd's certificate is not valid: {why}"),
            },
        );
    }
    let alert = after(text, "received fatal alert: ")?;
    let alert = alert.split([':', ' ', ',']).next().unwrap_or(alert);
    match (alert, &tls.own) {
        // Older servers send the second one for a missing certificate, too.
        ("CertificateRequired" | "BadCertificate", None) => Some(
            "etcd requires a client certificate, and this process has none: mds.etcd_cert and mds.etcd_key".into(),
        ),
        (
            "BadCertificate" | "UnknownCA" | "CertificateExpired" | "CertificateRevoked"
            | "CertificateUnknown" | "UnsupportedCertificate" | "AccessDenied" | "DecryptError",
            Some((certificate, _)),
        ) => Some(format!(
            "etcd does not accept the certificate in '{}' ({alert})",
            certificate.file
        )),
        _ => None,
    }
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, after)| after)
}

//! The metrics page over HTTP.
//!
//! Every host that reaches the port can connect. Therefore a connection gets one request and a few seconds, and their number is limited;
//! beyond the limit the server closes the oldest of the origin with the most (`gupfs_rpc::unauthenticated`).

use super::MetricsText;
use crate::exit::{CliResult, OrCliError};
use gupfs_platform::{Platform, Task};
use gupfs_rpc::unauthenticated::{Origin, UnauthenticatedConnections, UnauthenticatedLimits};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Connections at a time. Connections that are being closed come in addition.
pub const CONNECTIONS: usize = 12;

/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// How long request and response may take together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after an error of accept(2).
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Writes metrics.
pub trait MetricsSource: Send + Sync + 'static {
    fn write(&self, text: &mut MetricsText) -> impl Future<Output = ()> + Send;
}

/// Serves the page until the returned task is stopped.
///
/// # Errors
/// If the address cannot be bound.
pub async fn start<S: MetricsSource>(
    listen: SocketAddr,
    platform: &Platform,
    source: Arc<S>,
) -> CliResult<Task<()>> {
    let failed = || format!("cannot serve metrics at {listen}");
    let listener = TcpListener::bind(listen).await.or_cli_error(failed)?;
    let address = listener.local_addr().or_cli_error(failed)?;
    let task = platform
        .tasks
        .spawn("metrics", accept(listener, platform.clone(), source));
    tracing::info!("metrics at http://{address}/metrics");
    Ok(task)
}

async fn accept<S: MetricsSource>(listener: TcpListener, platform: Platform, source: Arc<S>) {
    let bounds = UnauthenticatedLimits {
        all: CONNECTIONS,
        for_known: 0,
    };
    let connections = UnauthenticatedConnections::new(platform.clock.clone(), bounds);
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let evicted = Arc::new(Notify::new());
                let evict = evicted.clone();
                let origin = Origin::of(&from.to_string());
                let admitted = connections.admit(origin, move || evict.notify_one()).await;
                let (clock, source) = (platform.clock.clone(), source.clone());
                platform.tasks.spawn("metrics connection", async move {
                    tokio::select! {
                        biased;
                        () = evicted.notified() => {}
                        () = clock.sleep(REQUEST_TIMEOUT) => {}
                        () = serve_connection(stream, source) => {}
                    }
                    // Only now, when the connection is closed, it no longer counts.
                    drop(admitted);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the metrics page");
                platform.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection<S: MetricsSource>(stream: TcpStream, source: Arc<S>) {
    let service = service_fn(|request| {
        let source = source.clone();
        async move { Ok::<_, Infallible>(respond(&request, &*source).await) }
    });
    let serving = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // hyper has answered an invalid request; a client may also disconnect.
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a request for metrics failed");
    }
}

async fn respond(
    request: &Request<Incoming>,
    source: &impl MetricsSource,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if request.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
    } else if ![Method::GET, Method::HEAD].contains(request.method()) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    } else {
        let mut text = MetricsText::default();
        source.write(&mut text).await;
        *response.body_mut() = Full::from(text.finish());
        let kind = "text/plain; version=0.0.4";
        response
            .headers_mut()
            .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct Numbers;

    impl MetricsSource for Numbers {
        async fn write(&self, text: &mut MetricsText) {
            text.gauge("gupfs_test", "A number.", &[], 7);
        }
    }

    async fn fetch(at: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn idle_connections_do_not_prevent_a_request_and_are_closed() {
        let platform = Platform::real();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = platform.tasks.spawn(
            "metrics",
            accept(listener, platform.clone(), Arc::new(Numbers)),
        );
        let mut idle = Vec::new();
        for _ in 0..5 * CONNECTIONS {
            idle.push(TcpStream::connect(at).await.unwrap());
        }
        // The connections of this origin are evicted in their order, and this one is the last. It is closed after the response.
        let page = fetch(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains("connection: close"), "{page}");
        assert!(page.contains("gupfs_test 7"), "{page}");
        let other = fetch(at, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(other.starts_with("HTTP/1.1 404"), "{other}");
        // The server closes the others after the timeout.
        for mut stream in idle {
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(REQUEST_TIMEOUT * 10, stream.read_to_end(&mut rest));
            let _ = ended.await.expect("the server closes an idle connection");
        }
        serving.stop();
    }
}

//! The page, over HTTP.
//!
//! Whoever reaches the port may ask, so each connection has one question, few seconds for it, and one of few places: when they
//! are taken, the oldest goes of the address that has the most (`gupfs_rpc::unauthenticated`).

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

/// Connections at once: a few Prometheus servers and people ask now and then. Those on their way out come beside them.
pub const CONNECTIONS: usize = 12;

/// How long the head of a question may take.
const HEAD: Duration = Duration::from_secs(2);

/// And how long all of it, with the answer, over a slow line.
const WHOLE: Duration = Duration::from_secs(10);

/// After a connection could not be accepted.
const AGAIN: Duration = Duration::from_secs(1);

/// Who has numbers to tell.
pub trait MetricsSource: Send + Sync + 'static {
    fn write(&self, text: &mut MetricsText) -> impl Future<Output = ()> + Send;
}

/// Serves until the returned task is stopped.
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
    let places = UnauthenticatedConnections::new(platform.clock.clone(), bounds);
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let leave = Arc::new(Notify::new());
                let told = leave.clone();
                let origin = Origin::of(&from.to_string());
                let place = places.admit(origin, move || told.notify_one()).await;
                let (clock, source) = (platform.clock.clone(), source.clone());
                platform.tasks.spawn("metrics connection", async move {
                    tokio::select! {
                        biased;
                        () = leave.notified() => {}
                        () = clock.sleep(WHOLE) => {}
                        () = converse(stream, source) => {}
                    }
                    // The connection is closed before its place is another's.
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics could not be accepted");
                platform.clock.sleep(AGAIN).await;
            }
        }
    }
}

async fn converse<S: MetricsSource>(stream: TcpStream, source: Arc<S>) {
    let answering = service_fn(|question| {
        let source = source.clone();
        async move { Ok::<_, Infallible>(answer(&question, &*source).await) }
    });
    let serving = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), answering);
    // Who asks badly, or leaves, is told so by the library.
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a question for metrics was not answered");
    }
}

async fn answer(
    question: &Request<Incoming>,
    source: &impl MetricsSource,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if question.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
    } else if ![Method::GET, Method::HEAD].contains(question.method()) {
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

    async fn ask(at: SocketAddr, question: &str) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(question.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn idle_connections_are_few_and_short_and_keep_nobody_out() {
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
        // As the first of all that come, it goes on; the answer says that the connection is over with it.
        let page = ask(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains("connection: close"), "{page}");
        assert!(page.contains("gupfs_test 7"), "{page}");
        let other = ask(at, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(other.starts_with("HTTP/1.1 404"), "{other}");
        // Each of the others ends by itself.
        for mut stream in idle {
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(WHOLE * 3, stream.read_to_end(&mut rest));
            let _ = ended.await.expect("an idle connection is ended");
        }
        serving.stop();
    }
}

//! The page, over HTTP.

use super::Text;
use crate::exit::{OrTrouble, Outcome};
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use gupfs_world::{Task, Tasks};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

/// Who has numbers to tell.
pub trait Source: Send + Sync + 'static {
    fn write(&self, text: &mut Text) -> impl Future<Output = ()> + Send;
}

/// Serves until the returned task is stopped.
pub async fn start<S: Source>(
    listen: SocketAddr,
    tasks: &Tasks,
    source: Arc<S>,
) -> Outcome<Task<()>> {
    let failed = || format!("cannot serve metrics at {listen}");
    let listener = tokio::net::TcpListener::bind(listen)
        .await
        .or_trouble(failed)?;
    let address = listener.local_addr().or_trouble(failed)?;
    let router = Router::new()
        .route("/metrics", get(page::<S>))
        .with_state(source);
    let task = tasks.spawn("metrics", async move {
        // It ends only with the task.
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "metrics are served no longer");
        }
    });
    tracing::info!("metrics at http://{address}/metrics");
    Ok(task)
}

async fn page<S: Source>(State(source): State<Arc<S>>) -> impl IntoResponse {
    let mut text = Text::default();
    source.write(&mut text).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text.finish())
}

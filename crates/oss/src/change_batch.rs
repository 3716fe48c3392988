//! Changes that are being executed, and a wait for the end of all that began before a moment.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Held by a change while it is being executed. Notifies when the last change that holds it has ended.
#[derive(Default)]
pub struct ChangeBatch {
    ended: Arc<Notify>,
}

impl Drop for ChangeBatch {
    fn drop(&mut self) {
        self.ended.notify_one();
    }
}

/// The changes that begin now.
#[derive(Default)]
pub struct CurrentBatch(Mutex<Arc<ChangeBatch>>);

impl CurrentBatch {
    pub fn begin(&self) -> Arc<ChangeBatch> {
        self.0.lock().clone()
    }

    /// Ends the batch: changes that begin later do not belong to it. The future is ready when all of its changes have ended.
    pub fn end(&self) -> impl Future<Output = ()> + use<> {
        let former = std::mem::take(&mut *self.0.lock());
        let ended = former.ended.clone();
        drop(former);
        async move { ended.notified().await }
    }

    pub fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0.lock()) == 1
    }
}

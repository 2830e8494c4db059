//! The priority of a read that several callers wait for.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::transport::Priority;

/// The time that a request in flight gets to be answered after its priority has risen, before it is sent again with the
/// higher priority.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// The priority of a shared read: the priority of its most urgent caller. Clones rise together.
///
/// ```
/// use provider_kit::inventory::SharedPriority;
/// use provider_kit::transport::{Call, Priority, Transport};
///
/// # async fn example(cloud: Transport, shared_priority: &SharedPriority) -> cloud_provider::Result<()> {
/// // Deferred by the budget as a refresh, the request is sent again when a caller joins that cannot wait.
/// let page: Vec<u32> = shared_priority.send_read(|priority| cloud.read(Call::get("/numbers", &[]).with_priority(priority))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SharedPriority(Arc<watch::Sender<Priority>>);

impl Default for SharedPriority {
    fn default() -> Self {
        Self::of(Priority::default())
    }
}

impl SharedPriority {
    /// Returns a shared priority that starts with this priority.
    #[must_use]
    pub fn of(priority: Priority) -> Self {
        Self(Arc::new(watch::Sender::new(priority)))
    }

    /// Returns the current priority.
    #[must_use]
    pub fn now(&self) -> Priority {
        *self.0.borrow()
    }

    /// Sends a read-only request. If the priority rises before the answer, the request is sent again with the new
    /// priority.
    pub async fn send_read<T, F: Future<Output = T>>(
        &self,
        mut send: impl FnMut(Priority) -> F,
    ) -> T {
        let mut changes = self.0.subscribe();
        loop {
            let priority = *changes.borrow_and_update();
            let mut sent = pin!(send(priority));
            tokio::select! {
                biased;
                answer = &mut sent => return answer,
                Ok(()) = changes.changed() => {}
            }
            if let Ok(answer) = tokio::time::timeout(UNDER_WAY, sent).await {
                return answer;
            }
        }
    }

    pub(crate) fn raise(&self, to: Priority) {
        self.0.send_if_modified(|now| {
            let rises = *now < to;
            *now = to.max(*now);
            rises
        });
    }
}

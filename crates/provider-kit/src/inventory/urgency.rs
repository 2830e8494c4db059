//! How urgent a read is that several wait for.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::transport::Priority;

/// A request that is on its way is not sent twice: so long it may take to be answered.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// How urgent a read is that others may come to wait for: as urgent as the most urgent of them. Clones rise together.
///
/// ```
/// use provider_kit::inventory::Urgency;
/// use provider_kit::transport::{Call, Priority, Transport};
///
/// # async fn example(cloud: Transport, urgency: &Urgency) -> cloud_provider::Result<()> {
/// // Held back in the budget as a refresh, it is sent again when somebody joins who cannot wait.
/// let page: Vec<u32> = urgency.carry(|priority| cloud.read(Call::get("/numbers", &[]).priority(priority))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Urgency(Arc<watch::Sender<Priority>>);

impl Default for Urgency {
    fn default() -> Self {
        Self::of(Priority::default())
    }
}

impl Urgency {
    /// One that is this at first.
    #[must_use]
    pub fn of(priority: Priority) -> Self {
        Self(Arc::new(watch::Sender::new(priority)))
    }

    /// What it is now.
    #[must_use]
    pub fn now(&self) -> Priority {
        *self.0.borrow()
    }

    /// Sends a request that changes nothing; begins again if it becomes more urgent while no answer is there.
    pub async fn carry<T, F: Future<Output = T>>(&self, mut send: impl FnMut(Priority) -> F) -> T {
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

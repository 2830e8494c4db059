//! Waiting together: however many load balancers the cloud is at work on, they are looked at with one request.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cloud_provider::Result;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared as SharedFuture, WeakShared};

use super::model::Shared;

/// How long a look waits for others to join.
const WINDOW: Duration = Duration::from_millis(250);

type Seen = Result<Arc<HashMap<String, Shared>>>;

#[derive(Default)]
pub(super) struct Looks(Mutex<Option<Look>>);

/// A look that is being prepared; `None` once it has begun.
type Ids = Arc<Mutex<Option<BTreeSet<String>>>>;

struct Look {
    ids: Ids,
    result: WeakShared<BoxFuture<'static, Seen>>,
}

impl Looks {
    /// Adds `id` to the look that is being prepared, or prepares one.
    pub(super) fn at(
        &self,
        id: &str,
        read: impl FnOnce(Vec<String>) -> BoxFuture<'static, Seen> + Send + 'static,
    ) -> SharedFuture<BoxFuture<'static, Seen>> {
        let mut look = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((ids, result)) = look.as_ref().and_then(|look| Some((&look.ids, look.result.upgrade()?)))
            && let Some(ids) = &mut *ids.lock().unwrap_or_else(PoisonError::into_inner)
        {
            ids.insert(id.to_owned());
            return result;
        }
        let ids: Ids = Arc::new(Mutex::new(Some([id.to_owned()].into())));
        let asked = Arc::clone(&ids);
        let result = async move {
            tokio::time::sleep(WINDOW).await;
            let ids = asked.lock().unwrap_or_else(PoisonError::into_inner).take();
            read(ids.unwrap_or_default().into_iter().collect()).await
        };
        let result = result.boxed().shared();
        *look = result.downgrade().map(|result| Look { ids, result });
        result
    }
}

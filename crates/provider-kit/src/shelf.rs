//! Short lists that hardly change, such as the sizes that a cloud offers: read once in a while for all.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Result;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A list that is kept. Who comes while it is read waits for it.
///
/// ```
/// use std::time::Duration;
/// use provider_kit::shelf::Shelf;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> cloud_provider::Result<()> {
/// let shelf = Shelf::default();
/// let hour = Duration::from_secs(3600);
/// let (sizes, is_kept) = shelf.list(hour, async || Ok(vec!["small", "large"])).await?;
/// assert_eq!((sizes.len(), is_kept), (2, false));
/// let (sizes, is_kept) = shelf.list(hour, async || Ok(vec![])).await?;
/// assert_eq!((sizes.len(), is_kept), (2, true));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Shelf<T>(Mutex<Option<(Instant, Arc<Vec<T>>)>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::const_new(None))
    }
}

impl<T> Shelf<T> {
    /// The list, as it was asked for at most `age` before this call, and whether that needed no request.
    ///
    /// # Errors
    /// What `read` answers; what was kept stays.
    pub async fn list(&self, age: Duration, read: impl AsyncFnOnce() -> Result<Vec<T>>) -> Result<(Arc<Vec<T>>, bool)> {
        let came = Instant::now();
        let mut kept = self.0.lock().await;
        if let Some((asked, list)) = &*kept
            && *asked + age >= came
        {
            return Ok((Arc::clone(list), true));
        }
        let asked = Instant::now();
        let list = Arc::new(read().await?);
        *kept = Some((asked, Arc::clone(&list)));
        Ok((list, false))
    }

    /// What was kept is not true any more.
    pub async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

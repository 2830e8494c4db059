//! Cached lists of a cloud's objects that rarely change, and the error for an object that does not exist, which names
//! the existing ones.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, excerpt};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::cached::Cached;

/// The maximum number of names in an error: enough to see a typing mistake.
const EXAMPLES: usize = 20;

/// A cached list of objects of one kind. The list is read again before an object is reported as missing.
///
/// ```
/// use std::time::Duration;
/// use provider_kit::catalog::Catalog;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> cloud_provider::Result<()> {
/// let sizes = Catalog::new("size", Duration::from_secs(3600), async || Ok(vec![("small", 2), ("large", 8)]));
/// assert_eq!(sizes.named("large", |it| it.0, |it| it.1).await?, (8, false));
/// assert_eq!(sizes.named("small", |it| it.0, |it| it.1).await?, (2, true));
/// let error = sizes.named("huge", |it| it.0, |it| it.1).await.unwrap_err();
/// assert_eq!(error.to_string(), r#"no size named "huge"; available: "small", "large""#);
/// # Ok(()) }
/// ```
pub struct Catalog<T> {
    kind: &'static str,
    max_age: Duration,
    read: Box<dyn Fn() -> BoxFuture<'static, Result<Vec<T>>> + Send + Sync>,
    kept: Cached<Vec<T>>,
}

impl<T: Send + Sync + 'static> Catalog<T> {
    /// Returns a catalog with an empty cache. `kind` names one of its objects in errors.
    pub fn new<F>(
        kind: &'static str,
        max_age: Duration,
        read: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Vec<T>>> + Send + 'static,
    {
        Self {
            kind,
            max_age,
            read: Box::new(move || read().boxed()),
            kept: Cached::default(),
        }
    }

    /// Returns all objects, from a list that is at most `max_age` old.
    ///
    /// # Errors
    /// The cloud's answer.
    pub async fn list(&self) -> Result<Arc<Vec<T>>> {
        Ok(self.get().await?.0)
    }

    /// Reads all objects again.
    ///
    /// # Errors
    /// The cloud's answer.
    pub async fn refresh(&self) -> Result<Arc<Vec<T>>> {
        self.kept.forget().await;
        self.list().await
    }

    /// Drops the cached list, because this program has changed an object.
    pub async fn forget(&self) {
        self.kept.forget().await;
    }

    /// Returns the objects that `fits` accepts, such as those with a tag.
    ///
    /// # Errors
    /// The cloud's answer.
    pub async fn select(&self, fits: impl Fn(&T) -> bool) -> Result<Vec<T>>
    where
        T: Clone,
    {
        let fitting = |all: &[T]| all.iter().filter(|entry| fits(entry)).cloned().collect();
        let found: Vec<T> = self.look(fitting, Vec::is_empty).await?.0;
        Ok(found)
    }

    /// Returns the result of `read` for the object of this name, and `true` if no request was needed.
    ///
    /// # Errors
    /// *Invalid*, with the names that exist; the cloud's answer.
    pub async fn named<R>(
        &self,
        name: &str,
        name_of: impl Fn(&T) -> &str,
        read: impl Fn(&T) -> R,
    ) -> Result<(R, bool)> {
        self.look_up("named", name, name_of, read).await
    }

    /// Returns the result of `read` for the object with this ID.
    ///
    /// # Errors
    /// *Invalid*, with the IDs that exist; the cloud's answer.
    pub async fn with_id<R>(
        &self,
        id: &str,
        id_of: impl Fn(&T) -> &str,
        read: impl Fn(&T) -> R,
    ) -> Result<R> {
        Ok(self.look_up("with ID", id, id_of, read).await?.0)
    }

    async fn look_up<R>(
        &self,
        by: &str,
        key: &str,
        key_of: impl Fn(&T) -> &str,
        read: impl Fn(&T) -> R,
    ) -> Result<(R, bool)> {
        let find = |all: &[T]| {
            let found = all.iter().find(|entry| key_of(entry) == key).map(&read);
            found.ok_or_else(|| {
                let available = quoted(all.iter().map(&key_of), EXAMPLES);
                Error::invalid(excerpt(format!(
                    "no {} {by} {key:?}; available: {available}",
                    self.kind
                )))
            })
        };
        let (found, is_kept) = self.look(find, Result::is_err).await?;
        Ok((found?, is_kept))
    }

    async fn get(&self) -> Result<(Arc<Vec<T>>, bool)> {
        self.kept.get(self.max_age, || (self.read)()).await
    }

    /// Returns the result of `find` on the cached list, or on a new list if the cached one lacks the object.
    async fn look<R>(
        &self,
        find: impl Fn(&[T]) -> R,
        is_missing: impl Fn(&R) -> bool,
    ) -> Result<(R, bool)> {
        let (all, is_kept) = self.get().await?;
        let found = find(&all);
        match is_kept && is_missing(&found) {
            true => Ok((find(&self.refresh().await?), false)),
            false => Ok((found, is_kept)),
        }
    }
}

/// Returns the first `most` names, each in quotes, and the number of the others; `none` if there are no names.
pub fn quoted<'a>(names: impl Iterator<Item = &'a str>, most: usize) -> String {
    let mut names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (_, 0) => names.join(", "),
        _ => format!("{}, and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns a catalog whose list grows by one name with each read.
    fn growing() -> Catalog<String> {
        let reads = AtomicUsize::new(0);
        Catalog::new("network", Duration::from_secs(60), move || {
            let count = reads.fetch_add(1, Ordering::Relaxed);
            async move { Ok((0..=count).map(|number| format!("n{number}")).collect()) }
        })
    }

    async fn is_found(catalog: &Catalog<String>, name: &str) -> Option<bool> {
        catalog
            .named(name, |catalog| catalog, |_| ())
            .await
            .ok()
            .map(|((), is_kept)| is_kept)
    }

    #[tokio::test(start_paused = true)]
    async fn cached_list_is_read_again_before_a_name_is_reported_missing() {
        let catalog = growing();
        assert_eq!(
            is_found(&catalog, "n1").await,
            None,
            "a list that was just read is not read again"
        );
        assert_eq!(is_found(&catalog, "n0").await, Some(true));
        assert_eq!(is_found(&catalog, "n1").await, Some(false));
        assert_eq!(is_found(&catalog, "n1").await, Some(true));
        assert_eq!(catalog.select(|name| name == "n2").await.unwrap().len(), 1);
        assert_eq!(catalog.list().await.unwrap().len(), 3);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(catalog.list().await.unwrap().len(), 4);
        catalog.forget().await;
        assert_eq!(
            (
                catalog.list().await.unwrap().len(),
                catalog.refresh().await.unwrap().len()
            ),
            (5, 6)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn error_lists_what_exists_and_has_a_bounded_length() {
        let many = Catalog::new("type", Duration::ZERO, async || {
            Ok((0..1000).map(|number| format!("t{number}")).collect())
        });
        let error = many
            .named("x", |text: &String| text, |_| ())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(r#"no type named "x"; available: "t0", "t1", "#),
            "{error}"
        );
        assert!(error.ends_with(r#""t19", and 980 more"#), "{error}");
        let none = Catalog::new("type", Duration::ZERO, async || Ok(Vec::<String>::new()));
        let error = none
            .with_id(&"x".repeat(9000), |id| id, |_| ())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.len() <= 1024, "{error}");
    }
}

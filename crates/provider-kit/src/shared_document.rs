//! Cloud objects that many Services change: one writer, and many edits in one write.
//!
//! A router's list of routes, a security group or an Azure load balancer is read and written as a whole. Each caller
//! submits an *edit*; the first caller reads the document, applies all waiting edits, and writes it once. If another
//! client changed the document meanwhile, it is read again, and the same edits are applied again. The first caller does
//! not wait for further edits.
//!
//! Keep fields that the program does not know (`#[serde(flatten)]`), or a write deletes settings that a user made by
//! hand.

use std::hash::Hash;
use std::sync::Arc;

use cloud_provider::{Result, async_trait};

use crate::coalescer::Coalescer;

/// The number of times that a document is read again because another client changed it between our read and our write.
const ATTEMPTS: usize = 5;

/// A document and the version that the cloud gave it: an ETag, a fingerprint or a revision number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<D> {
    /// The document, as it was read or is to be written.
    pub document: D,
    /// The version to write against; `None` if the cloud has no versions.
    pub version: Option<String>,
}

/// A store that reads and writes the documents of one kind.
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// The name of a document, such as a router's ID.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// The document; two equal documents need no write.
    type Document: Clone + PartialEq + Send + Sync + 'static;

    /// Reads a document, bypassing any cache.
    ///
    /// # Errors
    /// The cloud's answer; every edit that waits for the document receives it.
    async fn read(&self, key: &Self::Key) -> Result<Versioned<Self::Document>>;

    /// Writes a document if its version is still `version`.
    ///
    /// # Errors
    /// *Conflict* if the document has another version: it is read again. *Invalid* and *quota* if an edit may be the
    /// cause: the edits are written in smaller groups, until the cause is alone.
    async fn write(
        &self,
        key: &Self::Key,
        document: Self::Document,
        version: Option<&str>,
    ) -> Result<()>;
}

/// A change of a document in memory. It may be called several times, so it must give the same result when it is already
/// applied. An error leaves the document as it was before this edit, and is returned to its caller alone.
type Edit<D> = Arc<dyn Fn(&mut D) -> Result<()> + Send + Sync>;

/// The documents of one [`DocumentStore`]. Clones share their state.
pub struct SharedDocuments<S: DocumentStore> {
    store: Arc<S>,
    edits: Arc<Coalescer<S::Key, Edit<S::Document>>>,
}

impl<S: DocumentStore> Clone for SharedDocuments<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            edits: Arc::clone(&self.edits),
        }
    }
}

impl<S: DocumentStore> SharedDocuments<S> {
    /// Returns the documents of `store`.
    #[must_use]
    pub fn new(store: S) -> Self {
        let store = Arc::new(store);
        let writer = Arc::clone(&store);
        let edits = Coalescer::answering_each(move |key: S::Key, edits: Vec<Edit<S::Document>>| {
            let store = Arc::clone(&writer);
            async move { write_all(&*store, &key, &edits).await }
        });
        Self {
            store,
            edits: Arc::new(edits),
        }
    }

    /// Returns the store, for reads that change nothing.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Applies an edit, and returns once the document is written with it or needed no write.
    ///
    /// The call may be dropped at any await: the edit is then written or not, and the edits of other callers are written.
    ///
    /// # Errors
    /// The error of the edit, or the cloud's answer when the document was read or written.
    pub async fn edit<F>(&self, key: &S::Key, edit: F) -> Result<()>
    where
        F: Fn(&mut S::Document) -> Result<()> + Send + Sync + 'static,
    {
        self.edits.join(key.clone(), Arc::new(edit)).await
    }
}

/// Writes all edits, in as few writes as the cloud accepts. Returns the answer to each edit.
async fn write_all<S: DocumentStore>(
    store: &S,
    key: &S::Key,
    edits: &[Edit<S::Document>],
) -> Vec<Result<()>> {
    let mut answers = vec![Ok(()); edits.len()];
    let mut groups = vec![(0..edits.len()).collect::<Vec<_>>()];
    while let Some(mut group) = groups.pop() {
        match write_group(store, key, edits, &mut group, &mut answers).await {
            Err(error) if group.len() > 1 && (error.is_invalid() || error.is_quota()) => {
                let second = group.split_off(group.len() / 2);
                groups.extend([second, group]);
            }
            outcome => group
                .into_iter()
                .for_each(|number| answers[number] = outcome.clone()),
        }
    }
    answers
}

/// Writes one group of edits together. Edits that fail by themselves are answered, and leave the group.
async fn write_group<S: DocumentStore>(
    store: &S,
    key: &S::Key,
    edits: &[Edit<S::Document>],
    group: &mut Vec<usize>,
    answers: &mut [Result<()>],
) -> Result<()> {
    for attempt in 1.. {
        if group.is_empty() {
            break;
        }
        let before = store.read(key).await?;
        let mut document = before.document.clone();
        group.retain(|number| {
            let mut edited = document.clone();
            let outcome = edits[*number](&mut edited);
            if outcome.is_ok() {
                document = edited;
            }
            answers[*number] = outcome;
            answers[*number].is_ok()
        });
        if document == before.document {
            break;
        }
        match store.write(key, document, before.version.as_deref()).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            answer => return answer,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

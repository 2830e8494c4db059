//! Cloud objects that many Services change: one writer, and many edits in one write.
//!
//! A router's list of routes, a security group or an Azure load balancer is read and written as a whole. Each caller submits
//! an *edit*; whoever is first reads the document, applies all edits that wait, and writes it once. A document that somebody
//! else changed meanwhile is read again, and the same edits are applied again. Nothing waits for company.
//!
//! Keep fields that the program does not know (`#[serde(flatten)]`), or a write deletes what somebody configured by hand.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::{Error, Result, async_trait};
use tokio::sync::oneshot;

/// Number of times that a document is read again because somebody else changed it between our read and our write.
const ATTEMPTS: usize = 5;

/// A document and the version that the cloud gave it: an ETag, a fingerprint or a revision number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<D> {
    /// The document as it was read, or as it is to be written.
    pub document: D,
    /// The version to write against; `None` if the cloud has no versions.
    pub version: Option<String>,
}

/// Reads and writes the documents of one kind.
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// The name of a document, such as a router's ID.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// The document; two that are equal need no write.
    type Document: Clone + PartialEq + Send + Sync + 'static;

    /// Reads a document, not from a cache.
    ///
    /// # Errors
    /// The cloud's answer; every edit that waits for the document receives it.
    async fn read(&self, key: &Self::Key) -> Result<Versioned<Self::Document>>;

    /// Writes a document if its version is still `version`.
    ///
    /// # Errors
    /// *Conflict* if it has another version: it is read again. *Invalid* and *quota* if an edit is to blame: the edits are
    /// written in smaller groups, until the one to blame is alone.
    async fn write(&self, key: &Self::Key, document: Self::Document, version: Option<&str>) -> Result<()>;
}

/// Changes a document in memory. It may be called several times, so it must lead to the same result when its work is done
/// already. An error leaves the document as it was before this edit, and is answered to its caller alone.
type Edit<D> = Arc<dyn Fn(&mut D) -> Result<()> + Send + Sync>;

struct Pending<D> {
    edit: Edit<D>,
    answer: oneshot::Sender<Result<()>>,
}

/// Pending edits of one document, and the right to write it.
struct Turn<D> {
    pending: Mutex<Vec<Pending<D>>>,
    writer: tokio::sync::Mutex<()>,
}

/// The documents of one [`DocumentStore`]. Clones share everything.
pub struct SharedDocuments<S: DocumentStore>(Arc<Inner<S>>);

struct Inner<S: DocumentStore> {
    store: S,
    turns: Turns<S::Key, S::Document>,
}

type Turns<K, D> = Mutex<HashMap<K, Arc<Turn<D>>>>;

impl<S: DocumentStore> Clone for SharedDocuments<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: DocumentStore> SharedDocuments<S> {
    /// The documents behind `store`.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self(Arc::new(Inner { store, turns: Mutex::default() }))
    }

    /// The store, for reads that change nothing.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// Applies an edit, and returns once the document is written with it or needed no write.
    ///
    /// The call may be dropped at any await: the edit is then written or not, and those that were written with it are
    /// submitted again by their callers.
    ///
    /// # Errors
    /// The error of the edit; or what the cloud answered when the document was read or written.
    pub async fn edit<F>(&self, key: &S::Key, edit: F) -> Result<()>
    where
        F: Fn(&mut S::Document) -> Result<()> + Send + Sync + 'static,
    {
        let (turn, edit): (_, Edit<S::Document>) = (self.turn(key), Arc::new(edit));
        loop {
            let (answer, mut answered) = oneshot::channel();
            turn.push(Pending { edit: Arc::clone(&edit), answer });
            let writer = turn.writer.lock().await;
            match answered.try_recv() {
                Ok(answer) => return answer,
                // The writer before us took the edit along and was dropped.
                Err(oneshot::error::TryRecvError::Closed) => continue,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            self.write_all(key, turn.take()).await;
            drop(writer);
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
        }
    }

    fn turn(&self, key: &S::Key) -> Arc<Turn<S::Document>> {
        let mut turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(key.clone()).or_insert_with(|| Arc::new(Turn::default())))
    }

    /// Writes all edits, in as few writes as the cloud accepts, and answers each.
    async fn write_all(&self, key: &S::Key, edits: Vec<Pending<S::Document>>) {
        let mut groups = vec![edits];
        while let Some(mut group) = groups.pop() {
            // Whoever was dropped does not want it any more.
            group.retain(|pending| !pending.answer.is_closed());
            match self.write_group(key, &mut group).await {
                Err(error) if group.len() > 1 && (error.is_invalid() || error.is_quota()) => {
                    let second = group.split_off(group.len() / 2);
                    groups.extend([second, group]);
                }
                outcome => group.into_iter().for_each(|pending| pending.answer(outcome.clone())),
            }
        }
    }

    /// Writes one group of edits together. Those that fail by themselves are answered, and leave the group.
    async fn write_group(&self, key: &S::Key, group: &mut Vec<Pending<S::Document>>) -> Result<()> {
        for attempt in 1.. {
            if group.is_empty() {
                break;
            }
            let before = self.0.store.read(key).await?;
            let mut document = before.document.clone();
            for pending in std::mem::take(group) {
                let mut edited = document.clone();
                match (pending.edit)(&mut edited) {
                    Ok(()) => {
                        document = edited;
                        group.push(pending);
                    }
                    Err(error) => pending.answer(Err(error)),
                }
            }
            if document == before.document {
                break;
            }
            match self.0.store.write(key, document, before.version.as_deref()).await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                answer => return answer,
            }
        }
        Ok(())
    }
}

impl<D> Default for Turn<D> {
    fn default() -> Self {
        Self { pending: Mutex::default(), writer: tokio::sync::Mutex::default() }
    }
}

impl<D> Turn<D> {
    fn push(&self, pending: Pending<D>) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(pending);
    }

    fn take(&self) -> Vec<Pending<D>> {
        std::mem::take(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<D> Pending<D> {
    fn answer(self, outcome: Result<(), Error>) {
        // Whoever does not listen any more was dropped.
        let _ = self.answer.send(outcome);
    }
}

#[cfg(test)]
mod tests;

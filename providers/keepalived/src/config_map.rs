//! Reads and writes of the ConfigMap, with its resource version.

use std::sync::Arc;

use cloud_provider::{Error, Fence, Result, async_trait};
use http::StatusCode;
use parking_lot::Mutex;
use provider_kit::cluster::ClusterView;
use provider_kit::json_path::place;
use provider_kit::shared_document::{DocumentStore, Versioned};
use serde_json::{Value, json};

use crate::address_book::AddressBook;
use crate::config::Config;
use crate::metrics::AddressMetrics;

/// The store of the one document.
pub(crate) struct ConfigMapStore {
    pub(crate) config: Arc<Config>,
    pub(crate) cluster: ClusterView,
    pub(crate) fence: Fence,
    pub(crate) metrics: AddressMetrics,
    /// The document of the last read or write.
    pub(crate) last: Mutex<Option<AddressBook>>,
}

impl ConfigMapStore {
    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.config.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.config.config_map)
    }

    /// Returns the error of an answer with this status.
    fn refusal(&self, verb: &str, status: StatusCode, answer: &Value) -> Error {
        let why = answer["message"]
            .as_str()
            .map_or_else(String::new, |message| format!(": {message}"));
        let text = format!(
            "{verb} of {} was answered {status}{why}",
            self.config.place()
        );
        match status {
            StatusCode::CONFLICT => Error::conflict(text),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Error::unauthorized(format!(
                "{text}. The role needs the verbs get, create and update for configmaps in namespace {}",
                self.config.namespace
            )),
            // One of the entries may be the cause: the changes are written in smaller groups.
            StatusCode::UNPROCESSABLE_ENTITY => Error::invalid(text),
            StatusCode::NOT_FOUND => Error::other(format!("{text}. Create namespace {} first", self.config.namespace)),
            _ => Error::other(text),
        }
        .with_status(status.as_u16())
    }

    fn remember(&self, book: &AddressBook) {
        self.metrics.used(book.used());
        *self.last.lock() = Some(book.clone());
    }
}

#[async_trait]
impl DocumentStore for ConfigMapStore {
    type Key = ();
    type Document = AddressBook;

    async fn read(&self, (): &()) -> Result<Versioned<AddressBook>> {
        let (status, object) = self.cluster.get(&self.path()).await?;
        let object = match status {
            StatusCode::NOT_FOUND => Value::Null,
            status if status.is_success() => object,
            status => return Err(self.refusal("the read", status, &object)),
        };
        let version = object["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned);
        let document =
            AddressBook::read(object).map_err(|error| error.context(self.config.place()))?;
        self.remember(&document);
        Ok(Versioned { document, version })
    }

    async fn write(&self, (): &(), document: AddressBook, version: Option<&str>) -> Result<()> {
        self.fence.check()?;
        let mut object = document.render(&self.config.namespace, &self.config.config_map)?;
        let (status, answer) = match version {
            Some(version) => {
                *place(&mut object, &["metadata", "resourceVersion"]) = json!(version);
                self.cluster.replace(&self.path(), &object).await?
            }
            None => self.cluster.create(&self.collection(), &object).await?,
        };
        match status {
            status if status.is_success() => {
                self.remember(&document);
                Ok(())
            }
            // Deleted since it was read: it is read again, and created.
            StatusCode::NOT_FOUND if version.is_some() => Err(Error::conflict(format!(
                "{} was deleted",
                self.config.place()
            ))),
            status => {
                if status == StatusCode::CONFLICT {
                    self.metrics.conflict();
                }
                Err(self.refusal("the write", status, &answer))
            }
        }
    }
}

//! Shared documents: resources that many Services or Nodes change, each read and written as a whole.

use std::collections::HashMap;

use cloud_provider::{Result, async_trait};
use parking_lot::Mutex;
use provider_kit::shared_document::{DocumentStore, SharedDocuments, Versioned};
use serde_json::Value;

use crate::arm::{
    Arm, LOAD_BALANCERS, PUBLIC_ADDRESSES, ROUTE_TABLES, ResourceType, SECURITY_GROUPS, SharedArm,
    place_of,
};
use crate::config::ResourceGroup;
use crate::load_balancers::members::unbind;

/// The types of shared documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DocumentKind {
    LoadBalancer,
    SecurityGroup,
    RouteTable,
}

/// The name of a shared document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DocumentKey {
    pub(crate) kind: DocumentKind,
    pub(crate) group: ResourceGroup,
    pub(crate) name: String,
}

impl DocumentKind {
    pub(crate) fn resource_type(self) -> &'static ResourceType {
        match self {
            Self::LoadBalancer => &LOAD_BALANCERS,
            Self::SecurityGroup => &SECURITY_GROUPS,
            Self::RouteTable => &ROUTE_TABLES,
        }
    }
}

/// The documents as Azure has them. `null` stands for a document that does not exist.
pub(crate) struct Documents {
    arm: SharedArm,
    /// The group of the scale sets.
    nodes: ResourceGroup,
    /// The documents as they were last read or written.
    known: Mutex<HashMap<DocumentKey, Value>>,
}

/// Shared documents with one writer each.
pub(crate) type Shared = SharedDocuments<Documents>;

impl Documents {
    pub(crate) fn new(arm: SharedArm, nodes: ResourceGroup) -> Self {
        Self {
            arm,
            nodes,
            known: Mutex::default(),
        }
    }

    pub(crate) fn arm(&self) -> &Arm {
        &self.arm
    }

    /// Reads a document now.
    pub(crate) async fn get(&self, key: &DocumentKey) -> Result<Value> {
        let found = self
            .arm
            .get::<Value>(key.kind.resource_type(), &key.group, &[&key.name])
            .await?;
        let document = found.unwrap_or_default();
        self.note(key, &document);
        Ok(document)
    }

    /// Returns a document as it was last read or written.
    pub(crate) fn last(&self, key: &DocumentKey) -> Value {
        self.known.lock().get(key).cloned().unwrap_or_default()
    }

    /// Returns `true` if the document was read before.
    pub(crate) fn knows(&self, key: &DocumentKey) -> bool {
        self.known.lock().contains_key(key)
    }

    pub(crate) fn note(&self, key: &DocumentKey, document: &Value) {
        self.known.lock().insert(key.clone(), document.clone());
    }
}

#[async_trait]
impl DocumentStore for Documents {
    type Key = DocumentKey;
    type Document = Value;

    async fn read(&self, key: &DocumentKey) -> Result<Versioned<Value>> {
        let document = self.get(key).await?;
        let version = document["etag"].as_str().map(str::to_owned);
        Ok(Versioned { document, version })
    }

    /// Writes the document, which has its version; `null` deletes it.
    async fn write(
        &self,
        key: &DocumentKey,
        document: Value,
        _version: Option<&str>,
    ) -> Result<()> {
        let of = key.kind.resource_type();
        if document.is_null() {
            match self.arm.delete(of, &key.group, &[&key.name]).await {
                // A load balancer cannot be deleted while models of scale sets refer to its pools.
                Err(error) if error.code().contains("InUseByVirtualMachineScaleSet") => {
                    unbind(&self.arm, &self.last(key), &self.nodes).await?;
                    self.arm.delete(of, &key.group, &[&key.name]).await?;
                }
                outcome => outcome?,
            }
            self.note(key, &Value::Null);
            return Ok(());
        }
        match self.arm.put(of, &key.group, &[&key.name], &document).await {
            Ok(written) => self.note(key, &written),
            // The caller tries again, because the error is a conflict.
            Err(error) if error.code() == "ReferencedResourceNotProvisioned" => {
                self.provision(&error.to_string()).await?;
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Documents {
    /// Writes the public address that an error names again: then Azure tries to provision it again.
    async fn provision(&self, error: &str) -> Result<()> {
        let words =
            error.split(|character: char| character.is_whitespace() || "'\",".contains(character));
        let mut ids = words
            .map(|words| words.trim_end_matches('.'))
            .filter(|text| text.contains("/publicIPAddresses/"));
        let Some((group, name)) = ids.next().and_then(place_of) else {
            return Ok(());
        };
        if let Some(address) = self
            .arm
            .get::<Value>(&PUBLIC_ADDRESSES, &group, &[name])
            .await?
        {
            self.arm
                .write(&PUBLIC_ADDRESSES, &group, &[name], &address)
                .await?;
        }
        Ok(())
    }
}

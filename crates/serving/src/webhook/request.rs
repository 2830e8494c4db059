//! AdmissionRequests, with their objects as they were sent.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Request of an AdmissionReview. Objects are kept as JSON text, because a parsed object may take thirty times as much
/// memory, and most reviews are decided by the kind alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Id of the request; the answer carries it, too.
    #[serde(deserialize_with = "text")]
    pub uid: String,
    /// Type of the object.
    pub kind: GroupVersionKind,
    /// Subresource of the request, such as `status`; empty for the whole object.
    #[serde(deserialize_with = "text")]
    pub sub_resource: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[serde(deserialize_with = "text")]
    pub operation: String,
    /// Name of the object; empty if the API server is to generate it.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// Namespace of the object, if it has one.
    #[serde(deserialize_with = "text")]
    pub namespace: String,
    /// JSON of the user who sends the request.
    pub user_info: Option<Box<RawValue>>,
    /// JSON of the object.
    pub object: Option<Box<RawValue>>,
    /// JSON of the object before an update or a deletion.
    pub old_object: Option<Box<RawValue>>,
    /// JSON of the options of the operation.
    pub options: Option<Box<RawValue>>,
    /// If set, nothing will be stored.
    pub dry_run: Option<bool>,
}

impl AdmissionRequest {
    /// Parses the object; `None` if the request has none. A type with declared fields uses no memory for others.
    ///
    /// # Errors
    /// The object is not of this type.
    pub fn object<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        parsed(self.object.as_deref())
    }

    /// Parses the object as it was before; `None` if there was none.
    ///
    /// # Errors
    /// The object is not of this type.
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        parsed(self.old_object.as_deref())
    }

    /// Bytes of JSON of both objects.
    #[must_use]
    pub fn object_bytes(&self) -> usize {
        [&self.object, &self.old_object]
            .into_iter()
            .flatten()
            .map(|object| object.get().len())
            .sum()
    }
}

fn parsed<T: DeserializeOwned>(object: Option<&RawValue>) -> Result<Option<T>, String> {
    let parse = |object: &RawValue| serde_json::from_str(object.get());
    object
        .map(parse)
        .transpose()
        .map_err(|error| format!("cannot parse the object: {error}"))
}

/// Type of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "text")]
    pub group: String,
    /// Version of the group.
    #[serde(deserialize_with = "text")]
    pub version: String,
    /// Kind, such as `PersistentVolume`.
    #[serde(deserialize_with = "text")]
    pub kind: String,
}

/// A review around a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Review {
    #[serde(deserialize_with = "text")]
    pub(super) api_version: String,
    #[serde(deserialize_with = "text")]
    pub(super) kind: String,
    pub(super) request: Option<AdmissionRequest>,
}

/// Longest name that is read, in bytes; no name of the API is longer than 253.
const LONGEST: usize = 1024;

/// Parses a text; `null` is the empty one.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.len() > LONGEST {
        return Err(D::Error::custom(format!(
            "a name has {} bytes, more than {LONGEST}",
            text.len()
        )));
    }
    Ok(text)
}

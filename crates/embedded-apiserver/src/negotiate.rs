//! Content negotiation: the form that a client accepts, and encoding of responses in that form.

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::resources::Resource;
use crate::status::ApiError;
use crate::store::{Stored, with_kind};
use crate::{events, table};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
    /// Rows and columns, as `kubectl get` prints.
    Table,
    /// Metadata of the object only.
    Metadata,
}

const NOT_ACCEPTABLE: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

impl Form {
    /// Returns the first form in `Accept` that the server has.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if accept.trim().is_empty() {
            return Ok(Self::Json);
        }
        accept.split(',').find_map(Self::one).ok_or_else(|| {
            let mut error = ApiError::new(406, "NotAcceptable", NOT_ACCEPTABLE);
            error.details = Some(json!({}));
            error
        })
    }

    fn one(clause: &str) -> Option<Self> {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next()?;
        let params: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let param = |name: &str| {
            params
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        match media {
            "application/yaml" | "text/yaml" => Some(Self::Yaml),
            "application/json" | "application/*" | "*/*" => match param("as") {
                None => Some(Self::Json),
                Some(_) if param("g") != Some("meta.k8s.io") || param("v") != Some("v1") => None,
                Some("Table") => Some(Self::Table),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
                Some(_) => None,
            },
            _ => None,
        }
    }
}

/// Content of a Table's rows: nothing, the object's metadata (the default), or the whole object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn of(option: Option<&str>) -> Self {
        match option {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// Form in which one client sees the objects of a resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) resource: &'static Resource,
    pub(crate) form: Form,
    pub(crate) include: Include,
    /// Seconds since the epoch, for ages.
    pub(crate) now: i64,
}

impl View {
    /// Encodes an object in the client's form; for YAML as JSON, because the response is converted at the end.
    pub(crate) fn object(&self, stored: &Stored, first: bool) -> Bytes {
        match self.form {
            Form::Json | Form::Yaml => self.plain(stored),
            Form::Table => {
                let value = self.value(stored);
                let rows = vec![table::row(self, &value)];
                let meta = json!({"resourceVersion": stored.revision.to_string()});
                to_bytes(&table::table(self, meta, rows, first))
            }
            Form::Metadata => {
                let value = stored.value();
                let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]});
                to_bytes(&partial)
            }
        }
    }

    /// Encodes an object as JSON with its kind.
    pub(crate) fn plain(&self, stored: &Stored) -> Bytes {
        if self.is_converted() {
            return with_kind(
                &to_bytes(&self.value(stored)),
                self.resource.kind,
                &self.resource.api_version(),
            );
        }
        stored.single(self.resource.kind, &self.resource.api_version())
    }

    /// Returns the parsed object without its kind.
    pub(crate) fn value(&self, stored: &Stored) -> Value {
        let value = stored.value();
        if self.is_converted() {
            events::from_core(&value)
        } else {
            value
        }
    }

    fn is_converted(&self) -> bool {
        self.resource.group == "events.k8s.io"
    }

    /// Encodes a list with its metadata.
    pub(crate) fn list(&self, metadata: &Value, objects: &[std::sync::Arc<Stored>]) -> Bytes {
        match self.form {
            Form::Json | Form::Yaml => self.plain_list(metadata, objects),
            Form::Table => {
                let rows = objects
                    .iter()
                    .map(|stored| table::row(self, &self.value(stored)))
                    .collect();
                to_bytes(&table::table(self, metadata.clone(), rows, true))
            }
            Form::Metadata => {
                let items: Vec<Value> = objects
                    .iter()
                    .map(|s| json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": s.value()["metadata"]}))
                    .collect();
                to_bytes(
                    &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}),
                )
            }
        }
    }

    fn plain_list(&self, metadata: &Value, objects: &[std::sync::Arc<Stored>]) -> Bytes {
        let size: usize = objects.iter().map(|stored| stored.body.len() + 1).sum();
        let mut out = BytesMut::with_capacity(size + 256);
        let head = format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
            self.resource.kind,
            self.resource.api_version()
        );
        out.put_slice(head.as_bytes());
        for (index, stored) in objects.iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            if self.is_converted() {
                out.put_slice(&to_bytes(&self.value(stored)));
            } else {
                out.put_slice(&stored.body);
            }
        }
        out.put_slice(b"]}");
        out.freeze()
    }
}

/// Encodes `value` as JSON.
pub(crate) fn to_bytes(value: &Value) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// Returns an answer with a JSON body.
pub(crate) fn json_response(code: u16, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

/// Returns a response in YAML if the client requested it, in JSON otherwise.
pub(crate) fn respond(form: Form, code: u16, body: Bytes) -> Response<Body> {
    if form != Form::Yaml {
        return json_response(code, body);
    }
    let yaml = serde_json::from_slice::<Value>(&body)
        .ok()
        .and_then(|value| serde_saphyr::to_string(&value).ok());
    let mut response = json_response(code, yaml.map_or(body, Bytes::from));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/yaml"),
    );
    response
}

/// Returns the response to a failed request: a Status in JSON, or in YAML if the client requested it.
pub(crate) fn error_response(form: Form, error: &ApiError) -> Response<Body> {
    let mut response = respond(form, error.code, to_bytes(&error.to_value()));
    let retry = error
        .details
        .as_ref()
        .and_then(|details| details["retryAfterSeconds"].as_i64());
    if let Some(seconds) = retry {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

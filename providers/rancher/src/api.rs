//! The HTTP API `v2-beta`: discovery of collections, links and actions of resources, and the meaning of refusals.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use cloud_provider::{Error, Result, Setup};
use http::HeaderMap;
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::transport::{Builder, Call, Method, Refusal, RetryPolicy, Transport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::config::Config;

/// The header of the API's root with the URL of the schemas.
const SCHEMAS: &str = "x-api-schemas";
/// Templates of paths below the base URL, by their number of parts.
const TEMPLATES: [&str; 7] = [
    "",
    "/{}",
    "/{}/{}",
    "/{}/{}/{}",
    "/{}/{}/{}/{}",
    "/{}/{}/{}/{}/{}",
    "/{}/{}/{}/{}/{}/{}",
];

/// Returns the builder of a client for the API.
#[must_use]
pub fn cloud(config: &Config, setup: &Setup) -> Builder {
    Transport::builder(config.endpoint.clone())
        .setup(setup)
        .credential(config.credential.clone())
        .validate(Call::get("", &[]))
        .retry_policy(RetryPolicy {
            timeout: config.timeout,
            ..RetryPolicy::default()
        })
        .paging(Paging::token_link("marker", "/pagination/next").size("limit", 100))
        .refusals(refusal)
        .log_bodies(config.debug)
}

/// The API with one environment API key.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) http: Transport,
    /// URLs of the collections, by type.
    collections: Arc<OnceCell<BTreeMap<String, String>>>,
}

/// The links and actions of a resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Links {
    id: String,
    #[serde(deserialize_with = "or_none")]
    links: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_none")]
    actions: BTreeMap<String, String>,
}

/// Reads null as an empty map: one such resource must not make a whole list an error.
fn or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Deserialize)]
struct Collection<T> {
    data: Vec<T>,
}

impl Links {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn has_link(&self, link: &str) -> bool {
        self.links.contains_key(link)
    }

    /// Checks that the resource offers an action in its current state.
    ///
    /// # Errors
    /// *Conflict* if it does not.
    pub(crate) fn check_action(&self, action: &str) -> Result<&str> {
        let url = self.actions.get(action).map(String::as_str);
        url.ok_or_else(|| {
            Error::conflict(format!(
                "resource {} does not offer action {action} in its current state",
                self.id
            ))
        })
    }
}

impl Api {
    pub(crate) fn new(http: Transport) -> Self {
        Self {
            http: http.error_mapping(error_mapping),
            collections: Arc::default(),
        }
    }

    /// Reads the URLs of all collections, once.
    pub(crate) async fn collections(&self) -> Result<&BTreeMap<String, String>> {
        let read = async || {
            let root = self.http.send(Call::get("", &[])).await?;
            let schemas = root
                .headers
                .get(SCHEMAS)
                .and_then(|url| url.to_str().ok())
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "{} has no header X-API-Schemas: it is no API of Rancher 1.x",
                        self.http.base()
                    ))
                })?;
            let all: Collection<Links> = self
                .http
                .read(self.call(Method::GET, schemas, "schemas")?)
                .await?;
            let url = |mut schema: Links| Some((schema.id, schema.links.remove("collection")?));
            Ok(all.data.into_iter().filter_map(url).collect())
        };
        self.collections.get_or_try_init(read).await
    }

    /// Returns a call of a URL that the API has answered. Only its path below the base URL is used, so that no answer
    /// can send the API key to another host.
    fn call(&self, method: Method, url: &str, what: &str) -> Result<Call> {
        let path_of = |url: &str| match url.split_once("://") {
            Some((_, rest)) => rest
                .find('/')
                .map_or_else(String::new, |at| rest[at..].to_owned()),
            None => url.to_owned(),
        };
        let path = path_of(url);
        let base = path_of(&self.http.base());
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let parts = path
            .strip_prefix(base.trim_end_matches('/'))
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let parts: Option<Vec<&str>> =
            parts.map(|rest| rest.split('/').filter(|part| !part.is_empty()).collect());
        let template = parts.as_ref().and_then(|parts| TEMPLATES.get(parts.len()));
        let (Some(parts), Some(template)) = (&parts, template) else {
            return Err(Error::other(format!(
                "Rancher answered the URL {url}, which is not below {}",
                self.http.base()
            )));
        };
        let operation = format!("{method} {what}");
        let call = Call::new(method, template, parts).operation(operation);
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Ok(pairs.fold(call, |call, (key, value)| call.query(key, value)))
    }

    async fn collection(&self, method: Method, kind: &str) -> Result<Call> {
        let missing = || {
            Error::invalid(format!(
                "the API key shows no collection of type {kind}; use an environment API key"
            ))
        };
        let url = self.collections().await?.get(kind).ok_or_else(missing)?;
        self.call(method, url, kind)
    }

    /// Returns the call that lists a collection.
    pub(crate) async fn listing(&self, kind: &str, filters: &[(&str, &str)]) -> Result<Call> {
        let call = self.collection(Method::GET, kind).await?;
        Ok(filters
            .iter()
            .fold(call, |call, (key, value)| call.query(key, value)))
    }

    /// Reads a collection to its end.
    pub(crate) async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        kind: &str,
        filters: &[(&str, &str)],
        shared_priority: &SharedPriority,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        self.http
            .list(
                self.listing(kind, filters).await?,
                "data",
                shared_priority,
                keep,
                key,
            )
            .await
    }

    /// Reads resources of a collection that must be complete.
    pub(crate) async fn all<T: DeserializeOwned, K: Hash>(
        &self,
        kind: &str,
        filters: &[(&str, &str)],
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        let list = self
            .list(
                kind,
                filters,
                &SharedPriority::default(),
                |item: T| item,
                key,
            )
            .await?;
        Ok(list.complete()?.into_items())
    }

    /// Follows a link of a resource to a collection.
    pub(crate) async fn linked<T: DeserializeOwned, K: Hash>(
        &self,
        from: &Links,
        link: &str,
        shared_priority: &SharedPriority,
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        let url = from
            .links
            .get(link)
            .ok_or_else(|| Error::invalid(format!("resource {} has no link {link}", from.id)))?;
        let call = self.call(Method::GET, url, link)?;
        let list = self
            .http
            .list(call, "data", shared_priority, |item| item, key)
            .await?;
        Ok(list.complete()?.into_items())
    }

    /// Reads a resource by its ID.
    pub(crate) async fn by_id<T: DeserializeOwned>(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<Option<T>> {
        let url = format!(
            "{}/{id}",
            self.collections().await?.get(kind).map_or("", |url| url)
        );
        self.http.find(self.call(Method::GET, &url, kind)?).await
    }

    pub(crate) async fn create<T: DeserializeOwned>(&self, kind: &str, body: &Value) -> Result<T> {
        self.http
            .read(self.collection(Method::POST, kind).await?.json(body))
            .await
    }

    pub(crate) async fn update(&self, resource: &Links, body: &Value) -> Result<()> {
        let call = self.call(
            Method::PUT,
            resource.links.get("self").map_or("", |url| url),
            "resource",
        )?;
        self.http.send(call.json(body)).await.map(drop)
    }

    /// Deletes a resource. Returns `false` if the API does not know it.
    pub(crate) async fn delete(&self, resource: &Links) -> Result<bool> {
        let call = self.call(
            Method::DELETE,
            resource.links.get("self").map_or("", |url| url),
            "resource",
        )?;
        match self.http.send(call).await {
            Err(error) if error.is_not_found() => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// Carries out an action of a resource.
    ///
    /// # Errors
    /// *Conflict* if the resource does not offer the action in its current state.
    pub(crate) async fn act(&self, resource: &Links, action: &str, body: &Value) -> Result<()> {
        let url = resource.check_action(action)?;
        self.http
            .send(self.call(Method::POST, url, action)?.json(body))
            .await
            .map(drop)
    }
}

/// Reads a refusal of the API. A 404 without the type `error` is a gateway's.
fn refusal(_: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |key: &str| body[key].as_str().map(str::to_owned);
    (body["type"] == "error").then(|| Refusal {
        code: text("code").unwrap_or_else(|| Refusal::UNSPECIFIED.to_owned()),
        message: text("message").or_else(|| text("code")).unwrap_or_default(),
        details: text("detail")
            .into_iter()
            .chain(text("fieldName").map(|name| format!("field {name}")))
            .collect(),
    })
}

/// Maps the codes of refusals that another read and another attempt may resolve.
fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    let is_passing = [
        "NotUnique",
        "InvalidState",
        "InvalidReference",
        "ActionNotAvailable",
    ]
    .contains(&&*refusal.code);
    if is_passing {
        Some(Error::conflict)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_without_links_and_actions_is_read() {
        let read: Links =
            serde_json::from_str(r#"{"id": "1s1", "links": null, "actions": null}"#).unwrap();
        assert_eq!((read.id(), read.has_link("self")), ("1s1", false));
    }
}

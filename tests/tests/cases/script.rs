//! A scripted provider from a case.
//!
//! Rules: PROV-40 to PROV-46, PROV-50 to PROV-53, PROV-56.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::scripted::{Answer, Capability, ScriptedProvider};
use cloud_provider::{Error, InstanceMetadata, LoadBalancerStatus, Result, Zone};
use serde::Deserialize;

use super::comparison::Expected;
use super::schema::{Address, node_addresses};

/// Script of the provider, in `given.provider`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderScript {
    name: Option<String>,
    instances: Option<bool>,
    instances_v2: Option<bool>,
    zones: Option<bool>,
    instance_id: Option<Scripted<String>>,
    node_addresses_by_provider_id: Option<Scripted<Vec<Address>>>,
    node_addresses: Option<Scripted<Vec<Address>>>,
    instance_type_by_provider_id: Option<Scripted<String>>,
    instance_type: Option<Scripted<String>>,
    zone_by_provider_id: Option<Scripted<ZoneForm>>,
    zone_by_node_name: Option<Scripted<ZoneForm>>,
    instance_exists_by_provider_id: Option<Scripted<bool>>,
    instance_shutdown_by_provider_id: Option<Scripted<bool>>,
    instance_exists: Option<Scripted<bool>>,
    instance_shutdown: Option<Scripted<bool>>,
    instance_metadata: Option<Scripted<Option<MetadataForm>>>,
    /// Response of `get_load_balancer`: `true` if the load balancer exists.
    get_load_balancer: Option<Scripted<bool>>,
    ensure_load_balancer: Option<Scripted<Option<LoadBalancerStatus>>>,
    ensure_load_balancer_deleted: Option<Scripted<()>>,
}

impl ProviderScript {
    /// Returns the provider, with the first shape still on: controllers are not made for a cloud without machines, but
    /// the cloud may lose them later. See [`withdraw`](Self::withdraw).
    pub(crate) fn provider(&self) -> Arc<ScriptedProvider> {
        let provider = ScriptedProvider::named(self.name.as_deref().unwrap_or("fake"));
        let addresses = |list: Vec<Address>| node_addresses(Some(list));
        provider
            .switch(Capability::InstancesV2, self.instances_v2.unwrap_or(false))
            .switch(Capability::Zones, self.zones.unwrap_or(false))
            .script(|script| {
                script.instance_id = answer(&self.instance_id, |id| id);
                script.node_addresses_by_provider_id =
                    answer(&self.node_addresses_by_provider_id, addresses);
                script.node_addresses = answer(&self.node_addresses, addresses);
                script.instance_type_by_provider_id =
                    answer(&self.instance_type_by_provider_id, |name| name);
                script.instance_type = answer(&self.instance_type, |name| name);
                script.zone_by_provider_id = answer(&self.zone_by_provider_id, Zone::from);
                script.zone_by_node_name = answer(&self.zone_by_node_name, Zone::from);
                script.instance_exists_by_provider_id =
                    answer(&self.instance_exists_by_provider_id, |yes| yes);
                script.instance_shutdown_by_provider_id =
                    answer(&self.instance_shutdown_by_provider_id, |yes| yes);
                script.instance_exists = answer(&self.instance_exists, |yes| yes);
                script.instance_shutdown = answer(&self.instance_shutdown, |yes| yes);
                script.instance_metadata = answer(&self.instance_metadata, |metadata| {
                    metadata.map(InstanceMetadata::from)
                });
                script.get_load_balancer = answer(&self.get_load_balancer, existing);
                script.ensure_load_balancer = answer(&self.ensure_load_balancer, |status| status);
                script.ensure_load_balancer_deleted =
                    answer(&self.ensure_load_balancer_deleted, |()| ());
            });
        Arc::new(provider)
    }

    /// Takes the first shape away if the case has none.
    pub(crate) fn withdraw(&self, provider: &ScriptedProvider) {
        provider.switch(Capability::Instances, self.instances.unwrap_or(true));
    }
}

/// Returns a load balancer that exists, or not.
pub(crate) fn existing(exists: bool) -> Option<LoadBalancerStatus> {
    exists.then(LoadBalancerStatus::default)
}

fn answer<A: ?Sized, T: Clone, U: Clone + Send + Sync + 'static>(
    scripted: &Option<Scripted<T>>,
    convert: impl FnOnce(T) -> U,
) -> Option<Answer<A, U>> {
    scripted
        .as_ref()
        .map(|scripted| Answer::always(scripted.0.clone().map(convert)))
}

/// `{value: …}` or `{error: …}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    try_from = "RawScripted<T>",
    bound(deserialize = "T: Deserialize<'de> + Default")
)]
pub(crate) struct Scripted<T>(pub(crate) Result<T>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "T: Deserialize<'de>"))]
struct RawScripted<T> {
    #[serde(default)]
    value: Expected<Option<T>>,
    error: Option<ProviderError>,
}

impl<T: Default> TryFrom<RawScripted<T>> for Scripted<T> {
    type Error = &'static str;

    fn try_from(
        RawScripted { value, error }: RawScripted<T>,
    ) -> std::result::Result<Self, Self::Error> {
        match (value, error) {
            (Expected::Exactly(Some(_)), Some(_)) => {
                Err("a scripted answer has `value` or `error`, not both")
            }
            (_, Some(error)) => Ok(Self(Err(error.0))),
            (Expected::Exactly(value), None) => Ok(Self(Ok(value.unwrap_or_default()))),
            (Expected::Anything, None) => Err("a scripted answer has `value` or `error`"),
        }
    }
}

/// An error of the provider.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawProviderError")]
pub(crate) struct ProviderError(pub(crate) Error);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProviderError {
    kind: Option<Kind>,
    message: Option<String>,
    wraps: Option<Kind>,
    retry_after_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Kind {
    InstanceNotFound,
    NotImplemented,
    ImplementedElsewhere,
    RetryAfter,
    Other,
}

impl TryFrom<RawProviderError> for ProviderError {
    type Error = String;

    fn try_from(raw: RawProviderError) -> std::result::Result<Self, String> {
        let RawProviderError {
            kind,
            message,
            wraps,
            retry_after_ms,
        } = raw;
        match (kind, wraps) {
            (None | Some(Kind::Other), Some(wrapped)) => {
                let inner =
                    matches!(wrapped, Kind::Other | Kind::RetryAfter).then(|| "inner".to_owned());
                let message = message.ok_or("an error that wraps another one has a `message`")?;
                Ok(Self(
                    error(wrapped, inner, retry_after_ms)?.context(message),
                ))
            }
            (Some(kind), Some(_)) => Err(format!(
                "an error that wraps another one is of kind Other, not {kind:?}"
            )),
            (Some(kind), None) => error(kind, message, retry_after_ms).map(Self),
            (None, None) => Err("an error has a `kind`".to_owned()),
        }
    }
}

/// Returns an error that wraps nothing. Sentinels have a text of their own, and a delay belongs to one kind only.
fn error(
    kind: Kind,
    message: Option<String>,
    retry_after_ms: Option<u64>,
) -> std::result::Result<Error, String> {
    if retry_after_ms.is_some() && kind != Kind::RetryAfter {
        return Err(format!(
            "`retry_after_ms` does not belong to an error of kind {kind:?}"
        ));
    }
    let needs = |what: &str| format!("an error of kind {kind:?} has `{what}`");
    match (kind, message) {
        (Kind::Other, message) => Ok(Error::other(message.ok_or_else(|| needs("message"))?)),
        (Kind::RetryAfter, message) => {
            let delay =
                Duration::from_millis(retry_after_ms.ok_or_else(|| needs("retry_after_ms"))?);
            Ok(Error::retry_in(
                message.ok_or_else(|| needs("message"))?,
                delay,
            ))
        }
        (_, Some(_)) => Err(format!(
            "an error of kind {kind:?} has a text of its own, no `message`"
        )),
        (Kind::InstanceNotFound, None) => Ok(Error::instance_not_found()),
        (Kind::NotImplemented, None) => Ok(Error::not_implemented()),
        (Kind::ImplementedElsewhere, None) => Ok(Error::implemented_elsewhere()),
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneForm {
    failure_domain: Option<String>,
    region: Option<String>,
}

impl From<ZoneForm> for Zone {
    fn from(form: ZoneForm) -> Self {
        Self {
            failure_domain: form.failure_domain.unwrap_or_default(),
            region: form.region.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetadataForm {
    provider_id: Option<String>,
    instance_type: Option<String>,
    zone: Option<String>,
    region: Option<String>,
    node_addresses: Option<Vec<Address>>,
    additional_labels: Option<BTreeMap<String, String>>,
}

impl From<MetadataForm> for InstanceMetadata {
    fn from(form: MetadataForm) -> Self {
        Self {
            provider_id: form.provider_id.unwrap_or_default(),
            instance_type: form.instance_type.unwrap_or_default(),
            zone: form.zone.unwrap_or_default(),
            region: form.region.unwrap_or_default(),
            node_addresses: node_addresses(form.node_addresses),
            additional_labels: form.additional_labels.unwrap_or_default(),
        }
    }
}

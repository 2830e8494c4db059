//! Azure Resource Manager: resource types, paths, lists, changes and the operations that these begin.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use futures::future::try_join_all;
use http::HeaderMap;
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::transport::{Answer, Call, Method, Refusal, Transport};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::config::ResourceGroup;

/// A type of resources: paths, and the lane whose requests a 429 delays.
#[derive(Debug)]
pub(crate) struct ResourceType {
    pub(crate) list: &'static str,
    pub(crate) item: &'static str,
    /// Provider and type, as in an ID.
    pub(crate) kind: &'static str,
    version: &'static str,
    lane: usize,
}

macro_rules! resource_type {
    ($kind:literal, $version:ident, $lane:literal) => {
        ResourceType {
            list: concat!("/subscriptions/{subscription}/resourceGroups/{group}/providers/", $kind),
            item: concat!("/subscriptions/{subscription}/resourceGroups/{group}/providers/", $kind, "/{name}"),
            kind: $kind,
            version: $version,
            lane: $lane,
        }
    };
}

const NETWORK: &str = "2024-05-01";
const COMPUTE: &str = "2024-07-01";
/// The version of the network interfaces and public addresses of scale sets.
const SCALE_SET_NETWORK: &str = "2018-10-01";

pub(crate) const LOAD_BALANCERS: ResourceType = resource_type!("Microsoft.Network/loadBalancers", NETWORK, 0);
pub(crate) const PUBLIC_ADDRESSES: ResourceType = resource_type!("Microsoft.Network/publicIPAddresses", NETWORK, 1);
pub(crate) const SECURITY_GROUPS: ResourceType = resource_type!("Microsoft.Network/networkSecurityGroups", NETWORK, 2);
pub(crate) const ROUTE_TABLES: ResourceType = resource_type!("Microsoft.Network/routeTables", NETWORK, 3);
pub(crate) const INTERFACES: ResourceType = resource_type!("Microsoft.Network/networkInterfaces", NETWORK, 4);
pub(crate) const PRIVATE_LINKS: ResourceType = resource_type!("Microsoft.Network/privateLinkServices", NETWORK, 5);
pub(crate) const MACHINES: ResourceType = resource_type!("Microsoft.Compute/virtualMachines", COMPUTE, 6);
pub(crate) const SCALE_SETS: ResourceType = resource_type!("Microsoft.Compute/virtualMachineScaleSets", COMPUTE, 7);
/// A subnet of a virtual network, and a connection to a private link service.
pub(crate) const SUBNET: (&str, &str) = (
    "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/virtualNetworks/{vnet}/subnets/{name}",
    NETWORK,
);
pub(crate) const MIGRATION: (&str, &str) = (
    "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/loadBalancers/{name}/migrateToIpBased",
    NETWORK,
);
pub(crate) const ENDPOINT_CONNECTION: (&str, &str) = (
    "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/privateLinkServices/{name}\
     /privateEndpointConnections/{connection}",
    NETWORK,
);

macro_rules! of_scale_set {
    ($rest:literal) => {
        concat!(
            "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}",
            $rest
        )
    };
}

/// A list of objects of one scale set.
pub(crate) const INSTANCES: (&str, &str) = (of_scale_set!("/virtualMachines"), COMPUTE);
pub(crate) const INSTANCE: (&str, &str) = (of_scale_set!("/virtualMachines/{instance}"), COMPUTE);
pub(crate) const INSTANCE_INTERFACES: (&str, &str) = (of_scale_set!("/networkInterfaces"), SCALE_SET_NETWORK);
pub(crate) const INTERFACES_OF_INSTANCE: (&str, &str) =
    (of_scale_set!("/virtualMachines/{instance}/networkInterfaces"), SCALE_SET_NETWORK);
pub(crate) const INSTANCE_ADDRESSES: (&str, &str) = (of_scale_set!("/publicipaddresses"), SCALE_SET_NETWORK);

const PROVIDER: &str = "/subscriptions/{subscription}/providers/{namespace}";
const STATUSES: &str = "/subscriptions/{subscription}/providers/Microsoft.Compute/virtualMachines";
const OPERATION: &str = "/subscriptions/{subscription}/providers/{namespace}/locations/{location}/{kind}/{operation}";

/// The number of lanes, each with a client for reads and one for changes.
pub(crate) const LANES: usize = 8;
pub(crate) const PAGING: Paging = Paging::token_link("$skiptoken", "/nextLink");

/// The first delay between two polls of an operation, the longest one, and the time after which the caller gives up.
const FIRST_POLL: Duration = Duration::from_secs(1);
const LONGEST_POLL: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(240);

/// The clients of Azure Resource Manager.
pub(crate) struct Arm {
    /// Clients by lane, for reads and for changes. A 429 pauses one of them.
    clients: Vec<[Transport; 2]>,
}

impl Arm {
    pub(crate) fn new(clients: Vec<[Transport; 2]>) -> Self {
        let meant = |pair: [Transport; 2]| pair.map(|it| it.error_mapping(error_mapping));
        Self { clients: clients.into_iter().map(meant).collect() }
    }

    /// Returns the client for reads of a resource type.
    pub(crate) fn reads(&self, of: &ResourceType) -> &Transport {
        &self.clients[of.lane][0]
    }

    pub(crate) fn get_call(of: &ResourceType, group: &ResourceGroup, name: &str) -> Call {
        Call::get(of.item, &[&group.subscription, &group.name, name]).query("api-version", of.version)
    }

    pub(crate) fn list_call(of: &ResourceType, group: &ResourceGroup) -> Call {
        Call::get(of.list, &[&group.subscription, &group.name]).query("api-version", of.version)
    }

    /// Returns a call for an object of a scale set.
    pub(crate) fn scale_set_call(
        method: Method,
        (template, version): (&'static str, &str),
        group: &ResourceGroup,
        path: &[&str],
    ) -> Call {
        let parameters: Vec<&str> =
            [&*group.subscription, &group.name].into_iter().chain(path.iter().copied()).collect();
        Call::new(method, template, &parameters).query("api-version", version)
    }

    /// Reads a resource; `None` if Azure answers that it does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        of: &ResourceType,
        group: &ResourceGroup,
        name: &str,
    ) -> Result<Option<T>> {
        self.reads(of).find(Self::get_call(of, group, name)).await
    }

    /// Reads a list of any kind to its end.
    pub(crate) async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        of: &ResourceType,
        call: Call,
        shared_priority: &SharedPriority,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        self.reads(of).list(call, "value", shared_priority, keep, key).await
    }

    /// Reads all resources of a type in a group.
    pub(crate) async fn all(&self, of: &ResourceType, group: &ResourceGroup) -> Result<Vec<Value>> {
        let id = |it: &Value| it["id"].as_str().unwrap_or_default().to_ascii_lowercase();
        let list = self.list(of, Self::list_call(of, group), &SharedPriority::default(), |it: Value| it, id).await?;
        Ok(list.complete()?.into_items())
    }

    /// Returns a call for the run-time states of all machines of the subscription.
    pub(crate) fn statuses_call(group: &ResourceGroup) -> Call {
        Call::get(STATUSES, &[&group.subscription]).query("api-version", COMPUTE).query("statusOnly", "true")
    }

    /// Reads the zones in which a resource type of `Microsoft.Network` can be created in the region.
    pub(crate) async fn zones(&self, subscription: &str, kind: &str, region: &str) -> Result<Vec<String>> {
        let call = Call::get(PROVIDER, &[subscription, "Microsoft.Network"]).query("api-version", "2021-04-01");
        let answer: Value = self.reads(&LOAD_BALANCERS).read(call.list()).await?;
        let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let types = each(&answer["resourceTypes"]).into_iter();
        let mappings = types.filter(|it| it["resourceType"] == kind).flat_map(|it| each(&it["zoneMappings"]));
        let here =
            |it: &Value| it["location"].as_str().is_some_and(|it| it.to_ascii_lowercase().replace(' ', "") == region);
        let zones = mappings.filter(here).flat_map(|it| each(&it["zones"]));
        let mut zones: Vec<_> = zones.filter_map(|it| it.as_str().map(str::to_owned)).collect();
        zones.sort();
        Ok(zones)
    }

    /// Writes a resource if its ETag is still `etag`, or if it does not exist, waits until Azure is done, and returns the result.
    pub(crate) async fn put(
        &self,
        of: &ResourceType,
        group: &ResourceGroup,
        name: &str,
        body: &Value,
        etag: Option<&str>,
    ) -> Result<Value> {
        let call = Call::put(of.item, &[&group.subscription, &group.name, name]).query("api-version", of.version);
        // A creation that arrives late must not replace what was created meanwhile.
        let call = match etag {
            Some(etag) => call.json(body).header("if-match", etag),
            None if body["id"].is_null() => call.json(body).header("if-none-match", "*"),
            None => call.json(body),
        };
        let answer = self.change(of, call).await?;
        match answer {
            Some(answer) => answer.json(),
            None => self.reads(of).read(Self::get_call(of, group, name)).await,
        }
    }

    /// Deletes a resource and waits until Azure is done; succeeds if the resource does not exist.
    pub(crate) async fn delete(&self, of: &ResourceType, group: &ResourceGroup, name: &str) -> Result<()> {
        let call = Call::delete(of.item, &[&group.subscription, &group.name, name]).query("api-version", of.version);
        match self.change(of, call).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends a change and waits until Azure is done. Returns the answer if it shows the result.
    pub(crate) async fn change(&self, of: &ResourceType, call: Call) -> Result<Option<Answer>> {
        let [reads, changes] = &self.clients[of.lane];
        let give_up = Instant::now() + LIMIT;
        let mut wait = FIRST_POLL;
        let answer = loop {
            match changes.send(call.clone()).await {
                // An operation of another client, or of this program before a restart.
                Err(error) if error.code() == "AnotherOperationInProgress" && Instant::now() + wait < give_up => {
                    sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_POLL);
                }
                outcome => break outcome?,
            }
        };
        let Some((url, is_operation)) = begun(&answer) else { return Ok(Some(answer)) };
        let operation =
            operation_call(&url).ok_or_else(|| Error::other(format!("the operation {url:?} cannot be polled")))?;
        wait = retry_after(&answer.headers).unwrap_or(FIRST_POLL);
        loop {
            sleep(wait).await;
            let state = reads.send(operation.clone()).await?;
            if is_operation {
                let body: Value = state.json()?;
                match body["status"].as_str().unwrap_or_default() {
                    "Succeeded" => return Ok(None),
                    "Failed" | "Canceled" => return Err(failure(&body)),
                    _ => {}
                }
            } else if state.status.as_u16() != 202 {
                return Ok(None);
            }
            wait = retry_after(&state.headers).unwrap_or((wait * 2).min(LONGEST_POLL));
            if Instant::now() + wait > give_up {
                let text = format!("Azure is still working after {LIMIT:?}; checking again in {LONGEST_POLL:?}");
                return Err(Error::retry_in(text, LONGEST_POLL));
            }
        }
    }

    /// Sends one read of the first page of each list, for `doctor`.
    pub(crate) async fn probe(&self, of: &[&ResourceType], group: &ResourceGroup) -> Result<()> {
        try_join_all(of.iter().map(|of| self.reads(of).send(Self::list_call(of, group).list()))).await.map(drop)
    }
}

/// Returns the URL of the operation that a change has begun, and `true` if it answers with a status.
fn begun(answer: &Answer) -> Option<(String, bool)> {
    let header = |name: &str| answer.headers.get(name).and_then(|it| it.to_str().ok()).map(str::to_owned);
    let location = || header("location").filter(|_| answer.status.as_u16() == 202).map(|url| (url, false));
    header("azure-asyncoperation").map(|url| (url, true)).or_else(location)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the call that polls the operation at a URL: its path, at the API that was configured.
fn operation_call(url: &str) -> Option<Call> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (path, query) = rest[rest.find('/')?..].split_once('?').unwrap_or((&rest[rest.find('/')?..], ""));
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let ["subscriptions", subscription, "providers", namespace, "locations", location, kind, operation] = segments[..]
    else {
        return None;
    };
    let call = Call::get(OPERATION, &[subscription, namespace, location, kind, operation]);
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Some(pairs.fold(call, |call, (key, value)| call.query(key, decoded(value))))
}

fn decoded(value: &str) -> String {
    let mut parts = value.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) => text + &char::from(byte).to_string() + &part[2..],
            None => text + "%" + part,
        }
    })
}

/// Returns the error of an operation that failed.
fn failure(operation: &Value) -> Error {
    let error = &operation["error"];
    let code = error["code"].as_str().unwrap_or("Failed").to_owned();
    let message = error["message"].as_str().unwrap_or("the operation failed").to_owned();
    let refusal = Refusal { code: code.clone(), message: message.clone(), details: Vec::new() };
    let kind = error_mapping(&refusal).unwrap_or(Error::other);
    kind(format!("{code}: {}", cloud_provider::excerpt(message))).with_code(code)
}

/// Returns what a code of Azure means.
fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    match &*refusal.code {
        "CanceledAndSupersededDueToAnotherOperation"
        | "OperationPreempted"
        | "AnotherOperationInProgress"
        | "RetryableError"
        | "PreconditionFailed"
        | "ReferencedResourceNotProvisioned" => Some(Error::conflict),
        "ScopeLocked" => Some(Error::protected),
        code if code.ends_with("LimitReached") || code.ends_with("QuotaExceeded") || code.contains("CountLimit") => {
            Some(Error::quota)
        }
        _ => None,
    }
}

/// Returns the last part of a resource's ID.
pub(crate) fn name_of(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or_default()
}

/// Returns the group and the name in a resource's ID.
pub(crate) fn place_of(id: &str) -> Option<(ResourceGroup, &str)> {
    let parts: Vec<&str> = id.trim_start_matches('/').split('/').collect();
    let (subscription, group) = (*parts.get(1)?, *parts.get(3)?);
    let is_id = parts[0].eq_ignore_ascii_case("subscriptions") && parts[2].eq_ignore_ascii_case("resourceGroups");
    let group = ResourceGroup { subscription: subscription.to_owned(), name: group.to_ascii_lowercase() };
    is_id.then(|| (group, name_of(id)))
}

pub(crate) type SharedArm = Arc<Arm>;

/// Returns the items of a list in a resource: `properties.probes`.
pub(crate) fn items<'a>(resource: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + Clone {
    resource["properties"][list].as_array().into_iter().flatten()
}

/// Returns a text in a resource; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Writes `wanted` over an object: fields that `wanted` does not have stay, and `null` removes a field.
pub(crate) fn overlay(there: &mut Value, wanted: &Value) {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            for (key, value) in wanted {
                if value.is_null() {
                    there.remove(key);
                } else {
                    overlay(there.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (there @ Value::Null, Value::Object(_)) => {
            *there = Value::Object(serde_json::Map::new());
            overlay(there, wanted);
        }
        (there, wanted) => *there = wanted.clone(),
    }
}

/// Reads a value that has the form that the API describes.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|error| Error::other(format!("an answer of Azure has an unexpected form: {error}")))
}

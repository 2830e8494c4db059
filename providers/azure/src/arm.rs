//! Azure Resource Manager: resource types, paths, lists, changes and the operations that these begin.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use http::HeaderMap;
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Answer, Call, Method, Refusal, Transport};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::config::ResourceGroup;
use crate::credentials::Identity;

/// A type of resources: paths, and the lane whose requests a 429 delays.
#[derive(Debug)]
pub(crate) struct ResourceType {
    list: &'static str,
    item: &'static str,
    /// Provider and type, as in an ID.
    pub(crate) kind: &'static str,
    version: &'static str,
    lane: usize,
}

macro_rules! resource_types {
    ($($name:ident = $kind:literal, $version:ident, $lane:literal;)*) => {$(
        pub(crate) const $name: ResourceType = ResourceType {
            list: concat!("/subscriptions/{subscription}/resourceGroups/{group}/providers/", $kind),
            item: concat!("/subscriptions/{subscription}/resourceGroups/{group}/providers/", $kind, "/{name}"),
            kind: $kind,
            version: $version,
            lane: $lane,
        };
    )*};
}

const NETWORK: &str = "2024-05-01";
const COMPUTE: &str = "2024-07-01";
/// The version of the network interfaces and public addresses of scale sets.
const SCALE_SET_NETWORK: &str = "2018-10-01";

resource_types! {
    LOAD_BALANCERS = "Microsoft.Network/loadBalancers", NETWORK, 0;
    PUBLIC_ADDRESSES = "Microsoft.Network/publicIPAddresses", NETWORK, 1;
    SECURITY_GROUPS = "Microsoft.Network/networkSecurityGroups", NETWORK, 2;
    ROUTE_TABLES = "Microsoft.Network/routeTables", NETWORK, 3;
    INTERFACES = "Microsoft.Network/networkInterfaces", NETWORK, 4;
    PRIVATE_LINKS = "Microsoft.Network/privateLinkServices", NETWORK, 5;
    ENDPOINT_CONNECTIONS = "Microsoft.Network/privateLinkServices/{link}/privateEndpointConnections", NETWORK, 5;
    SUBNETS = "Microsoft.Network/virtualNetworks/{vnet}/subnets", NETWORK, 5;
    MACHINES = "Microsoft.Compute/virtualMachines", COMPUTE, 6;
    AVAILABILITY_SETS = "Microsoft.Compute/availabilitySets", COMPUTE, 6;
    SCALE_SETS = "Microsoft.Compute/virtualMachineScaleSets", COMPUTE, 7;
    INSTANCES = "Microsoft.Compute/virtualMachineScaleSets/{set}/virtualMachines", COMPUTE, 7;
    // Lists of all instances, and of one.
    SET_INTERFACES = "Microsoft.Compute/virtualMachineScaleSets/{set}/networkInterfaces", SCALE_SET_NETWORK, 7;
    SET_ADDRESSES = "Microsoft.Compute/virtualMachineScaleSets/{set}/publicipaddresses", SCALE_SET_NETWORK, 7;
    INSTANCE_INTERFACES = "Microsoft.Compute/virtualMachineScaleSets/{set}/virtualMachines/{instance}/networkInterfaces", SCALE_SET_NETWORK, 7;
}

const PROVIDER: &str = "/subscriptions/{subscription}/providers/{namespace}";
const STATUSES: &str = "/subscriptions/{subscription}/providers/Microsoft.Compute/virtualMachines";
const OPERATION: &str =
    "/subscriptions/{subscription}/providers/{namespace}/locations/{location}/{kind}/{operation}";
const MIGRATION: &str = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/loadBalancers/{name}/migrateToIpBased";

impl ResourceType {
    fn call(
        &self,
        method: Method,
        template: &'static str,
        group: &ResourceGroup,
        names: &[&str],
    ) -> Call {
        let place = [&*group.subscription, &*group.name];
        Call::new(method, template, &[&place, names].concat()).query("api-version", self.version)
    }

    /// Returns a call for one resource: `names` are those of its parents and its own.
    pub(crate) fn item(&self, method: Method, group: &ResourceGroup, names: &[&str]) -> Call {
        self.call(method, self.item, group, names)
    }

    /// Returns a call for the list of resources of these parents.
    pub(crate) fn list(&self, group: &ResourceGroup, parents: &[&str]) -> Call {
        self.call(Method::GET, self.list, group, parents)
    }
}

/// The number of lanes, each with a client for reads and one for changes.
pub(crate) const LANES: usize = 8;

/// Returns `true` for the resources of Nodes, which may be in another tenant than load balancers.
pub(crate) fn is_of_nodes(lane: usize) -> bool {
    [INTERFACES.lane, MACHINES.lane, SCALE_SETS.lane].contains(&lane)
}

pub(crate) const PAGING: Paging = Paging::token_link("$skiptoken", "/nextLink");

/// The first delay between two polls of an operation, the longest one, and the time after which the caller gives up.
const FIRST_POLL: Duration = Duration::from_secs(1);
/// The shortest delay between two polls, if Azure asks for none.
const SHORTEST_POLL: Duration = Duration::from_millis(500);
const LONGEST_POLL: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(240);

/// The clients of Azure Resource Manager.
pub(crate) struct Arm {
    /// Clients by lane, for reads and for changes. A 429 pauses one of them.
    clients: Vec<[Transport; 2]>,
    /// Tokens of the tenant of load balancers, if it is another one: machines join their pools.
    auxiliary: Option<Arc<Tokens<Identity>>>,
}

impl Arm {
    pub(crate) fn new(
        clients: Vec<[Transport; 2]>,
        auxiliary: Option<Arc<Tokens<Identity>>>,
    ) -> Self {
        let meant =
            |pair: [Transport; 2]| pair.map(|transport| transport.error_mapping(error_mapping));
        Self {
            clients: clients.into_iter().map(meant).collect(),
            auxiliary,
        }
    }

    /// Returns the client for reads of a resource type.
    pub(crate) fn reads(&self, of: &ResourceType) -> &Transport {
        &self.clients[of.lane][0]
    }

    /// Reads a resource; `None` if Azure answers that it does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        of: &ResourceType,
        group: &ResourceGroup,
        names: &[&str],
    ) -> Result<Option<T>> {
        self.reads(of)
            .find(of.item(Method::GET, group, names))
            .await
    }

    /// Reads a list to its end.
    pub(crate) async fn list(
        &self,
        of: &ResourceType,
        call: Call,
        shared_priority: &SharedPriority,
    ) -> Result<ListResult<Value>> {
        self.reads(of)
            .list(
                call,
                "value",
                shared_priority,
                |object: Value| object,
                id_of,
            )
            .await
    }

    /// Reads all resources of a type in a group.
    pub(crate) async fn all(&self, of: &ResourceType, group: &ResourceGroup) -> Result<Vec<Value>> {
        Ok(self
            .list(of, of.list(group, &[]), &SharedPriority::default())
            .await?
            .complete()?
            .into_items())
    }

    /// Returns a call for the run-time states of all machines of the subscription.
    pub(crate) fn statuses_call(group: &ResourceGroup) -> Call {
        Call::get(STATUSES, &[&group.subscription])
            .query("api-version", COMPUTE)
            .query("statusOnly", "true")
    }

    /// Reads the zones in which a resource type of `Microsoft.Network` can be created in the region.
    pub(crate) async fn zones(
        &self,
        subscription: &str,
        kind: &str,
        region: &str,
    ) -> Result<Vec<String>> {
        let call = Call::get(PROVIDER, &[subscription, "Microsoft.Network"])
            .query("api-version", "2021-04-01");
        let answer: Value = self.reads(&LOAD_BALANCERS).read(call.list()).await?;
        let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let types = each(&answer["resourceTypes"]).into_iter();
        let mappings = types
            .filter(|other_kind| other_kind["resourceType"] == kind)
            .flat_map(|kind| each(&kind["zoneMappings"]));
        let here = |object: &Value| {
            object["location"]
                .as_str()
                .is_some_and(|location| location.to_ascii_lowercase().replace(' ', "") == region)
        };
        let zones = mappings
            .filter(here)
            .flat_map(|mapping| each(&mapping["zones"]));
        let mut zones: Vec<_> = zones
            .filter_map(|zone| zone.as_str().map(str::to_owned))
            .collect();
        zones.sort();
        Ok(zones)
    }

    /// Writes a resource if it still has the ETag of `body`, or if it does not exist and `body` has no ID. Waits until
    /// Azure is done. Returns the answer if it shows the result.
    pub(crate) async fn write(
        &self,
        of: &ResourceType,
        group: &ResourceGroup,
        names: &[&str],
        body: &Value,
    ) -> Result<Option<Answer>> {
        let call = of.item(Method::PUT, group, names).json(body);
        let call = match body["etag"].as_str() {
            Some(etag) => call.header("if-match", etag),
            // A creation that arrives late must not replace what was created meanwhile.
            None if body["id"].is_null() => call.header("if-none-match", "*"),
            None => call,
        };
        self.change(of, call).await
    }

    /// [Writes](Self::write) a resource, and returns it as Azure then shows it.
    pub(crate) async fn put(
        &self,
        of: &ResourceType,
        group: &ResourceGroup,
        names: &[&str],
        body: &Value,
    ) -> Result<Value> {
        match self.write(of, group, names, body).await? {
            Some(answer) => answer.json(),
            None => {
                self.reads(of)
                    .read(of.item(Method::GET, group, names))
                    .await
            }
        }
    }

    /// Deletes a resource and waits until Azure is done; succeeds if the resource does not exist.
    pub(crate) async fn delete(
        &self,
        of: &ResourceType,
        group: &ResourceGroup,
        names: &[&str],
    ) -> Result<()> {
        match self.change(of, of.item(Method::DELETE, group, names)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Lets Azure turn the members of pools from network interfaces into addresses.
    pub(crate) async fn migrate(
        &self,
        group: &ResourceGroup,
        balancer: &str,
        pools: &[&String],
    ) -> Result<()> {
        let call = LOAD_BALANCERS.call(Method::POST, MIGRATION, group, &[balancer]);
        self.change(
            &LOAD_BALANCERS,
            call.json(&serde_json::json!({ "pools": pools })),
        )
        .await
        .map(drop)
    }

    /// Sends a change and waits until Azure is done. Returns the answer if it shows the result.
    async fn change(&self, of: &ResourceType, call: Call) -> Result<Option<Answer>> {
        let [reads, changes] = &self.clients[of.lane];
        let call = match self.auxiliary.as_ref().filter(|_| is_of_nodes(of.lane)) {
            Some(tokens) => {
                let bearer = tokens.current().await?.bearer.clone();
                call.header("x-ms-authorization-auxiliary", bearer.expose_secret())
                    .hide(bearer)
            }
            None => call,
        };
        let give_up = Instant::now() + LIMIT;
        let mut wait = FIRST_POLL;
        let answer = loop {
            match changes.send(call.clone()).await {
                // An operation of another client, or of this program before a restart.
                Err(error)
                    if error.code() == "AnotherOperationInProgress"
                        && Instant::now() + wait < give_up =>
                {
                    sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_POLL);
                }
                outcome => break outcome?,
            }
        };
        let Some((url, is_operation)) = begun(&answer) else {
            return Ok(Some(answer));
        };
        let operation = operation_call(&url)
            .ok_or_else(|| Error::other(format!("the operation {url:?} cannot be polled")))?;
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
                let text = format!(
                    "Azure is still working after {LIMIT:?}; checking again in {LONGEST_POLL:?}"
                );
                return Err(Error::retry_in(text, LONGEST_POLL));
            }
        }
    }

    /// Reads the first page of a list.
    pub(crate) async fn probe(&self, of: &ResourceType, group: &ResourceGroup) -> Result<()> {
        self.reads(of)
            .send(of.list(group, &[]).list())
            .await
            .map(drop)
    }
}

/// Returns the URL of the operation that a change has begun, and `true` if it answers with a status.
fn begun(answer: &Answer) -> Option<(String, bool)> {
    let header = |name: &str| {
        answer
            .headers
            .get(name)
            .and_then(|header| header.to_str().ok())
            .map(str::to_owned)
    };
    let location = || {
        header("location")
            .filter(|_| answer.status.as_u16() == 202)
            .map(|url| (url, false))
    };
    header("azure-asyncoperation")
        .map(|url| (url, true))
        .or_else(location)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).max(SHORTEST_POLL))
}

/// Returns the call that polls the operation at a URL: its path, at the API that was configured.
fn operation_call(url: &str) -> Option<Call> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (path, query) = rest[rest.find('/')?..]
        .split_once('?')
        .unwrap_or((&rest[rest.find('/')?..], ""));
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let [
        "subscriptions",
        subscription,
        "providers",
        namespace,
        "locations",
        location,
        kind,
        operation,
    ] = segments[..]
    else {
        return None;
    };
    let call = Call::get(
        OPERATION,
        &[subscription, namespace, location, kind, operation],
    );
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Some(pairs.fold(call, |call, (key, value)| call.query(key, decoded(value))))
}

fn decoded(value: &str) -> String {
    let mut parts = value.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let byte = part
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
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
    let message = error["message"]
        .as_str()
        .unwrap_or("the operation failed")
        .to_owned();
    let refusal = Refusal {
        code: code.clone(),
        message: message.clone(),
        details: Vec::new(),
    };
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
        code if code.ends_with("LimitReached")
            || code.ends_with("QuotaExceeded")
            || code.contains("CountLimit") =>
        {
            Some(Error::quota)
        }
        _ => None,
    }
}

/// Returns the ID of a resource in lower case.
pub(crate) fn id_of(value: &Value) -> String {
    text(value, "/id").to_ascii_lowercase()
}

/// Returns the last part of a resource's ID.
pub(crate) fn name_of(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or_default()
}

/// Returns the group and the name in a resource's ID.
pub(crate) fn place_of(id: &str) -> Option<(ResourceGroup, &str)> {
    let parts: Vec<&str> = id.trim_start_matches('/').split('/').collect();
    let subscription = *parts.get(1)?;
    let group = *parts.get(3)?;
    let is_id = parts[0].eq_ignore_ascii_case("subscriptions")
        && parts[2].eq_ignore_ascii_case("resourceGroups");
    let group = ResourceGroup {
        subscription: subscription.to_owned(),
        name: group.to_ascii_lowercase(),
    };
    is_id.then(|| (group, name_of(id)))
}

pub(crate) type SharedArm = Arc<Arm>;

/// Returns the items of a list in a resource: `properties.probes`.
pub(crate) fn items<'a>(
    resource: &'a Value,
    list: &str,
) -> impl Iterator<Item = &'a Value> + Clone {
    resource["properties"][list]
        .as_array()
        .into_iter()
        .flatten()
}

/// Returns a text in a resource; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Writes `wanted` over an object: fields that `wanted` does not have stay, and `null` removes a field.
pub(crate) fn overlay(existing: &mut Value, wanted: &Value) {
    match (existing, wanted) {
        (Value::Object(existing_fields), Value::Object(wanted)) => {
            for (key, value) in wanted {
                if value.is_null() {
                    existing_fields.remove(key);
                } else {
                    overlay(
                        existing_fields.entry(key.clone()).or_insert(Value::Null),
                        value,
                    );
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
    T::deserialize(value).map_err(|error| {
        Error::other(format!(
            "an answer of Azure has an unexpected form: {error}"
        ))
    })
}

//! A stateful fake of Azure Resource Manager, for tests: virtual machines and scale sets, network interfaces, public
//! addresses, load balancers, security groups and route tables of one resource group, and the issuer of tokens.
//!
//! ```
//! use azure_fake::{Azure, Handle};
//!
//! let fake = Handle::new(Azure::default());
//! let id = fake.lock().add_machine("worker-1");
//! assert!(id.ends_with("/virtualMachines/worker-1"));
//! let router = fake.router();
//! # drop(router);
//! ```

mod compute;
mod network;
mod operations;
mod pools;

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::{Cloud, Next, Page, Refused, Reply, Route, Routes};
pub use fake_cloud::{Fault, Handle, Port};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::operations::Operation;

/// The only subscription. A fake's IDs are no secrets.
pub const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";
/// The tenant of the subscription.
pub const TENANT: &str = "00000000-0000-0000-0000-00000000000a";
/// The only resource group.
pub const GROUP: &str = "nodes";
/// The client and its secret.
pub const CLIENT: (&str, &str) = ("fake-client", "fake-secret");
/// The region of all resources.
pub const LOCATION: &str = "westeurope";
/// The virtual network and its subnet, in which all machines are.
pub const NETWORK: (&str, &str) = ("net", "default");
/// The security group of the Nodes.
pub const SECURITY_GROUP: &str = "nodes";
/// The route table of the Nodes.
pub const ROUTE_TABLE: &str = "routes";
const TOKEN: &str = "fake-token";

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Reply, Refused>;

/// The state of the cloud.
pub struct Azure {
    /// Resources by their IDs in lower case, as the API shows them.
    pub objects: BTreeMap<String, Value>,
    /// Length of a page of a list.
    pub page: usize,
    /// Duration of an operation.
    pub delay: Duration,
    /// Scheme of the links in answers: clients of the vendor follow no plain HTTP.
    pub scheme: &'static str,
    operations: BTreeMap<String, Operation>,
    number: u64,
}

impl Default for Azure {
    fn default() -> Self {
        let mut cloud = Self {
            objects: BTreeMap::new(),
            page: 50,
            delay: Duration::from_millis(1500),
            scheme: "http",
            operations: BTreeMap::new(),
            number: 0,
        };
        cloud.insert(
            &id("Microsoft.Network/networkSecurityGroups", SECURITY_GROUP),
            json!({
                "location": LOCATION, "properties": {"securityRules": [], "defaultSecurityRules": []},
            }),
        );
        cloud.insert(
            &subnet(),
            json!({"properties": {"addressPrefix": "10.1.0.0/16"}}),
        );
        cloud
    }
}

/// Returns the ID of the subnet of all machines.
fn subnet() -> String {
    format!(
        "{}/subnets/{}",
        id("Microsoft.Network/virtualNetworks", NETWORK.0),
        NETWORK.1
    )
}

/// Returns the ID of a resource.
#[must_use]
pub fn id(kind: &str, name: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/{kind}/{name}")
}

fn refuse(code: &str, message: impl AsRef<str>) -> Refused {
    Refused::new(400, code, message.as_ref())
}

fn not_found(id: &str) -> Refused {
    Refused::new(
        404,
        "ResourceNotFound",
        &format!("The Resource '{id}' was not found."),
    )
}

/// Returns a text in a resource; empty if there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn items<'a>(value: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    value["properties"][list].as_array().into_iter().flatten()
}

impl Azure {
    /// Returns a resource as a read of it shows it: an operation that still runs is visible.
    fn current(&self, id: &str, request: &ApiRequest) -> Option<Value> {
        let mut shown = self.get(id).map(|id| self.shown(id, request))?;
        if self.running(id).is_some() {
            shown["properties"]["provisioningState"] = "Updating".into();
        }
        Some(shown)
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Returns the resource with this ID.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Value> {
        self.objects.get(&id.to_ascii_lowercase())
    }

    /// Returns the resources of a type, such as `Microsoft.Network/loadBalancers`.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let prefix = id(kind, "").to_ascii_lowercase();
        self.objects
            .iter()
            .filter(move |(id, _)| {
                id.strip_prefix(&*prefix)
                    .is_some_and(|text| !text.contains('/'))
            })
            .map(|(_, object)| object)
    }

    /// Puts a resource with a new ETag.
    pub fn insert(&mut self, id: &str, mut resource: Value) {
        resource["id"] = id.into();
        resource["name"] = id.rsplit('/').next().unwrap_or_default().into();
        let kind = id
            .split("/providers/")
            .nth(1)
            .and_then(|part| part.rsplit_once('/'))
            .map_or("", |(kind, _)| kind);
        resource["type"] = kind
            .split('/')
            .step_by(1)
            .take(2)
            .collect::<Vec<_>>()
            .join("/")
            .into();
        resource["etag"] = format!("W/\"{}\"", self.number()).into();
        resource["properties"]["provisioningState"] = "Succeeded".into();
        self.objects.insert(id.to_ascii_lowercase(), resource);
    }

    /// Changes a resource by hand, which gives it a new ETag.
    pub fn edit(&mut self, id: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut resource) = self.get(id).cloned() {
            change(&mut resource);
            self.insert(id, resource);
        }
    }
}

/// Answers a page of a list; the next page is named by its first item.
fn page(cloud: &Azure, request: &ApiRequest, all: Vec<Value>) -> Answer {
    let start = request
        .query("$skiptoken")
        .and_then(|query| query.parse().ok())
        .unwrap_or_default();
    let shown = Page::starting(all, start, cloud.page, &request.effects);
    let host = request.header("host").unwrap_or("azure");
    let version = request.query("api-version").unwrap_or_default();
    let expand = request
        .query("$expand")
        .map_or(String::new(), |query| format!("&$expand={query}"));
    let scheme = cloud.scheme;
    let path = &request.path;
    let link = |at: usize| {
        format!("{scheme}://{host}{path}?api-version={version}{expand}&$skiptoken={at}")
    };
    let next = match shown.next {
        Next::Nothing => None,
        Next::Following => Some(link(start + cloud.page)),
        Next::Itself => Some(link(start)),
    };
    let mut body = json!({"value": shown.items});
    next.into_iter()
        .for_each(|next| body["nextLink"] = next.into());
    Ok(Reply::new(200, body))
}

/// Returns the ID that a path names.
fn path_id(request: &ApiRequest) -> String {
    request.path.trim_end_matches('/').to_owned()
}

fn list(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let prefix = format!("{}/", path_id(request).to_ascii_lowercase());
    let shown = cloud.objects.iter().filter(|(id, _)| {
        id.strip_prefix(&*prefix)
            .is_some_and(|text| !text.contains('/'))
    });
    let all = shown
        .map(|(_, object)| cloud.shown(object, request))
        .collect();
    page(cloud, request, all)
}

fn get(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let id = path_id(request);
    Ok(Reply::new(
        200,
        cloud.current(&id, request).ok_or_else(|| not_found(&id))?,
    ))
}

/// Replaces a resource, if its ETag is the one of the request, and begins an operation.
fn put(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let id = path_id(request);
    let before = cloud.get(&id).cloned();
    if request.header("if-none-match").is_some() && before.is_some() {
        return Err(Refused::new(
            412,
            "PreconditionFailed",
            "Precondition failed.",
        ));
    }
    if let Some(wanted) = request.header("if-match")
        && before.as_ref().map(|object| text(object, "/etag")) != Some(wanted)
    {
        return Err(Refused::new(
            412,
            "PreconditionFailed",
            "Precondition failed.",
        ));
    }
    if let Some(running) = cloud.running(&id) {
        return Err(Refused::new(
            409,
            "AnotherOperationInProgress",
            &format!("Operation {running} is in progress."),
        ));
    }
    let mut wanted = request.body.clone();
    let has_location =
        id.to_ascii_lowercase().contains("/subnets/") || !text(&wanted, "/location").is_empty();
    if !wanted.is_object() || !has_location {
        return Err(refuse(
            "LocationRequired",
            "The location property is required for this definition.",
        ));
    }
    if wanted.get("tags").is_some_and(|tags| !tags.is_object()) {
        return Err(refuse(
            "InvalidRequestContent",
            "The request content was invalid: 'tags' must be an object.",
        ));
    }
    cloud.check_put(&id, &mut wanted, before.as_ref())?;
    let status = if before.is_some() { 200 } else { 201 };
    cloud.insert(&id, wanted);
    let mut body = cloud
        .get(&id)
        .map(|id| cloud.shown(id, request))
        .unwrap_or_default();
    // The client of the Go program waits only if the answer is not final.
    body["properties"]["provisioningState"] = "Updating".into();
    Ok(cloud.begin(request, Reply::new(status, body), &id, before))
}

fn delete(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let id = path_id(request);
    let Some(before) = cloud.get(&id).cloned() else {
        return Ok(Reply::empty(204));
    };
    if let Some(running) = cloud.running(&id) {
        return Err(Refused::new(
            409,
            "AnotherOperationInProgress",
            &format!("Operation {running} is in progress."),
        ));
    }
    cloud.check_delete(&id)?;
    cloud.objects.remove(&id.to_ascii_lowercase());
    cloud.forget_pools(&id.to_ascii_lowercase());
    Ok(cloud.begin(request, Reply::empty(202), &id, Some(before)))
}

fn token(_: &mut Azure, request: &ApiRequest) -> Answer {
    let form = String::from_utf8_lossy(&request.bytes).into_owned();
    let value = |key: &str| {
        form.split('&')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
            .unwrap_or_default()
            .to_owned()
    };
    if (&*value("client_id"), &*value("client_secret")) != CLIENT || request.id() != TENANT {
        let body = json!({"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."});
        return Ok(Reply::new(401, body));
    }
    Ok(Reply::new(
        200,
        json!({"token_type": "Bearer", "expires_in": 86400, "access_token": TOKEN}),
    ))
}

/// Answers the zones of `Microsoft.Network` in the region.
fn zones(_: &mut Azure, _: &ApiRequest) -> Answer {
    let of = |kind: &str| {
        json!({
            "resourceType": kind, "locations": ["West Europe", "North Europe"], "zoneMappings": [{"location": "West Europe", "zones": ["2", "3", "1"]}, {"location": "North Europe", "zones": ["1"]}],
        })
    };
    let types = [of("publicIPAddresses"), of("loadBalancers")];
    Ok(Reply::new(
        200,
        json!({"namespace": "Microsoft.Network", "resourceTypes": types}),
    ))
}

const API: &[Route<Azure>] = &[
    ("GET", "/Microsoft.Network/loadBalancers", list),
    ("GET", "/Microsoft.Network/loadBalancers/{name}", get),
    ("PUT", "/Microsoft.Network/loadBalancers/{name}", put),
    ("DELETE", "/Microsoft.Network/loadBalancers/{name}", delete),
    (
        "POST",
        "/Microsoft.Network/loadBalancers/{name}/migrateToIpBased",
        pools::migrate,
    ),
    (
        "GET",
        "/Microsoft.Network/loadBalancers/{name}/backendAddressPools/{pool}",
        pools::get,
    ),
    (
        "PUT",
        "/Microsoft.Network/loadBalancers/{name}/backendAddressPools/{pool}",
        pools::put,
    ),
    (
        "DELETE",
        "/Microsoft.Network/loadBalancers/{name}/backendAddressPools/{pool}",
        pools::delete,
    ),
    ("GET", "/Microsoft.Network/publicIPAddresses", list),
    ("GET", "/Microsoft.Network/publicIPAddresses/{name}", get),
    ("PUT", "/Microsoft.Network/publicIPAddresses/{name}", put),
    (
        "DELETE",
        "/Microsoft.Network/publicIPAddresses/{name}",
        delete,
    ),
    ("GET", "/Microsoft.Network/networkSecurityGroups", list),
    (
        "GET",
        "/Microsoft.Network/networkSecurityGroups/{name}",
        get,
    ),
    (
        "PUT",
        "/Microsoft.Network/networkSecurityGroups/{name}",
        put,
    ),
    ("GET", "/Microsoft.Network/routeTables", list),
    ("GET", "/Microsoft.Network/routeTables/{name}", get),
    ("PUT", "/Microsoft.Network/routeTables/{name}", put),
    ("GET", "/Microsoft.Network/privateLinkServices", list),
    ("GET", "/Microsoft.Network/privateLinkServices/{name}", get),
    ("PUT", "/Microsoft.Network/privateLinkServices/{name}", put),
    (
        "DELETE",
        "/Microsoft.Network/privateLinkServices/{name}",
        delete,
    ),
    (
        "DELETE",
        "/Microsoft.Network/privateLinkServices/{name}/privateEndpointConnections/{connection}",
        network::delete_connection,
    ),
    (
        "GET",
        "/Microsoft.Network/virtualNetworks/{name}/subnets/{subnet}",
        get,
    ),
    (
        "PUT",
        "/Microsoft.Network/virtualNetworks/{name}/subnets/{subnet}",
        put,
    ),
    ("GET", "/Microsoft.Network/networkInterfaces", list),
    ("GET", "/Microsoft.Network/networkInterfaces/{name}", get),
    ("PUT", "/Microsoft.Network/networkInterfaces/{name}", put),
    ("GET", "/Microsoft.Compute/virtualMachines", list),
    ("GET", "/Microsoft.Compute/virtualMachines/{name}", get),
    ("GET", "/Microsoft.Compute/availabilitySets", list),
    ("GET", "/Microsoft.Compute/virtualMachineScaleSets", list),
    (
        "GET",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}",
        get,
    ),
    (
        "PUT",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}",
        put,
    ),
    (
        "GET",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines",
        list,
    ),
    (
        "GET",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines/{instance}",
        get,
    ),
    (
        "PUT",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines/{instance}",
        put,
    ),
    (
        "GET",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}/networkInterfaces",
        compute::interfaces_of_set,
    ),
    (
        "GET",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}/publicipaddresses",
        |cloud, request| page(cloud, request, Vec::new()),
    ),
    (
        "GET",
        "/Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines/{instance}/networkInterfaces",
        compute::interfaces_of_instance,
    ),
    // The Go program writes the namespace so.
    (
        "GET",
        "/microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines/{instance}/networkInterfaces/{interface}",
        compute::interface_of_instance,
    ),
];

const OF_SUBSCRIPTION: &[Route<Azure>] = &[
    (
        "GET",
        "/Microsoft.Compute/virtualMachines",
        compute::statuses,
    ),
    (
        "GET",
        "/{namespace}/locations/{location}/operations/{operation}",
        operations::operation,
    ),
    ("GET", "/{namespace}", zones),
];

const LOGIN: &[Route<Azure>] = &[
    ("POST", "/{tenant}/oauth2/v2.0/token", token),
    // Managed identities, which the Go program uses against this fake.
    ("GET", "/metadata/identity/oauth2/token", |_, request| {
        if !request
            .header("metadata")
            .is_some_and(|header| header.eq_ignore_ascii_case("true"))
        {
            return Err(refuse(
                "invalid_request",
                "Required metadata header not specified",
            ));
        }
        if ["api-version", "resource"]
            .iter()
            .any(|key| request.query(key).is_none())
        {
            return Err(refuse(
                "invalid_request",
                "Required query variable api-version or resource is missing",
            ));
        }
        Ok(Reply::new(
            200,
            json!({"token_type": "Bearer", "expires_on": "4000000000", "expires_in": "86400", "access_token": TOKEN, "resource": "x"}),
        ))
    }),
];

impl Cloud for Azure {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers",
            service: (),
            table: API,
        },
        Routes {
            prefix: "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/other/providers",
            service: (),
            table: API,
        },
        Routes {
            prefix: "/subscriptions/00000000-0000-0000-0000-000000000001/providers",
            service: (),
            table: OF_SUBSCRIPTION,
        },
        Routes {
            prefix: "",
            service: (),
            table: LOGIN,
        },
    ];

    fn advance(&mut self, now: Instant) {
        self.end_operations(now);
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        if request.route.starts_with("POST /{tenant}") || request.route.starts_with("GET /metadata")
        {
            return Ok(());
        }
        if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return Err(Refused::new(
                401,
                "InvalidAuthenticationToken",
                "The access token is invalid.",
            ));
        }
        if request.query("api-version").is_none() {
            return Err(refuse(
                "MissingApiVersionParameter",
                "The api-version query parameter (?api-version=) is required for all requests.",
            ));
        }
        if request.is_broken() {
            Err(refuse(
                "InvalidRequestContent",
                "The request content was invalid.",
            ))
        } else {
            Ok(())
        }
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let code = if refused.code.is_empty() {
            "TooManyRequests".to_owned()
        } else {
            refused.code
        };
        Reply::new(
            refused.status.unwrap_or(400),
            json!({"error": {"code": code, "message": refused.message}}),
        )
    }

    fn is_read(route: &str) -> bool {
        route.starts_with("GET ") || route.starts_with("POST /{tenant}")
    }
}

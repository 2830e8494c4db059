//! A stateful fake of the Compute Engine API, for tests: instances, what load balancers consist of, firewalls and routes, with
//! operations in the background; and a metadata server.
//!
//! ```
//! use gcp_fake::{Gcp, Handle, ZONE};
//!
//! let fake = Handle::new(Gcp::default());
//! fake.lock().add_instance("worker-1", ZONE);
//! assert_eq!(fake.lock().all("instances").count(), 1);
//! let router = fake.router();
//! # drop(router);
//! ```

mod actions;
mod collections;
mod instances;
mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fake_cloud::{Cloud, Operation, Refused, Reply, Route, Routes, array};
pub use fake_cloud::{Fault, Handle, Port};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The token of the metadata server. A fake's token is no secret.
pub const TOKEN: &str = "fake-token";
/// The project of the instances.
pub const PROJECT: &str = "demo";
/// The region of load balancers.
pub const REGION: &str = "us-central1";
/// The zone of the cluster.
pub const ZONE: &str = "us-central1-a";
/// The base URL in links.
pub const BASE: &str = "https://www.googleapis.com/compute/v1";

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Reply, Refused>;

/// An object of the cloud, by `project/scope/collection/name`.
type Path = String;

/// A change that is under way.
struct Pending {
    operation: Operation,
    shown: Value,
    /// The change itself; a creation is visible from the start, and a deletion at its end.
    deletes: Option<Path>,
    creates: Option<Path>,
    /// An object that is changed, as it was before: a change that fails leaves it.
    changes: Option<(Path, Value)>,
}

/// The state of the cloud.
pub struct Gcp {
    /// Objects of every project, by path.
    pub objects: BTreeMap<Path, Value>,
    /// Zones that do not answer in aggregated lists.
    pub unreachable: Vec<String>,
    /// Projects whose firewalls may not be changed.
    pub forbidden: Vec<String>,
    /// The longest page of a list.
    pub page: usize,
    /// Time that a change takes.
    pub delay: Duration,
    /// Base URL in links.
    pub base: String,
    /// Firewalls that denied traffic which another firewall should have allowed: of two of the same priority, the one
    /// that denies counts.
    pub cuts: BTreeSet<String>,
    operations: BTreeMap<String, Pending>,
    /// Operations by the IDs of requests that began them.
    requests: BTreeMap<String, String>,
    created: u64,
}

impl Default for Gcp {
    fn default() -> Self {
        Self::based_at(BASE)
    }
}

impl Gcp {
    /// Returns two projects, each with a network of its own, whose links begin with `base`.
    #[must_use]
    pub fn based_at(base: &str) -> Self {
        let mut cloud = Self {
            objects: BTreeMap::new(),
            unreachable: Vec::new(),
            forbidden: Vec::new(),
            page: 500,
            delay: Duration::from_millis(1500),
            base: base.to_owned(),
            cuts: BTreeSet::new(),
            operations: BTreeMap::new(),
            requests: BTreeMap::new(),
            created: 1_000_000,
        };
        for project in [PROJECT, "host"] {
            cloud.insert(
                &format!("{project}/global/networks/default"),
                json!({"autoCreateSubnetworks": true}),
            );
            let network = cloud.link(&format!("{project}/global/networks/default"));
            let subnetwork = json!({"network": network, "ipCidrRange": "10.128.0.0/20"});
            cloud.insert(
                &format!("{project}/regions/{REGION}/subnetworks/default"),
                subnetwork,
            );
            let region = cloud.link(&format!("{project}/regions/{REGION}"));
            for zone in [ZONE, "us-central1-b"] {
                cloud.insert(
                    &format!("{project}/global/zones/{zone}"),
                    json!({"region": region, "status": "UP"}),
                );
            }
        }
        cloud
    }
}

fn refuse(status: u16, reason: &str, message: impl Into<String>) -> Refused {
    Refused::new(status, reason, &message.into())
}

fn not_found(path: &str) -> Refused {
    refuse(
        404,
        "notFound",
        format!("The resource 'projects/{path}' was not found"),
    )
}

fn invalid(message: impl Into<String>) -> Refused {
    refuse(400, "invalid", message)
}

/// Returns the part of a URL after `projects/`.
#[must_use]
pub fn path_of(url: &str) -> &str {
    url.rsplit_once("projects/").map_or(url, |(_, path)| path)
}

/// Returns the word for one object of a collection: `address` of `addresses`.
pub(crate) fn singular(collection: &str) -> &str {
    let stem = collection
        .strip_suffix("es")
        .filter(|text| text.ends_with("ess"));
    stem.or(collection.strip_suffix('s')).unwrap_or(collection)
}

impl Gcp {
    /// A number that nothing has.
    pub fn number(&mut self) -> u64 {
        self.created += 1;
        self.created
    }

    /// Returns the URL of an object.
    #[must_use]
    pub fn link(&self, path: &str) -> String {
        format!("{}/projects/{path}", self.base)
    }

    /// Returns the URL of an object that a request names by its URL or, as the Go program does, by its path in the project.
    fn resolved(&self, request: &ApiRequest, url: &str) -> String {
        let relative = || format!("{}/{}", request.project, url.trim_start_matches('/'));
        self.link(
            &url.rsplit_once("projects/")
                .map_or_else(relative, |(_, path)| path.to_owned()),
        )
    }

    /// Adds or replaces an object, with what the cloud adds to each.
    pub fn insert(&mut self, path: &str, mut object: Value) {
        let id = self.number();
        object["id"] = id.to_string().into();
        let collection = path.rsplit('/').nth(1).unwrap_or_default();
        object["kind"] = format!("compute#{}", singular(collection)).into();
        object["name"] = path.rsplit('/').next().unwrap_or_default().into();
        object["selfLink"] = self.link(path).into();
        object["creationTimestamp"] = "2026-11-23T06:00:00.000-08:00".into();
        if let [_, scope @ ("regions" | "zones"), place, ..] =
            path.split('/').collect::<Vec<_>>()[..]
        {
            let project = path.split('/').next().unwrap_or_default();
            object[&scope[..scope.len() - 1]] =
                self.link(&format!("{project}/{scope}/{place}")).into();
        }
        self.objects.insert(path.to_owned(), object);
    }

    /// The objects of a collection, such as `instances`.
    pub fn all<'a>(&'a self, collection: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |(path, _)| path.rsplit('/').nth(1) == Some(collection))
            .map(|(_, object)| object)
    }

    /// Returns the path of the request's object or collection: the URL's after `projects/`.
    fn path(request: &ApiRequest) -> Path {
        path_of(&request.path).trim_end_matches('/').to_owned()
    }

    fn object(&mut self, path: &str) -> Result<&mut Value, Refused> {
        self.objects.get_mut(path).ok_or_else(|| not_found(path))
    }

    /// Begins an operation in the scope of an object.
    fn begin(
        &mut self,
        request: &ApiRequest,
        target: &str,
        deletes: Option<Path>,
        creates: Option<Path>,
    ) -> Answer {
        self.begin_pending(request, target, [deletes, creates], None)
    }

    fn begin_pending(
        &mut self,
        request: &ApiRequest,
        target: &str,
        [deletes, creates]: [Option<Path>; 2],
        changes: Option<(Path, Value)>,
    ) -> Answer {
        let name = format!("operation-{}", self.number());
        let parts: Vec<_> = target.split('/').collect();
        let project = parts[0];
        let scope = parts[1..parts.len() - 2].join("/");
        let path = format!("{project}/{scope}/operations/{name}");
        let kind = if request.route.starts_with("DELETE") {
            "delete"
        } else {
            "insert"
        };
        let shown = json!({
            "kind": "compute#operation", "id": self.number().to_string(), "name": name, "operationType": kind, "status": "RUNNING",
            "selfLink": self.link(&path), "targetLink": self.link(target), "progress": 0,
        });
        let operation = Operation::begin(self.delay, &request.effects);
        if let Some(id) = request.query("requestId") {
            self.requests.insert(id.to_owned(), path.clone());
        }
        let is_over = operation.is_over();
        self.operations.insert(
            path.clone(),
            Pending {
                operation,
                shown,
                deletes,
                creates,
                changes,
            },
        );
        self.note_cuts();
        if is_over {
            self.end(&path);
        }
        Ok(Reply::new(200, self.operations[&path].shown.clone()))
    }

    /// Begins an operation that changes an object, and shows the change.
    fn begin_change(&mut self, request: &ApiRequest, target: &str, changed: Value) -> Answer {
        let before = self.objects.insert(target.to_owned(), changed);
        let changes = before.map(|before| (target.to_owned(), before));
        self.begin_pending(request, target, [None, None], changes)
    }

    /// Returns the operation that a request with the same ID has begun.
    fn repeated(&self, request: &ApiRequest) -> Option<Answer> {
        let path = self.requests.get(request.query("requestId")?)?;
        Some(Ok(Reply::new(
            200,
            self.operations.get(path)?.shown.clone(),
        )))
    }

    /// Ends operations at once.
    pub fn settle(&mut self) {
        let all: Vec<_> = self.operations.keys().cloned().collect();
        all.iter().for_each(|path| self.end(path));
    }

    fn end(&mut self, path: &str) {
        let Some(pending) = self
            .operations
            .get_mut(path)
            .filter(|operation| operation.shown["status"] != "DONE")
        else {
            return;
        };
        pending.shown["status"] = "DONE".into();
        pending.shown["progress"] = 100.into();
        if let Some(code) = &pending.operation.error {
            pending.shown["error"] = json!({"errors": [{"code": code, "message": "it failed"}]});
            pending.shown["httpErrorStatusCode"] = 400.into();
            let path = pending.creates.take();
            let before = pending.changes.take();
            path.iter().for_each(|path| drop(self.objects.remove(path)));
            self.objects.extend(before);
            self.note_cuts();
            return;
        }
        let deletes = pending.deletes.take();
        let creates = pending.creates.take();
        if let Some(path) = deletes {
            self.objects.remove(&path);
        }
        if let Some(path) = creates.filter(|path| path.contains("/forwardingRules/")) {
            self.assign_address(&path);
        }
    }
}

fn project(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    let known = [PROJECT, "host"].contains(&request.id()) || request.id() == "4711";
    let shown =
        json!({"kind": "compute#project", "name": PROJECT, "selfLink": cloud.link(PROJECT)});
    if known {
        Ok(Reply::new(200, shown))
    } else {
        Err(not_found(request.id()))
    }
}

fn operations(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    let scope = Gcp::path(request);
    let own = cloud
        .operations
        .iter()
        .filter(|(path, _)| path.starts_with(&scope))
        .map(|(_, operation)| operation.shown.clone());
    let all = own.collect();
    collections::page(cloud, request, "compute#operationList", all)
}

fn wait(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    let path = Gcp::path(request);
    let path = path.strip_suffix("/wait").unwrap_or(&path);
    let found = cloud.operations.get(path).ok_or_else(|| not_found(path))?;
    Ok(Reply::new(200, found.shown.clone()))
}

fn metadata(_: &mut Gcp, request: &ApiRequest) -> Answer {
    let text = match request.path.trim_start_matches("/computeMetadata/v1/") {
        "project/project-id" => PROJECT.to_owned(),
        "instance/zone" => format!("projects/4711/zones/{ZONE}"),
        "instance/network-interfaces/0/network" => "projects/4711/networks/default".to_owned(),
        "instance/service-accounts/default/token" => {
            json!({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}).to_string()
        }
        _ => {
            return Ok(
                Reply::text(404, "text/plain", "not found").header("metadata-flavor", "Google")
            );
        }
    };
    Ok(Reply::text(200, "text/plain", text).header("metadata-flavor", "Google"))
}

/// Issues tokens for signed assertions. The signature is not checked; the form is.
fn token(_: &mut Gcp, request: &ApiRequest) -> Answer {
    let form = String::from_utf8_lossy(&request.bytes).into_owned();
    let grants = [
        ("jwt-bearer", "assertion="),
        ("refresh_token", "refresh_token="),
        ("token-exchange", "subject_token="),
    ];
    // Clients write the fields in any order.
    let is_whole = |(grant, field): &(&str, &str)| {
        form.split('&')
            .any(|part| part.starts_with("grant_type=") && part.ends_with(grant))
            && form.split('&').any(|part| part.starts_with(field))
    };
    if grants.iter().any(is_whole) {
        return Ok(Reply::new(
            200,
            json!({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}),
        ));
    }
    Ok(Reply::new(
        400,
        json!({"error": "unsupported_grant_type", "error_description": form}),
    ))
}

/// Issues a token for another account, or for the body of `token-url`, to the bearer of a token.
fn other_token(_: &mut Gcp, request: &ApiRequest) -> Answer {
    if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return Err(refuse(401, "authError", "Invalid Credentials"));
    }
    Ok(Reply::new(
        200,
        json!({"accessToken": TOKEN, "expireTime": "2036-11-23T00:00:00Z"}),
    ))
}

const API: &[Route<Gcp>] = &[
    ("GET", "/projects/{project}", project),
    ("GET", "/projects/{project}/zones", collections::zones),
    (
        "GET",
        "/projects/{project}/aggregated/instances",
        instances::aggregated,
    ),
    (
        "GET",
        "/projects/{project}/aggregated/instanceGroups",
        instances::aggregated,
    ),
    ("GET", "/projects/{project}/global/operations", operations),
    (
        "GET",
        "/projects/{project}/regions/{region}/operations",
        operations,
    ),
    (
        "GET",
        "/projects/{project}/zones/{zone}/operations",
        operations,
    ),
    ("GET", "/projects/{project}/global/operations/{name}", wait),
    (
        "GET",
        "/projects/{project}/regions/{region}/operations/{name}",
        wait,
    ),
    (
        "GET",
        "/projects/{project}/zones/{zone}/operations/{name}",
        wait,
    ),
    (
        "POST",
        "/projects/{project}/global/operations/{name}/wait",
        wait,
    ),
    (
        "POST",
        "/projects/{project}/regions/{region}/operations/{name}/wait",
        wait,
    ),
    (
        "POST",
        "/projects/{project}/zones/{zone}/operations/{name}/wait",
        wait,
    ),
    (
        "POST",
        "/projects/{project}/regions/{region}/targetPools/{name}/addInstance",
        actions::pool_instances,
    ),
    (
        "POST",
        "/projects/{project}/regions/{region}/targetPools/{name}/removeInstance",
        actions::pool_instances,
    ),
    (
        "POST",
        "/projects/{project}/regions/{region}/targetPools/{name}/getHealth",
        actions::health,
    ),
    (
        "POST",
        "/projects/{project}/regions/{region}/forwardingRules/{name}/setLabels",
        actions::set_labels,
    ),
    (
        "POST",
        "/projects/{project}/zones/{zone}/instanceGroups/{name}/listInstances",
        actions::list_members,
    ),
    (
        "POST",
        "/projects/{project}/zones/{zone}/instanceGroups/{name}/addInstances",
        actions::group_instances,
    ),
    (
        "POST",
        "/projects/{project}/zones/{zone}/instanceGroups/{name}/removeInstances",
        actions::group_instances,
    ),
];

/// The routes of a collection.
macro_rules! collection {
    ($path:literal) => {
        Routes {
            prefix: "/compute/v1",
            service: (),
            table: &[
                (
                    "GET",
                    concat!("/projects/{project}/", $path),
                    collections::list,
                ),
                (
                    "POST",
                    concat!("/projects/{project}/", $path),
                    collections::create,
                ),
                (
                    "GET",
                    concat!("/projects/{project}/", $path, "/{name}"),
                    collections::get,
                ),
                (
                    "PATCH",
                    concat!("/projects/{project}/", $path, "/{name}"),
                    collections::change,
                ),
                (
                    "PUT",
                    concat!("/projects/{project}/", $path, "/{name}"),
                    collections::change,
                ),
                (
                    "DELETE",
                    concat!("/projects/{project}/", $path, "/{name}"),
                    collections::delete,
                ),
            ],
        }
    };
}

const OTHERS: &[Route<Gcp>] = &[
    ("GET", "/computeMetadata/v1/project/{key}", metadata),
    ("GET", "/computeMetadata/v1/instance/{key}", metadata),
    (
        "GET",
        "/computeMetadata/v1/instance/service-accounts/default/token",
        metadata,
    ),
    (
        "GET",
        "/computeMetadata/v1/instance/network-interfaces/0/network",
        metadata,
    ),
    ("POST", "/token", token),
    ("POST", "/alternative", other_token),
    (
        "POST",
        "/v1/projects/-/serviceAccounts/{account}",
        other_token,
    ),
];

impl Cloud for Gcp {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "/compute/v1",
            service: (),
            table: API,
        },
        collection!("regions/{region}/addresses"),
        collection!("regions/{region}/forwardingRules"),
        collection!("regions/{region}/targetPools"),
        collection!("regions/{region}/backendServices"),
        collection!("regions/{region}/healthChecks"),
        collection!("regions/{region}/subnetworks"),
        collection!("zones/{zone}/instances"),
        collection!("zones/{zone}/instanceGroups"),
        collection!("global/healthChecks"),
        collection!("global/httpHealthChecks"),
        collection!("global/firewalls"),
        collection!("global/routes"),
        collection!("global/networks"),
        Routes {
            prefix: "",
            service: (),
            table: OTHERS,
        },
    ];

    fn advance(&mut self, _: Instant) {
        let due: Vec<_> = self
            .operations
            .iter()
            .filter(|(_, operation)| operation.operation.is_over())
            .map(|(path, _)| path.clone())
            .collect();
        due.iter().for_each(|path| self.end(path));
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        if !request.path.starts_with("/compute/") {
            let is_metadata = request.path.starts_with("/computeMetadata/");
            let has_flavor = request.header("metadata-flavor") == Some("Google");
            return if is_metadata && !has_flavor {
                Err(refuse(
                    403,
                    "forbidden",
                    "Missing Metadata-Flavor:Google header",
                ))
            } else {
                Ok(())
            };
        }
        request.project = Self::path(request)
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return Err(refuse(401, "authError", "Invalid Credentials"));
        }
        let is_change = !Self::is_read(&request.route) && request.path.contains("/firewalls");
        if is_change && self.forbidden.contains(&request.project) {
            let text = format!(
                "Required 'compute.firewalls.create' permission for 'projects/{}'",
                request.project
            );
            return Err(refuse(403, "forbidden", text));
        }
        if request.is_broken() {
            Err(refuse(400, "parseError", "Parse Error"))
        } else {
            Ok(())
        }
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let status = refused.status.unwrap_or(400);
        let reason = if refused.code.is_empty() {
            "invalid"
        } else {
            &*refused.code
        };
        let message = if refused.message.is_empty() {
            reason.to_owned()
        } else {
            refused.message.clone()
        };
        let error = json!({"domain": "global", "reason": reason, "message": message});
        Reply::new(
            status,
            json!({"error": {"code": status, "message": message, "errors": [error]}}),
        )
    }

    fn is_read(route: &str) -> bool {
        let reads = ["/wait", "/listInstances", "/getHealth", "/token"];
        route.starts_with("GET ") || reads.iter().any(|end| route.ends_with(end))
    }
}

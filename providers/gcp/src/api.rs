//! The API: connections, kinds of objects, operations in the background, and the place that everything is in.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{Error, Result, Setup, SyncCallbacks, excerpt};
use futures::future::try_join_all;
use http::HeaderMap;
use provider_kit::cached::Cached;
use provider_kit::inventory::SharedPriority;
use provider_kit::operation::{OperationState, Operations};
use provider_kit::paging::{ListResult, Paging};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{
    Budget, Call, Connector, Method, Priority, Refill, Refusal, Transport,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::{Config, StackType};
use crate::credentials::Credentials;
use crate::metrics::Requests;

/// Interval of the reads of unfinished operations, and number of operations in one read.
const POLL: Duration = Duration::from_secs(1);
const PER_POLL: usize = 40;
const OPERATION_LIMIT: Duration = Duration::from_secs(120);
const ALWAYS: Duration = Duration::from_secs(365 * 24 * 3600);

/// Declares objects of answers, in which each field may be missing.
macro_rules! wire {
    ($($(#[$of:meta])* $visible:vis struct $name:ident { $($(#[$doc:meta])* $public:vis $field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$of])*
            #[derive(Default, serde::Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            $visible struct $name { $($(#[$doc])* $public $field: $kind),* }
        )*
    };
}
pub(crate) use wire;

/// A kind of object: the path of all, and of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// The word by which resources of load balancers name the kind: `targetPools`.
    pub(crate) word: &'static str,
    pub(crate) all: &'static str,
    pub(crate) one: &'static str,
    /// If set, objects are in the project of the network.
    is_of_network: bool,
}

macro_rules! kinds {
    ($($name:ident = $word:literal: $scope:literal $collection:literal $($is_of_network:ident)?;)*) => {
        $(pub(crate) const $name: Kind = Kind {
            word: $word,
            all: concat!("/projects/{project}/", $scope, $collection),
            one: concat!("/projects/{project}/", $scope, $collection, "/{name}"),
            is_of_network: !stringify!($($is_of_network)?).is_empty(),
        };)*
        /// The kinds of objects.
        const KINDS: &[Kind] = &[$($name),*];
    };
}

kinds! {
    ADDRESS = "addresses": "regions/{region}/" "addresses";
    RULE = "forwardingRules": "regions/{region}/" "forwardingRules";
    TARGET_POOL = "targetPools": "regions/{region}/" "targetPools";
    BACKEND_SERVICE = "backendServices": "regions/{region}/" "backendServices";
    GROUP = "instanceGroups": "zones/{zone}/" "instanceGroups";
    CHECK = "healthChecks": "global/" "healthChecks";
    REGION_CHECK = "regionHealthChecks": "regions/{region}/" "healthChecks";
    HTTP_CHECK = "httpHealthChecks": "global/" "httpHealthChecks";
    FIREWALL = "firewalls": "global/" "firewalls" of_network;
    ROUTE = "routes": "global/" "routes" of_network;
}

impl Kind {
    /// Returns the kind of this word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        KINDS.iter().find(|kind| kind.word == word).copied()
    }

    /// Returns the name of an object with the word of the kind: `targetPools/web`.
    pub(crate) fn path(self, name: &str) -> String {
        format!("{}/{name}", self.word)
    }
}

/// The project, zone and network of the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) project: String,
    pub(crate) network_project: String,
    pub(crate) zone: String,
    pub(crate) region: String,
    /// URLs, as the API writes them.
    pub(crate) network: String,
    pub(crate) subnetwork: Option<String>,
    /// If set, the network has no subnetworks: it is one of before 2015.
    pub(crate) is_legacy: bool,
    /// Type of the IPv6 addresses of the subnetwork: `INTERNAL` or `EXTERNAL`, empty if it has none.
    pub(crate) ipv6_access: String,
    pub(crate) base: String,
}

impl Place {
    /// Returns `true` if the network belongs to another project (shared VPC, once called XPN).
    pub(crate) fn is_shared(&self) -> bool {
        self.project != self.network_project
    }

    /// Returns the URL of a subnetwork of the cluster's region.
    pub(crate) fn subnetwork_url(&self, name: &str) -> String {
        let Self {
            base,
            network_project,
            region,
            ..
        } = self;
        format!("{base}/projects/{network_project}/regions/{region}/subnetworks/{name}")
    }

    fn parameters<'a>(&'a self, kind: Kind, zone: &'a str) -> Vec<&'a str> {
        let project = if kind.is_of_network {
            &self.network_project
        } else {
            &self.project
        };
        let scope = if kind.all.contains("{zone}") {
            Some(zone)
        } else {
            Some(&*self.region)
        };
        let scope = scope.filter(|_| !kind.all.contains("/global/"));
        std::iter::once(&**project).chain(scope).collect()
    }

    /// Returns a call for all objects of a kind. `zone`: only used by kinds that are in zones.
    pub(crate) fn all(&self, method: Method, kind: Kind, zone: &str) -> Call {
        Call::new(method, kind.all, &self.parameters(kind, zone))
    }

    /// Returns a call for one object.
    pub(crate) fn one(&self, method: Method, kind: Kind, name: &str) -> Call {
        self.action(method, kind, kind.one, "", name)
    }

    /// Returns a call of one object's own path, such as `…/{name}/addInstance`.
    pub(crate) fn action(
        &self,
        method: Method,
        kind: Kind,
        path: &'static str,
        zone: &str,
        name: &str,
    ) -> Call {
        let mut parameters = self.parameters(kind, zone);
        parameters.push(name);
        Call::new(method, path, &parameters)
    }

    /// Returns the URL of an instance.
    pub(crate) fn instance(&self, zone: &str, name: &str) -> String {
        format!(
            "{}/projects/{}/zones/{zone}/instances/{name}",
            self.base, self.project
        )
    }

    /// Returns the URL of an object that is in no zone.
    pub(crate) fn url(&self, kind: Kind, name: &str) -> String {
        self.base.clone() + &self.one(Method::GET, kind, name).uri()
    }

    /// Returns the URL of an object that a [short path](tail) names: `targetPools/web`.
    pub(crate) fn url_of(&self, path: &str) -> String {
        let found = path
            .split_once('/')
            .and_then(|(word, name)| Some(self.url(Kind::of(word)?, name)));
        found.unwrap_or_else(|| path.to_owned())
    }
}

/// Returns the part of an object's URL after `/projects/`.
pub(crate) fn short(url: &str) -> &str {
    url.rsplit_once("projects/").map_or(url, |(_, path)| path)
}

/// Returns the kind and the name in an object's URL: `targetPools/web`.
pub(crate) fn tail(url: &str) -> String {
    let mut slashes = url.rmatch_indices('/').map(|(at, _)| at + 1);
    let path = slashes.nth(1).map_or(url, |at| &url[at..]);
    let is_regional = path.starts_with(CHECK.word) && url.contains("/regions/");
    if is_regional {
        REGION_CHECK.path(name(url))
    } else {
        path.to_owned()
    }
}

/// Returns the last part of an object's URL: its name.
pub(crate) fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// Returns project, zone and name in the URL of an instance.
pub(crate) fn instance_of(url: &str) -> [&str; 3] {
    let parts: Vec<_> = short(url).split('/').collect();
    [0, 2, 4].map(|at| parts.get(at).copied().unwrap_or_default())
}

/// Returns a filter for objects with these names.
pub(crate) fn names_filter<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names
        .into_iter()
        .map(|name| format!("(name = \"{name}\")"))
        .collect::<Vec<_>>()
        .join(" OR ")
}

/// Returns the region of a zone.
pub(crate) fn region(zone: &str) -> &str {
    zone.rsplit_once('-').map_or("", |(region, _)| region)
}

wire! {
    /// Work that the cloud does in the background.
    #[derive(Clone, Debug)]
    struct Operation { self_link: String, status: String, error: Option<OperationErrors>, http_error_status_code: u16 }
    #[derive(Clone, Debug)]
    struct OperationErrors { errors: Vec<OperationError> }
    #[derive(Clone, Debug)]
    struct OperationError { code: String, message: String }
}

impl Operation {
    fn outcome(&self) -> Option<Result<()>> {
        match (&*self.status, &self.error) {
            ("DONE", None) => Some(Ok(())),
            ("DONE", Some(error)) => {
                let OperationError { code, message } =
                    error.errors.first().cloned().unwrap_or_default();
                let of_status: fn(String) -> Error = match self.http_error_status_code {
                    400 => Error::invalid,
                    403 => Error::unauthorized,
                    404 => Error::not_found,
                    409 | 412 => Error::conflict,
                    _ => Error::other,
                };
                let text = excerpt(format!(
                    "operation {} failed: {code} - {message}",
                    name(&self.self_link)
                ));
                Some(Err(
                    meaning_of(&code).unwrap_or(of_status)(text).with_code(code)
                ))
            }
            _ => None,
        }
    }
}

fn rate_limited(text: String) -> Error {
    Error::rate_limited(text, Duration::from_secs(5))
}

/// Returns the kind of error that a reason, or the code of an operation, means beyond its status.
fn meaning_of(code: &str) -> Option<fn(String) -> Error> {
    match code {
        "quotaExceeded" | "QUOTA_EXCEEDED" | "limitExceeded" => Some(Error::quota),
        "rateLimitExceeded" | "userRateLimitExceeded" | "RATE_LIMIT_EXCEEDED" => Some(rate_limited),
        "alreadyExists" | "RESOURCE_ALREADY_EXISTS" | "conditionNotMet" | "CONDITION_NOT_MET" => {
            Some(Error::conflict)
        }
        "resourceNotReady" | "RESOURCE_NOT_READY" => Some(Error::conflict),
        "notFound" | "RESOURCE_NOT_FOUND" => Some(Error::not_found),
        _ => None,
    }
}

/// Returns `true` if the object is kept because another one refers to it.
pub(crate) fn is_in_use(error: &Error) -> bool {
    matches!(
        error.code(),
        "resourceInUseByAnotherResource" | "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    ) || error.to_string().contains("being used by")
}

/// Reads the API's own refusals: `{"error": {"message", "errors": [{"reason"}]}}`.
fn refusal(_: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let error = serde_json::from_slice::<Value>(body)
        .ok()?
        .get_mut("error")?
        .take();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let code = error
        .pointer("/errors/0/reason")
        .and_then(text)
        .unwrap_or_else(|| Refusal::UNSPECIFIED.to_owned());
    Some(Refusal {
        code,
        message: text(&error["message"])?,
        details: Vec::new(),
    })
}

/// The API and the configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) http: Transport,
    pub(crate) config: Arc<Config>,
    credentials: Arc<Credentials>,
    place: Arc<Cached<Place>>,
    /// The name of the project of the Nodes, as soon as it is known.
    project: Arc<OnceLock<String>>,
    operations: Operations<String>,
}

impl Api {
    pub(crate) fn new(
        config: Config,
        setup: &Setup,
        connector: &Arc<dyn Connector>,
    ) -> Result<Self> {
        let config = Arc::new(config);
        let metrics = Arc::clone(&setup.metrics);
        let connection = Arc::clone(connector);
        let credentials = Credentials {
            config: Arc::clone(&config),
            connector: connection,
            metrics,
        };
        let tokens = Arc::new(Tokens::of(credentials.clone()));
        let region = config
            .zone
            .as_deref()
            .map(region)
            .unwrap_or_default()
            .to_owned();
        let requests = Arc::new(Requests {
            metrics: Arc::clone(&setup.metrics),
            region,
        });
        // Documented limits are 1,500 requests a minute for each group; polls of operations are a group of their own.
        let connection = |rate: u32, burst: u32| {
            let http =
                Transport::of_session(tokens.session(|access| Ok(Arc::clone(access)))).setup(setup);
            let budget = Budget {
                refill: Refill::per_second(rate, burst),
                ..Budget::default()
            };
            let http = http
                .connector(Arc::clone(connector))
                .refusals(refusal)
                .budget(budget)
                .own_series(Requests::clone(&requests));
            let is_limit = |refusal: &Refusal| {
                matches!(
                    &*refusal.code,
                    "rateLimitExceeded" | "userRateLimitExceeded"
                )
            };
            let http = http.retry_refusals(is_limit).paging(
                Paging::token("pageToken", "/nextPageToken")
                    .size("maxResults", 500)
                    .omits_empty("kind"),
            );
            Ok::<_, Error>(
                http.build()?
                    .error_mapping(|refusal| meaning_of(&refusal.code)),
            )
        };
        let http = connection(20, 200)?;
        let polled = connection(10, 20)?;
        let operations = Operations::new(POLL, PER_POLL, move |ids: Vec<String>| {
            poll(polled.clone(), ids)
        });
        let operations = operations.timeouts(OPERATION_LIMIT, Duration::from_secs(10));
        let credentials = Arc::new(credentials);
        Ok(Self {
            http,
            config,
            credentials,
            place: Arc::default(),
            project: Arc::default(),
            operations,
        })
    }

    /// Returns the place of the cluster: from the configuration, and what it leaves open from the metadata server.
    pub(crate) async fn place(&self) -> Result<Arc<Place>> {
        Ok(self
            .place
            .get(ALWAYS, async || self.find_place().await)
            .await?
            .0)
    }

    async fn find_place(&self) -> Result<Place> {
        let config = &*self.config;
        let known = async |given: &Option<String>, path: &'static str| match given {
            Some(text) => Ok(text.clone()),
            None => {
                let answer = self.credentials.metadata(path).await?;
                Ok::<_, Error>(name(String::from_utf8_lossy(&answer.body).trim()).to_owned())
            }
        };
        let project = known(&config.project, "/computeMetadata/v1/project/project-id").await?;
        let zone = known(&config.zone, "/computeMetadata/v1/instance/zone").await?;
        let network = known(
            &config.network,
            "/computeMetadata/v1/instance/network-interfaces/0/network",
        )
        .await?;
        let project = self.project_name(project).await;
        self.project.get_or_init(|| project.clone());
        let network_project = match &config.network_project {
            Some(project) => self.project_name(project.clone()).await,
            None => project.clone(),
        };
        let base = config
            .endpoint
            .clone()
            .unwrap_or_else(|| "https://www.googleapis.com/compute/v1".to_owned());
        let network = match network.contains('/') {
            true => network,
            false => format!("{base}/projects/{network_project}/global/networks/{network}"),
        };
        let region = region(&zone).to_owned();
        let mut place = Place {
            project,
            network_project,
            zone,
            region,
            network,
            base,
            ..Place::default()
        };
        place.subnetwork = match &config.subnetwork {
            Some(url) if url.contains('/') => Some(url.clone()),
            Some(name) => Some(place.subnetwork_url(name)),
            None => self.find_subnetwork(&mut place).await?,
        };
        if let Some(url) = place
            .subnetwork
            .as_ref()
            .filter(|_| config.stack != StackType::Ipv4Only)
        {
            let path = "/projects/{project}/regions/{region}/subnetworks/{name}";
            let parts: Vec<_> = short(url).split('/').collect();
            let [project, region] = [0, 2].map(|at| parts.get(at).copied().unwrap_or_default());
            let subnetwork = self
                .open(Call::get(path, &[project, region, name(url)]))
                .await?;
            place.ipv6_access = subnetwork["ipv6AccessType"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
        }
        Ok(place)
    }

    /// Reads an object of the network; `null` if the credential may not read it or it does not exist.
    async fn open(&self, call: Call) -> Result<Value> {
        match self.http.read(call).await {
            Err(error) if error.is_unauthorized() || error.is_not_found() => {
                tracing::warn!(%error, "the network's subnetworks are not known");
                Ok(Value::Null)
            }
            outcome => outcome,
        }
    }

    /// Returns the name of a project that is given by its number. The number serves as well if that fails.
    async fn project_name(&self, project: String) -> String {
        if !project.bytes().all(|byte| byte.is_ascii_digit()) {
            return project;
        }
        match self
            .http
            .read::<Value>(Call::get("/projects/{project}", &[&project]))
            .await
        {
            Ok(found) => found["name"].as_str().unwrap_or(&project).to_owned(),
            Err(error) => {
                tracing::warn!(%error, "the name of project {project} is not known");
                project
            }
        }
    }

    /// Returns the subnetwork that an automatic network has in the region; other networks have none that is obvious.
    async fn find_subnetwork(&self, place: &mut Place) -> Result<Option<String>> {
        let path = "/projects/{project}/global/networks/{name}";
        let network = self
            .open(Call::get(
                path,
                &[&place.network_project, name(&place.network)],
            ))
            .await?;
        place.is_legacy = network["IPv4Range"].is_string();
        let mut found = Vec::new();
        if network["autoCreateSubnetworks"] == true {
            let path = "/projects/{project}/regions/{region}/subnetworks";
            let list = self
                .open(Call::get(path, &[&place.network_project, &place.region]).list())
                .await?;
            let automatic: ipnet::Ipv4Net = "10.128.0.0/9"
                .parse()
                .map_err(|_| Error::other("no range"))?;
            let is_its_object = |object: &&Value| {
                let range = object["ipCidrRange"]
                    .as_str()
                    .and_then(|range| range.parse().ok());
                object["network"]
                    .as_str()
                    .is_some_and(|url| short(url) == short(&place.network))
                    && range.is_some_and(|range: ipnet::Ipv4Net| automatic.contains(&range))
            };
            found.extend(
                list["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(is_its_object)
                    .cloned(),
            );
        }
        if let [one] = &*found {
            return Ok(one["selfLink"].as_str().map(str::to_owned));
        }
        tracing::warn!(
            "subnetwork-name is not set: internal load balancers get the address that the network chooses"
        );
        Ok(None)
    }

    /// Returns the name of the project of the Nodes; `None` while it is not known, or known by its number only.
    pub(crate) fn known_project(&self) -> Option<&str> {
        let project = self.project.get().or(self.config.project.as_ref())?;
        (!project.bytes().all(|byte| byte.is_ascii_digit())).then_some(project)
    }

    /// Returns project, zone and name in the ID of an instance.
    pub(crate) fn parts<'a>(&self, place: &'a Place, id: &'a str) -> [&'a str; 3] {
        let (project, rest) = match self.config.is_multi_project {
            true => id.split_once('/').unwrap_or_default(),
            false => (&*place.project, id),
        };
        let (zone, name) = rest.split_once('/').unwrap_or_default();
        [project, zone, name]
    }

    /// Reads one object by its name.
    pub(crate) async fn find<T: DeserializeOwned>(
        &self,
        place: &Place,
        kind: Kind,
        name: &str,
    ) -> Result<Option<T>> {
        self.http.find(place.one(Method::GET, kind, name)).await
    }

    /// Sends a change, and returns the operation that it began. The request ID lets it be sent again after a lost answer.
    pub(crate) async fn begin(&self, call: Call) -> Result<Option<String>> {
        let mut id = fastrand::u128(..);
        id = id & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let id = format!("{id:032x}");
        let id = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
        let call = call
            .query("requestId", id)
            .repeatable()
            .with_priority(Priority::Ordinary);
        let operation: Operation = self.http.read(call).await?;
        match operation.outcome() {
            None => Ok(Some(short(&operation.self_link).to_owned())),
            Some(outcome) => outcome.map(|()| None),
        }
    }

    /// Waits until operations have ended, and releases the worker permit meanwhile.
    pub(crate) async fn finish(
        &self,
        operations: &[String],
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        if operations.is_empty() {
            return Ok(());
        }
        callbacks.release_permit();
        let outcome = self.operations.wait(operations).await;
        callbacks.reacquire_permit().await;
        outcome
    }

    /// Sends a change, and waits until it is done.
    pub(crate) async fn change(&self, call: Call) -> Result<()> {
        let operation = self.begin(call).await?;
        self.operations.wait(operation.as_slice()).await
    }

    /// Deletes an object, and waits until it is deleted. An object that does not exist is no error.
    pub(crate) async fn remove(&self, call: Call) -> Result<()> {
        match self.change(call).await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }
}

/// Reads the states of operations: one request for each scope.
async fn poll(http: Transport, ids: Vec<String>) -> Result<Vec<OperationState<String>>> {
    let mut scopes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (scope, name) in ids.iter().filter_map(|id| id.split_once("/operations/")) {
        scopes.entry(scope).or_default().push(name);
    }
    let shared_priority = SharedPriority::default();
    let reads = scopes.iter().map(|(scope, names)| {
        let parameters: Vec<&str> = scope
            .split('/')
            .filter(|part| !matches!(*part, "global" | "regions" | "zones"))
            .collect();
        let path = match scope.split('/').nth(1) {
            Some("regions") => "/projects/{project}/regions/{region}/operations",
            Some("zones") => "/projects/{project}/zones/{zone}/operations",
            _ => "/projects/{project}/global/operations",
        };
        let call =
            Call::get(path, &parameters).query("filter", names_filter(names.iter().copied()));
        http.list(
            call,
            "items",
            &shared_priority,
            |operation: Operation| operation,
            |operation| operation.self_link.clone(),
        )
    });
    let found = try_join_all(reads)
        .await?
        .into_iter()
        .flat_map(ListResult::into_items);
    Ok(found
        .map(|operation| OperationState {
            id: short(&operation.self_link).to_owned(),
            outcome: operation.outcome(),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_urls_are_told_apart() {
        let url = "https://compute.googleapis.com/compute/v1/projects/p/regions/r/targetPools/web";
        assert_eq!(
            (short(url), &*tail(url), name(url)),
            ("p/regions/r/targetPools/web", "targetPools/web", "web")
        );
        assert_eq!(
            (
                short("projects/p/x"),
                &*tail("web"),
                region("us-central1-b")
            ),
            ("p/x", "web", "us-central1")
        );
        assert_eq!(
            tail("x/projects/p/regions/r/healthChecks/c"),
            "regionHealthChecks/c"
        );
        assert_eq!(tail("x/projects/p/global/healthChecks/c"), "healthChecks/c");
    }

    #[test]
    fn paths_name_the_project_of_the_network_where_objects_are_in_it() {
        let place = Place {
            project: "p".into(),
            network_project: "n".into(),
            region: "r".into(),
            ..Place::default()
        };
        assert_eq!(
            place.one(Method::GET, FIREWALL, "x").uri(),
            "/projects/n/global/firewalls/x"
        );
        assert_eq!(
            place.one(Method::GET, RULE, "x").uri(),
            "/projects/p/regions/r/forwardingRules/x"
        );
        assert_eq!(
            place.all(Method::GET, GROUP, "z").uri(),
            "/projects/p/zones/z/instanceGroups"
        );
    }

    #[test]
    fn failed_operation_is_an_error_of_its_kind() {
        let operation = |code: &str, status: u16| -> Error {
            let body = serde_json::json!({"status": "DONE", "httpErrorStatusCode": status,
                "error": {"errors": [{"code": code, "message": "m"}]}});
            serde_json::from_value::<Operation>(body)
                .unwrap()
                .outcome()
                .unwrap()
                .unwrap_err()
        };
        assert!(operation("QUOTA_EXCEEDED", 403).is_quota() && operation("X", 404).is_not_found());
        assert!(is_in_use(&operation(
            "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
            400
        )));
        assert!(
            operation("RESOURCE_ALREADY_EXISTS", 409).is_conflict()
                && operation("X", 400).is_invalid()
        );
    }
}

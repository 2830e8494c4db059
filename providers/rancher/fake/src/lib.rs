//! A stateful fake of the API `v2-beta` of Rancher 1.6, for tests: hosts, stacks, load balancer services and external
//! services of several environments.
//!
//! ```
//! use rancher_fake::{ENVIRONMENT, Handle, Rancher};
//!
//! let fake = Handle::new(Rancher::default());
//! let uuid = fake.lock().add_host(ENVIRONMENT, "worker-1");
//! assert_eq!(fake.lock().hosts[0]["uuid"], uuid);
//! let router = fake.router();
//! # drop(router);
//! ```

mod services;

use fake_cloud::{Cloud, Next, Operations, Page, Refused, Reply, Route, Routes, array};
pub use fake_cloud::{Fault, Handle, Port};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::services::{
    act, balancers, consumed, consumers, create_balancer, create_external, delete, externals,
    service, update,
};

/// The access key of [`ENVIRONMENT`].
pub const ACCESS_KEY: &str = "fake-access";
/// The secret key of [`ENVIRONMENT`]. A fake's key is no secret.
pub const SECRET_KEY: &str = "fake-secret";
/// The environment of the API key.
pub const ENVIRONMENT: &str = "ours";
/// The image of load balancers.
pub const IMAGE: &str = "rancher/lb-service-haproxy:v0.9.1";

const AUTHORIZATION: &str = "Basic ZmFrZS1hY2Nlc3M6ZmFrZS1zZWNyZXQ=";
/// Fields that the API does not show.
const HIDDEN: [&str; 5] = [
    "environment",
    "addresses",
    "isLeaving",
    "lacksAddressLink",
    "locked",
];

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Reply, Refused>;

/// The state of the cloud.
pub struct Rancher {
    /// The environment that the API key is for.
    pub environment: &'static str,
    /// Hosts, each with its IP addresses in `addresses`, which the API shows under a link. The link is absent from a
    /// host with `lacksAddressLink`, and not found for one with `isLeaving`.
    pub hosts: Vec<Value>,
    /// Stacks that contain the services, without links and actions.
    pub stacks: Vec<Value>,
    /// Load balancer services and external services, without links and actions.
    pub services: Vec<Value>,
    /// The value of the setting `lb.instance.image`.
    pub image: String,
    /// If set, lists of hosts ignore `include=ipAddresses`.
    pub ignores_include: bool,
    /// Number of items of a page without `limit`, and the most with it.
    pub page: usize,
    /// If set, load balancers do not become active: no host has a free port.
    pub has_no_free_port: bool,
    work: Operations,
    created: u64,
}

impl Default for Rancher {
    fn default() -> Self {
        Self {
            environment: ENVIRONMENT,
            hosts: Vec::new(),
            stacks: Vec::new(),
            services: Vec::new(),
            image: IMAGE.to_owned(),
            ignores_include: false,
            page: 100,
            has_no_free_port: false,
            work: Operations::default(),
            created: 0,
        }
    }
}

fn invalid(code: &str, field: &str) -> Refused {
    Refused::new(422, code, field)
}

fn not_found() -> Refused {
    Refused::new(404, "NotFound", "")
}

/// Returns the URL of the environment, as the client reaches it.
fn base(request: &ApiRequest) -> String {
    format!(
        "http://{}/v2-beta/projects/1a5",
        request.header("host").unwrap_or("rancher")
    )
}

fn without(mut object: Value, keys: &[&str]) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|key, _| !keys.contains(&&**key));
    }
    object
}

/// Returns a page of those resources of the environment that fit the filters of the query.
fn page(
    cloud: &Rancher,
    request: &ApiRequest,
    kind: &str,
    all: &[Value],
    show: impl Fn(&Value) -> Value,
) -> Answer {
    let control = ["limit", "marker", "sort", "order", "include"];
    let fits = |object: &&Value| {
        let is_filter = |(key, _): &&(String, String)| !control.contains(&&**key);
        object["environment"] == *request.project
            && request.query.iter().filter(is_filter).all(|(key, wanted)| {
                match key.strip_suffix("_null") {
                    Some(field) => object[field].is_null() == (wanted == "1"),
                    // A filter that is no field is ignored.
                    None => object
                        .get(key)
                        .is_none_or(|value| value.as_str() == Some(wanted)),
                }
            })
    };
    let limit = request.query("limit").map_or(Ok(cloud.page), |text| {
        text.parse().map_err(|_| invalid("InvalidFormat", "limit"))
    })?;
    let size = limit.clamp(1, cloud.page);
    let start: usize = request
        .query("marker")
        .and_then(|query| query.strip_prefix('m')?.parse().ok())
        .unwrap_or_default();
    let found: Vec<&Value> = all.iter().filter(fits).collect();
    let page = Page::starting(found, start, size, &request.effects);
    let next = match page.next {
        Next::Nothing => None,
        Next::Following => Some(start + page.items.len().max(1)),
        Next::Itself => Some(start),
    };
    let filters = request.query.iter().filter(|(key, _)| key != "marker");
    let filters: String = filters
        .map(|(key, value)| format!("&{key}={value}"))
        .collect();
    let url = format!(
        "{}{}",
        base(request),
        request.path.trim_start_matches("/v2-beta/projects/1a5")
    );
    let next = next.map(|start| format!("{url}?marker=m{start}{filters}"));
    Ok(Reply::new(
        200,
        json!({
            "type": "collection", "resourceType": kind, "data": page.items.into_iter().map(show).collect::<Vec<_>>(),
            "links": {"self": url},
            "pagination": {"limit": size, "total": null, "partial": next.is_some(), "next": next},
        }),
    ))
}

fn root(_: &mut Rancher, request: &ApiRequest) -> Answer {
    let body = json!({"id": "v2-beta", "type": "apiVersion", "links": {"self": base(request)}});
    Ok(Reply::new(200, body).header("x-api-schemas", format!("{}/schemas", base(request))))
}

fn schemas(_: &mut Rancher, request: &ApiRequest) -> Answer {
    let types = [
        ("host", "hosts"),
        ("ipAddress", "ipAddresses"),
        ("setting", "settings"),
        ("stack", "stacks"),
        ("service", "services"),
        ("loadBalancerService", "loadbalancerservices"),
        ("externalService", "externalservices"),
    ];
    let schema = |(id, plural): (&str, &str)| {
        let links = json!({"self": format!("{}/schemas/{id}", base(request)), "collection": format!("{}/{}", base(request), plural.to_lowercase())});
        json!({
            "id": id, "type": "schema", "pluralName": plural, "collectionMethods": ["GET", "POST"],
            "resourceMethods": ["GET", "PUT", "DELETE"], "links": links,
        })
    };
    Ok(Reply::new(
        200,
        json!({"type": "collection", "resourceType": "schema", "data": types.map(schema)}),
    ))
}

fn addresses(host: &Value) -> Vec<Value> {
    let address = |(at, ip): (usize, &Value)| json!({"id": format!("1ip{at}"), "type": "ipAddress", "address": ip});
    array(&host["addresses"]).enumerate().map(address).collect()
}

fn hosts(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let includes =
        request.all("include").any(|text| text == "ipAddresses") && !cloud.ignores_include;
    page(cloud, request, "host", &cloud.hosts, |host| {
        let url = format!(
            "{}/hosts/{}",
            base(request),
            host["id"].as_str().unwrap_or_default()
        );
        let mut shown = without(host.clone(), &HIDDEN);
        shown["links"] = json!({"self": url, "ipAddresses": format!("{url}/ipaddresses")});
        if host["lacksAddressLink"] == true {
            shown["links"] = json!({"self": url});
        }
        shown["actions"] = json!({});
        if includes {
            shown["ipAddresses"] = addresses(host).into();
        }
        shown
    })
}

fn ip_addresses(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let is_this_object =
        |object: &&Value| object["id"] == request.id() && object["environment"] == *request.project;
    let host = cloud
        .hosts
        .iter()
        .find(is_this_object)
        .filter(|host| host["isLeaving"] != true)
        .ok_or_else(not_found)?;
    let body = json!({"type": "collection", "resourceType": "ipAddress", "data": addresses(host), "pagination": {"next": null}});
    Ok(Reply::new(200, body))
}

fn settings(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let setting = json!({
        "id": "1as!lb.instance.image", "type": "setting", "environment": *request.project, "name": "lb.instance.image",
        "value": cloud.image, "activeValue": cloud.image,
    });
    page(cloud, request, "setting", &[setting], |page| {
        without(page.clone(), &HIDDEN)
    })
}

fn shown_stack(request: &ApiRequest, stack: &Value) -> Value {
    let mut shown = without(stack.clone(), &HIDDEN);
    shown["links"] = json!({"self": format!("{}/stacks/{}", base(request), stack["id"].as_str().unwrap_or_default())});
    shown["actions"] = json!({});
    shown
}

fn stacks(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    page(cloud, request, "stack", &cloud.stacks, |page| {
        shown_stack(request, page)
    })
}

fn create_stack(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let is_taken = |object: &Value| {
        object["environment"] == *request.project && object["name"] == request.body["name"]
    };
    if cloud.stacks.iter().any(is_taken) {
        return Err(invalid("NotUnique", "name"));
    }
    let stack = json!({
        "id": format!("1st{}", cloud.number()), "type": "stack", "environment": *request.project, "state": "active",
        "name": request.body["name"], "externalId": request.body["externalId"], "removed": null,
    });
    cloud.stacks.push(stack.clone());
    Ok(Reply::new(201, shown_stack(request, &stack)))
}

/// Controls of tests over the state.
impl Rancher {
    /// Returns a number that nothing has.
    pub fn number(&mut self) -> u64 {
        self.created += 1;
        self.created
    }

    /// Adds a host, and returns its UUID.
    pub fn add_host(&mut self, environment: &str, hostname: &str) -> String {
        let number = self.number();
        let uuid = format!("7d9d0000-0000-4000-8000-{number:012}");
        self.hosts.push(json!({
            "id": format!("1h{number}"), "type": "host", "environment": environment, "hostname": hostname, "uuid": uuid,
            "state": "active", "agentState": "active", "driver": "generic", "removed": null,
            "labels": {"zone": "rack-1", "region": "north"},
            "addresses": [format!("10.1.{}.{}", number / 250, number % 250 + 1)],
        }));
        uuid
    }
}

const API: &[Route<Rancher>] = &[
    ("GET", "/schemas", schemas),
    ("GET", "/hosts", hosts),
    ("GET", "/hosts/{id}/ipaddresses", ip_addresses),
    ("GET", "/settings", settings),
    ("GET", "/stacks", stacks),
    ("POST", "/stacks", create_stack),
    ("GET", "/loadbalancerservices", balancers),
    ("POST", "/loadbalancerservices", create_balancer),
    ("GET", "/loadbalancerservices/{id}", service),
    ("PUT", "/loadbalancerservices/{id}", update),
    ("POST", "/loadbalancerservices/{id}", act),
    ("DELETE", "/loadbalancerservices/{id}", delete),
    (
        "GET",
        "/loadbalancerservices/{id}/consumedservices",
        consumed,
    ),
    ("GET", "/externalservices", externals),
    ("POST", "/externalservices", create_external),
    ("GET", "/externalservices/{id}", service),
    ("PUT", "/externalservices/{id}", update),
    ("POST", "/externalservices/{id}", act),
    ("DELETE", "/externalservices/{id}", delete),
    (
        "GET",
        "/externalservices/{id}/consumedbyservices",
        consumers,
    ),
];

impl Cloud for Rancher {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "/v2-beta/projects/1a5",
            service: (),
            table: API,
        },
        Routes {
            prefix: "/v2-beta",
            service: (),
            table: &[("GET", "", root)],
        },
    ];

    fn advance(&mut self, _: Instant) {
        self.finish();
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        self.environment.clone_into(&mut request.project);
        match request.header("authorization") {
            Some(AUTHORIZATION) if request.is_broken() => {
                Err(invalid("InvalidBodyContent", "body"))
            }
            Some(AUTHORIZATION) => Ok(()),
            _ => Err(Refused::new(401, "Unauthorized", "")),
        }
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let status = refused.status.unwrap_or(422);
        let field = Some(&refused.message).filter(|text| !text.is_empty());
        let error = json!({
            "type": "error", "status": status, "code": refused.code, "message": refused.code, "detail": null,
            "fieldName": field,
        });
        Reply::new(status, error)
    }
}

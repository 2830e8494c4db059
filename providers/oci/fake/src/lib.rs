//! A stateful fake of Oracle Cloud's APIs, for tests: compute, networks, load balancers and network load balancers; and the
//! metadata service of an instance.
//!
//! ```
//! use oci_fake::{Handle, Oracle};
//!
//! let fake = Handle::new(Oracle::default());
//! let id = fake.lock().add_instance("worker-1");
//! assert!(id.starts_with("ocid1.instance."));
//! let router = fake.router();
//! # drop(router);
//! ```

mod balancers;
mod compute;
mod constraints;
mod network;
mod signature;

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::{
    Clock, Cloud, Effects, Next, Operations, Page, Refused, Reply, Route, Routes, array,
};
pub use fake_cloud::{Fault, Handle, Port};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The key of the user. A fake's key is no secret.
pub const KEY: &str = include_str!("key.pem");
/// The tenancy, the user and the fingerprint of the key.
pub const TENANCY: &str = "ocid1.tenancy.oc1..ours";
/// The user with the key.
pub const USER: &str = "ocid1.user.oc1..ccm";
/// The fingerprint of the key.
pub const FINGERPRINT: &str = "20:3b:97:13:55:1c:5b:0d:d3:37:d8:50:4e:c5:3a:34";
/// The compartment of the cluster.
pub const COMPARTMENT: &str = "ocid1.compartment.oc1..ours";
/// OCID of the only network.
pub const VCN: &str = "ocid1.vcn.oc1.phx.a";
/// The subnet of the Nodes.
pub const NODE_SUBNET: &str = "ocid1.subnet.oc1.phx.nodes";
/// The subnet of the load balancers.
pub const LB_SUBNET: &str = "ocid1.subnet.oc1.phx.balancers";
/// The availability domain of all instances.
pub const DOMAIN: &str = "Uocm:PHX-AD-1";
/// The part of OCIDs that belong to another tenancy.
const OTHERS: &str = "others";

pub(crate) type ApiRequest = fake_cloud::ApiRequest<()>;
pub(crate) type Answer = Result<Reply, Refused>;

/// The state of the cloud.
pub struct Oracle {
    /// Objects by OCID: instances, attachments, VNICs, addresses, subnets, lists, groups and load balancers.
    pub objects: BTreeMap<String, Value>,
    /// Keys that may sign: key ID and public key in DER. `None` accepts any signature.
    pub keys: Option<BTreeMap<String, Vec<u8>>>,
    /// Work requests by OCID.
    pub(crate) requests: BTreeMap<String, Value>,
    /// Load balancers and groups by the token of their creation.
    pub(crate) tokens: BTreeMap<String, String>,
    pub(crate) work: Operations,
    pub(crate) clock: Clock,
    /// The time that a work request takes.
    pub work_time: Duration,
    /// If set, the credential is that of another tenancy, which sees its own objects alone.
    pub is_confused: bool,
    created: u64,
}

impl Default for Oracle {
    fn default() -> Self {
        let mut cloud = Self {
            objects: BTreeMap::new(),
            keys: Some(
                [(
                    format!("{TENANCY}/{USER}/{FINGERPRINT}"),
                    signature::PUBLIC.to_vec(),
                )]
                .into(),
            ),
            requests: BTreeMap::new(),
            tokens: BTreeMap::new(),
            work: Operations::default(),
            clock: Clock::default(),
            work_time: Duration::from_secs(3),
            is_confused: false,
            created: 100,
        };
        cloud.add_network();
        cloud
    }
}

pub(crate) fn refuse(status: u16, code: &str, message: &str) -> Refused {
    Refused::new(status, code, message)
}

pub(crate) fn not_found() -> Refused {
    refuse(
        404,
        "NotAuthorizedOrNotFound",
        "Authorization failed or requested resource not found.",
    )
}

/// Returns an object as the API shows it, with its version in a header.
pub(crate) fn ok(object: &Value) -> Answer {
    let mut shown = object.clone();
    let etag = shown["etag"].take();
    if let Some(fields) = shown.as_object_mut() {
        fields.retain(|key, value| key != "etag" && !value.is_null());
    }
    let reply = Reply::new(200, shown);
    Ok(if let Some(etag) = etag.as_u64() {
        reply.header("etag", etag.to_string())
    } else {
        reply
    })
}

/// Returns a page of a list, bare or in `items`.
pub(crate) fn page(
    request: &ApiRequest,
    all: impl Iterator<Item = Value>,
    in_items: bool,
) -> Answer {
    let number = |key: &str| {
        request
            .query(key)
            .and_then(|query| query.parse::<usize>().ok())
    };
    let size = number("limit").unwrap_or(50).min(1000);
    let at = number("page").unwrap_or(1);
    let page = Page::numbered(all, at.max(1), size.max(1), &request.effects);
    let items: Vec<_> = page
        .items
        .iter()
        .filter_map(|object| serde_json::from_str(&ok(object).ok()?.body?.1).ok())
        .collect();
    let items = Value::Array(items);
    let reply = Reply::new(
        200,
        if in_items {
            json!({ "items": items })
        } else {
            items
        },
    );
    Ok(match page.next {
        Next::Nothing => reply,
        Next::Following => reply.header("opc-next-page", (page.number + 1).to_string()),
        Next::Itself => reply.header("opc-next-page", page.number.to_string()),
    })
}

/// Controls of tests over the state.
impl Oracle {
    /// Returns a number that nothing has.
    pub(crate) fn number(&mut self) -> u64 {
        self.created += 1;
        self.created
    }

    /// Returns an OCID that nothing has.
    pub(crate) fn ocid(&mut self, kind: &str) -> String {
        let number = self.number();
        self.numbered(kind, number)
    }

    /// Returns an OCID of the credential's tenancy.
    pub(crate) fn numbered(&self, kind: &str, number: u64) -> String {
        format!(
            "ocid1.{kind}.oc1.phx.{}{number:06}",
            if self.is_confused { OTHERS } else { "" }
        )
    }

    fn is_visible(&self, id: &str) -> bool {
        id.contains(OTHERS) == self.is_confused
    }

    /// Returns the objects of a kind that the credential may see.
    pub(crate) fn visible(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.all(kind)
            .filter(|object| self.is_visible(object["id"].as_str().unwrap_or_default()))
    }

    /// Returns the time, later at each call.
    pub(crate) fn time(&self) -> String {
        format!("2026-01-01T00:00:00.{:06}Z", self.created)
    }

    /// Adds an object, and returns its OCID.
    pub(crate) fn insert(&mut self, object: &Value) -> String {
        let id = object["id"].as_str().unwrap_or_default().to_owned();
        self.objects.insert(id.clone(), object.clone());
        id
    }

    /// Returns the objects of a kind, in the order in which they were created.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let prefix = format!("ocid1.{kind}.");
        self.objects
            .iter()
            .filter(move |(id, _)| id.starts_with(&prefix))
            .map(|(_, object)| object)
    }

    /// Returns the object that a path names.
    pub(crate) fn find(&mut self, request: &ApiRequest) -> Result<&mut Value, Refused> {
        let is_visible = self.is_visible(request.id());
        self.objects
            .get_mut(request.id())
            .filter(|_| is_visible)
            .ok_or_else(not_found)
    }

    /// Refuses a request whose `If-Match` names another version; otherwise counts the version up.
    pub(crate) fn matched(&mut self, request: &ApiRequest) -> Result<&mut Value, Refused> {
        let wanted = request.header("if-match").map(str::to_owned);
        let number = self.number();
        let found = self.find(request)?;
        if wanted.is_some_and(|text| found["etag"].as_u64() != text.parse().ok()) {
            return Err(refuse(
                412,
                "NoEtagMatch",
                "The If-Match header does not match the current version.",
            ));
        }
        found["etag"] = number.into();
        Ok(found)
    }

    /// Begins a work request, which the answer names.
    pub(crate) fn begin(&mut self, balancer: &str, effects: &Effects, reply: Reply) -> Reply {
        let id = self.ocid("loadbalancerworkrequest");
        let request = json!({
            "id": id, "loadBalancerId": balancer, "type": "Change", "lifecycleState": "IN_PROGRESS", "message": "",
            "timeAccepted": self.time(), "errorDetails": [], "compartmentId": COMPARTMENT,
        });
        self.requests.insert(id.clone(), request);
        self.work.begin(balancer, self.work_time, effects);
        reply.header("opc-work-request-id", id)
    }
}

const CORE: &[Route<Oracle>] = &[
    ("GET", "/availabilityDomains", compute::domains),
    ("GET", "/instances", compute::instances),
    ("GET", "/instances/{id}", compute::one),
    ("PUT", "/instances/{id}", compute::update),
    ("GET", "/vnicAttachments", compute::attachments),
    ("GET", "/vnics/{id}", compute::vnic),
    ("GET", "/privateIps", compute::private_ips),
    ("POST", "/privateIps", compute::create_address),
    ("GET", "/ipv6", compute::ipv6),
    ("POST", "/ipv6", compute::create_address),
    ("GET", "/publicIps", compute::public_ips),
    (
        "POST",
        "/publicIps/actions/getByIpAddress",
        compute::public_ip,
    ),
    ("GET", "/subnets", network::subnets),
    ("GET", "/subnets/{id}", compute::one),
    ("GET", "/vcns/{id}", compute::one),
    ("GET", "/securityLists", network::lists),
    ("GET", "/securityLists/{id}", compute::one),
    ("PUT", "/securityLists/{id}", network::update_list),
    ("GET", "/networkSecurityGroups", network::groups),
    ("POST", "/networkSecurityGroups", network::create_group),
    ("GET", "/networkSecurityGroups/{id}", network::group),
    ("PUT", "/networkSecurityGroups/{id}", network::update_group),
    (
        "DELETE",
        "/networkSecurityGroups/{id}",
        network::delete_group,
    ),
    (
        "GET",
        "/networkSecurityGroups/{id}/securityRules",
        network::rules,
    ),
    (
        "POST",
        "/networkSecurityGroups/{id}/actions/addSecurityRules",
        network::add_rules,
    ),
    (
        "POST",
        "/networkSecurityGroups/{id}/actions/removeSecurityRules",
        network::remove_rules,
    ),
];

const LB: &[Route<Oracle>] = &[
    ("GET", "/loadBalancers", balancers::list),
    ("POST", "/loadBalancers", balancers::create),
    ("GET", "/loadBalancers/{id}", balancers::one),
    ("PUT", "/loadBalancers/{id}", balancers::update),
    ("DELETE", "/loadBalancers/{id}", balancers::delete),
    ("PUT", "/loadBalancers/{id}/updateShape", balancers::shape),
    (
        "PUT",
        "/loadBalancers/{id}/networkSecurityGroups",
        balancers::update,
    ),
    (
        "GET",
        "/loadBalancers/{id}/workRequests",
        balancers::work_requests,
    ),
    (
        "GET",
        "/loadBalancerWorkRequests/{id}",
        balancers::work_request,
    ),
    (
        "GET",
        "/loadBalancers/{id}/backendSets/{name}",
        balancers::backend_set,
    ),
    (
        "GET",
        "/loadBalancers/{id}/backendSets/{name}/health",
        balancers::health,
    ),
    ("POST", "/loadBalancers/{id}/{part}", balancers::create_part),
    (
        "PUT",
        "/loadBalancers/{id}/{part}/{name}",
        balancers::update_part,
    ),
    (
        "DELETE",
        "/loadBalancers/{id}/{part}/{name}",
        balancers::delete_part,
    ),
];

const NLB: &[Route<Oracle>] = &[
    ("GET", "/networkLoadBalancers", balancers::list),
    ("POST", "/networkLoadBalancers", balancers::create),
    ("GET", "/networkLoadBalancers/{id}", balancers::one),
    ("PUT", "/networkLoadBalancers/{id}", balancers::update),
    ("DELETE", "/networkLoadBalancers/{id}", balancers::delete),
    (
        "PUT",
        "/networkLoadBalancers/{id}/networkSecurityGroups",
        balancers::update,
    ),
    ("GET", "/workRequests/{id}", balancers::work_request),
    (
        "GET",
        "/workRequests/{id}/errors",
        balancers::work_request_errors,
    ),
    (
        "GET",
        "/networkLoadBalancers/{id}/backendSets/{name}",
        balancers::backend_set,
    ),
    (
        "GET",
        "/networkLoadBalancers/{id}/backendSets/{name}/health",
        balancers::health,
    ),
    ("GET", "/workRequests", balancers::work_requests),
    (
        "POST",
        "/networkLoadBalancers/{id}/{part}",
        balancers::create_part,
    ),
    (
        "PUT",
        "/networkLoadBalancers/{id}/{part}/{name}",
        balancers::update_part,
    ),
    (
        "DELETE",
        "/networkLoadBalancers/{id}/{part}/{name}",
        balancers::delete_part,
    ),
];

/// The metadata service of an instance, version 2.
const METADATA: &[Route<Oracle>] = &[("GET", "/instance/", |_, _| Ok(Reply::new(200, instance())))];

/// Returns what the metadata service tells of an instance.
#[must_use]
pub fn instance() -> Value {
    json!({"compartmentId": COMPARTMENT, "region": "phx", "canonicalRegionName": "us-phoenix-1",
        "regionInfo": {"realmDomainComponent": "oraclecloud.com"}})
}

const MONITORING: &[Route<Oracle>] = &[("POST", "/metrics", balancers::metrics)];

impl Cloud for Oracle {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "/opc/v2",
            service: (),
            table: METADATA,
        },
        Routes {
            prefix: "/20160918",
            service: (),
            table: CORE,
        },
        Routes {
            prefix: "/20170115",
            service: (),
            table: LB,
        },
        Routes {
            prefix: "/20200501",
            service: (),
            table: NLB,
        },
        Routes {
            prefix: "/20180401",
            service: (),
            table: MONITORING,
        },
    ];

    fn advance(&mut self, now: Instant) {
        self.clock.start(now);
        for (id, operation) in self.work.finished() {
            self.finish(&id, operation.error.as_deref());
        }
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        if request.path.starts_with("/opc/") {
            let is_v2 = request.header("authorization") == Some("Bearer Oracle");
            return if is_v2 {
                Ok(())
            } else {
                Err(refuse(
                    403,
                    "Forbidden",
                    "the header Authorization is missing",
                ))
            };
        }
        if !self.has_signed(request) {
            return Err(refuse(
                401,
                "NotAuthenticated",
                "The required information to complete authentication was not provided or was incorrect.",
            ));
        }
        if request.is_broken() {
            return Err(refuse(
                400,
                "CannotParseRequest",
                "Incorrectly formatted request. Please check your JSON.",
            ));
        }
        let compartment = request
            .query("compartmentId")
            .or(request.body["compartmentId"].as_str());
        if compartment.is_some_and(|compartment| compartment != COMPARTMENT) {
            Err(not_found())
        } else {
            Ok(())
        }
    }

    fn refusal(_: &ApiRequest, refused: Refused) -> Refused {
        let code = match refused.status {
            _ if !refused.code.is_empty() => return refused,
            Some(404) => "NotAuthorizedOrNotFound",
            Some(401) => "NotAuthenticated",
            Some(409) => "IncorrectState",
            Some(429) => "TooManyRequests",
            Some(status) if status >= 500 => "InternalServerError",
            _ => "InvalidParameter",
        };
        Refused {
            code: code.to_owned(),
            ..refused
        }
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let status = refused.status.unwrap_or(match &*refused.code {
            "LimitExceeded" | "QuotaExceeded" => 400,
            "NotAuthorizedOrNotFound" => 404,
            _ => 400,
        });
        Reply::new(
            status,
            json!({"code": refused.code, "message": refused.message}),
        )
    }

    fn is_read(route: &str) -> bool {
        route.starts_with("GET ")
            || route.ends_with("/actions/getByIpAddress")
            || route.ends_with("/metrics")
    }
}

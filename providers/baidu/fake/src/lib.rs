//! A stateful fake of Baidu AI Cloud's APIs, for tests: instances, subnets, routes, BLBs and EIPs of several accounts.
//!
//! The form of requests and answers is that of the vendor's own packages. The products are told apart by their paths.
//!
//! ```
//! use baidu_fake::{ACCOUNT, Baidu, Handle};
//!
//! let fake = Handle::new(Baidu::default());
//! let id = fake.lock().add_instance(ACCOUNT, "worker-1");
//! assert_eq!(fake.lock().instances[0]["id"], id);
//! let router = fake.router();
//! # drop(router);
//! ```

mod blb;
mod eip;
mod instances;
mod signature;

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::{Cloud, Next, Operations, Page, Refused, Reply, Route, Routes, array};
pub use fake_cloud::{Fault, Handle, Port};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The access key of [`ACCOUNT`]. A fake's key is no secret.
pub const KEY: &str = "contract-id";
/// The secret of the key.
pub const SECRET: &str = "contract-secret";
/// A temporary key: ID, secret and session token.
pub const TEMPORARY: [&str; 3] = [
    "contract-temporary-id",
    "contract-temporary-secret",
    "contract-token",
];
/// The account of the keys.
pub const ACCOUNT: &str = "ours";
/// The VPC of all instances of [`ACCOUNT`].
pub const VPC: &str = "vpc-1";
/// The route table of the VPC.
pub const TABLE: &str = "rt-1";
/// The subnet of all instances of [`ACCOUNT`].
pub const SUBNET: &str = "sbn-1";

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Reply, Refused>;

/// The state of the cloud. Each object has its account in `account`, which the API does not show.
pub struct Baidu {
    /// The account that the keys are for.
    pub account: &'static str,
    /// Instances as the API shows them.
    pub instances: Vec<Value>,
    /// Subnets as the API shows them.
    pub subnets: Vec<Value>,
    /// Rules of the route table.
    pub rules: Vec<Value>,
    /// BLBs, each with its `listeners` and `backends`, which the API shows under paths of their own.
    pub blbs: Vec<Value>,
    /// EIPs as the API shows them.
    pub eips: Vec<Value>,
    /// If set, the last page of each list says that there is another one, but not where.
    pub has_more: bool,
    /// Time for which a BLB is busy after a change.
    pub busy: Duration,
    work: Operations,
    /// Answers to creations by their tokens.
    tokens: BTreeMap<String, Value>,
    created: u64,
}

impl Default for Baidu {
    fn default() -> Self {
        let subnet = |id: &str, account: &str, kind: &str, name: &str| {
            json!({"subnetId": id, "account": account, "name": name, "zoneName": "cn-bj-a", "cidr": "192.168.0.0/20",
                "vpcId": VPC, "subnetType": kind})
        };
        Self {
            account: ACCOUNT,
            instances: Vec::new(),
            subnets: vec![
                subnet(SUBNET, ACCOUNT, "BCC", "nodes"),
                subnet("sbn-nat", ACCOUNT, "BCC_NAT", "nat"),
            ],
            rules: Vec::new(),
            blbs: Vec::new(),
            eips: Vec::new(),
            has_more: false,
            busy: Duration::ZERO,
            work: Operations::default(),
            tokens: BTreeMap::new(),
            created: 0,
        }
    }
}

fn refuse(code: &'static str, message: &str) -> Refused {
    Refused::new(400, code, message)
}

fn conflict(message: &str) -> Refused {
    Refused::new(409, "OperationConflict", message)
}

fn not_found(what: &str) -> Refused {
    Refused::new(404, "NoSuchObject", &format!("The {what} does not exist."))
}

fn done() -> Answer {
    Ok(Reply::new(200, json!({})))
}

/// Returns an object without what the API does not show.
fn shown(entry: &Value, hidden: &[&str]) -> Value {
    let mut object = entry.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|key, _| key != "account" && !hidden.contains(&&**key));
    }
    object
}

/// Returns a page of the objects of the request's account.
fn page(
    request: &ApiRequest,
    has_more: bool,
    collection: &str,
    all: impl Iterator<Item = Value>,
) -> Answer {
    let number = |key: &str, default| {
        let number = request.query(key).filter(|text| !text.is_empty());
        number.map_or(Ok(default), |text| {
            text.parse::<usize>()
                .map_err(|_| refuse("InappropriateJSON", key))
        })
    };
    let start = number("marker", 0)?;
    let size = number("maxKeys", 1000)?;
    if !(1..=1000).contains(&size) {
        return Err(refuse("InappropriateJSON", "maxKeys must be 1 to 1000"));
    }
    let all =
        all.filter(|object| object["account"].is_null() || object["account"] == *request.project);
    let page = Page::starting(all, start, size, &request.effects);
    let items: Vec<_> = page
        .items
        .iter()
        .map(|object| shown(object, &["listeners", "backends", "ipv6"]))
        .collect();
    let mut answer = json!({collection: items, "marker": start.to_string(), "isTruncated": has_more || page.next != Next::Nothing, "maxKeys": size});
    match page.next {
        Next::Nothing => {}
        Next::Following => answer["nextMarker"] = (start + size).to_string().into(),
        Next::Itself => answer["nextMarker"] = start.to_string().into(),
    }
    Ok(Reply::new(200, answer))
}

/// Returns the object of the request's account that has this ID.
fn find<'a>(
    all: &'a mut [Value],
    key: &str,
    id: &str,
    request: &ApiRequest,
) -> Result<&'a mut Value, Refused> {
    let is_this_object =
        |object: &&mut Value| object[key] == id && object["account"] == *request.project;
    all.iter_mut()
        .find(is_this_object)
        .ok_or_else(|| not_found(key))
}

/// Returns the text of a required field.
fn required<'a>(body: &'a Value, key: &str) -> Result<&'a str, Refused> {
    body[key]
        .as_str()
        .ok_or_else(|| refuse("InappropriateJSON", &format!("{key} is required")))
}

/// Refuses fields that the API does not know.
fn only(body: &Value, known: &[&str]) -> Result<(), Refused> {
    match body
        .as_object()
        .into_iter()
        .flatten()
        .find(|(key, _)| !known.contains(&&***key))
    {
        Some((key, _)) => Err(refuse("InappropriateJSON", &format!("{key} is unknown"))),
        None => Ok(()),
    }
}

impl Baidu {
    /// Returns a number that nothing has.
    pub fn number(&mut self) -> u64 {
        self.created += 1;
        self.created
    }

    /// Answers a creation; a token that was used before gets the same answer.
    fn once(
        &mut self,
        request: &ApiRequest,
        create: impl FnOnce(&mut Self) -> Result<Value, Refused>,
    ) -> Answer {
        let token = request.query("clientToken").map(str::to_owned);
        if let Some(answer) = token.as_ref().and_then(|token| self.tokens.get(token)) {
            return Ok(Reply::new(200, answer.clone()));
        }
        let answer = create(self)?;
        self.tokens
            .extend(token.map(|token| (token, answer.clone())));
        Ok(Reply::new(200, answer))
    }

    /// Freezes work in the background, or continues it.
    pub fn freeze(&mut self, is_frozen: bool) {
        self.work.is_frozen = is_frozen;
    }
}

const API: &[Route<Baidu>] = &[
    ("GET", "/v2/instance", instances::list),
    ("GET", "/v2/instance/{instanceId}", instances::one),
    ("GET", "/v1/subnet", instances::subnets),
    ("GET", "/v1/subnet/{subnetId}", instances::subnet),
    ("GET", "/v1/route", instances::table),
    ("POST", "/v1/route/rule", instances::create_rule),
    (
        "DELETE",
        "/v1/route/rule/{routeRuleId}",
        instances::delete_rule,
    ),
    ("GET", "/v1/blb", blb::list),
    ("POST", "/v1/blb", blb::create),
    ("GET", "/v1/blb/{blbId}", blb::one),
    ("PUT", "/v1/blb/{blbId}", blb::update),
    ("DELETE", "/v1/blb/{blbId}", blb::delete),
    ("GET", "/v1/blb/{blbId}/listener", blb::listeners),
    ("PUT", "/v1/blb/{blbId}/listener", blb::delete_listeners),
    ("GET", "/v1/blb/{blbId}/TCPlistener", blb::listeners),
    ("GET", "/v1/blb/{blbId}/UDPlistener", blb::listeners),
    ("POST", "/v1/blb/{blbId}/TCPlistener", blb::create_listener),
    ("PUT", "/v1/blb/{blbId}/TCPlistener", blb::update_listener),
    ("POST", "/v1/blb/{blbId}/UDPlistener", blb::create_listener),
    ("PUT", "/v1/blb/{blbId}/UDPlistener", blb::update_listener),
    ("GET", "/v1/blb/{blbId}/backendserver", blb::backends),
    ("POST", "/v1/blb/{blbId}/backendserver", blb::add_backends),
    ("PUT", "/v1/blb/{blbId}/backendserver", blb::change_backends),
    ("GET", "/v1/eip", eip::list),
    ("POST", "/v1/eip", eip::create),
    ("PUT", "/v1/eip/{eip}", eip::change),
    ("DELETE", "/v1/eip/{eip}", eip::delete),
];

/// The paths that only the gateway has through which version 1.0.14 of the Go program sends everything.
const GATEWAY: &[Route<Baidu>] = &[
    ("GET", "/v1/instance", instances::of_cluster),
    ("GET", "/v1/vpc/subnet", instances::subnets),
    ("GET", "/v1/vpc/subnet/{subnetId}", instances::subnet),
];

impl Cloud for Baidu {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "",
            service: (),
            table: API,
        },
        Routes {
            prefix: "/internal-api",
            service: (),
            table: GATEWAY,
        },
        Routes {
            prefix: "/internal-api",
            service: (),
            table: API,
        },
    ];

    fn advance(&mut self, _now: Instant) {
        for (id, operation) in self.work.finished() {
            self.finish_blb(&id, operation.error.is_some());
            self.finish_eip(&id);
        }
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        self.account.clone_into(&mut request.project);
        signature::check(request)?;
        if request.is_broken() {
            Err(refuse("MalformedJSON", "the body is no JSON"))
        } else {
            Ok(())
        }
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let code = if refused.code.is_empty() {
            "InternalError"
        } else {
            &*refused.code
        };
        let body = json!({"code": code, "message": refused.message, "requestId": "7f3a"});
        Reply::new(refused.status.unwrap_or(400), body).header("x-bce-request-id", "7f3a")
    }
}

//! A stateful fake of Linode's API, for tests: Linodes, VPCs, NodeBalancers and firewalls of several accounts.
//!
//! ```
//! use linode_fake::{ACCOUNT, Handle, Linodes};
//!
//! let fake = Handle::new(Linodes::default());
//! let id = fake.lock().add_linode(ACCOUNT, "worker-1");
//! assert_eq!(fake.lock().linodes[0]["id"], id);
//! let router = fake.router();
//! # drop(router);
//! ```

mod firewalls;
mod linodes;
mod nodebalancers;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fake_cloud::{Bucket, Cloud, Next, Page, Refused, Reply, Route, Routes, array};
pub use fake_cloud::{Fault, Handle, Port};
use serde_json::{Value, json};

use self::firewalls::{
    add_device, create_firewall, delete_device, delete_firewall, devices, firewall, firewalls,
    firewalls_of, set_rules,
};
use self::linodes::{
    interfaces, linode, linodes, profile, profiles, regions, set_ranges, subnet, subnets, vpc,
    vpc_ips, vpcs,
};
use self::nodebalancers::{
    configs, create_config, create_nodebalancer, delete_config, delete_nodebalancer, nodebalancer,
    nodebalancers, nodes, rebuild, release, update_nodebalancer,
};

/// The token of [`ACCOUNT`]. A fake's token is no secret.
pub const TOKEN: &str = "fake-token";
/// The account of the token.
pub const ACCOUNT: &str = "ours";
/// The only VPC, `pods`.
pub const VPC: u64 = 7;
/// Subnet `default` of the VPC, in which all Linodes are.
pub const SUBNET: u64 = 70;

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Reply, Refused>;

/// The state of the cloud.
pub struct Linodes {
    /// The account that the token is for.
    pub account: &'static str,
    /// Linodes, each with its VPC address and ranges in `vpc`, which the API shows under other paths.
    pub linodes: Vec<Value>,
    /// NodeBalancers as the API shows them, with their accounts.
    pub nodebalancers: Vec<Value>,
    /// Configurations, each with its backends in `nodes`, which the API shows only under a path of their own.
    pub configs: Vec<Value>,
    /// Firewalls, each with its devices in `devices`.
    pub firewalls: Vec<Value>,
    /// Reserved addresses that were released.
    pub released: Vec<String>,
    /// Rate limits in requests per minute: of lists, and of all other requests.
    pub limits: [u32; 2],
    buckets: BTreeMap<bool, Bucket>,
    created: u64,
}

impl Default for Linodes {
    fn default() -> Self {
        Self {
            account: ACCOUNT,
            linodes: Vec::new(),
            nodebalancers: Vec::new(),
            configs: Vec::new(),
            firewalls: Vec::new(),
            released: Vec::new(),
            limits: [200, 1600],
            buckets: BTreeMap::new(),
            created: 7_000_000,
        }
    }
}

fn refuse(reason: &str) -> Refused {
    Refused::new(400, "", reason)
}

fn not_found() -> Refused {
    Refused::new(404, "", "Not found")
}

/// Returns `true` if an object fits the conditions of `X-Filter`.
fn fits(object: &Value, filter: &Value) -> bool {
    filter
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, wanted)| match (key.as_str(), &object[key]) {
            ("+or", _) => array(wanted).any(|filter| fits(object, filter)),
            ("subnet_id", has) => wanted
                .as_str()
                .is_some_and(|all| all.split(',').any(|id| has.as_u64() == id.parse().ok())),
            (_, Value::Array(has)) => match wanted.get("+contains").and_then(Value::as_str) {
                Some(part) => has
                    .iter()
                    .any(|ha| ha.as_str().is_some_and(|text| text.contains(part))),
                None => has.contains(wanted),
            },
            (_, has) => has == wanted,
        })
}

fn without(mut object: Value, keys: &[&str]) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|key, _| !keys.contains(&&**key));
    }
    object
}

/// Returns a page of the objects of the request's account.
fn page(request: &ApiRequest, all: Vec<Value>) -> Answer {
    let filter = request
        .header("x-filter")
        .map_or(Ok(json!({})), serde_json::from_str::<Value>);
    let filter = filter.map_err(|_| refuse("X-Filter is no JSON"))?;
    let number = |key, default| {
        request.query(key).map_or(Ok(default), |text| {
            text.parse::<usize>().map_err(|_| refuse(key))
        })
    };
    let at = number("page", 1)?;
    let size = number("page_size", 100)?;
    if !(25..=500).contains(&size) {
        return Err(refuse("page_size: Must be 25-500"));
    }
    let all = all
        .into_iter()
        .filter(|object| object["account"].is_null() || object["account"] == *request.project);
    let Page {
        items,
        number,
        last,
        total,
        next,
    } = Page::numbered(
        all.filter(|object| fits(object, &filter)),
        at,
        size,
        &request.effects,
    );
    let pages = match next {
        Next::Nothing => last.min(number),
        Next::Following => last.max(number + 1),
        Next::Itself => number + 1,
    };
    let number = if next == Next::Itself { 1 } else { number };
    let items: Vec<_> = items
        .into_iter()
        .map(|object| without(object, &["account", "devices", "nodes", "vpc"]))
        .collect();
    Ok(Reply::new(
        200,
        json!({"data": items, "page": number, "pages": pages, "results": total}),
    ))
}

fn ok(object: &Value) -> Answer {
    Ok(Reply::new(
        200,
        without(object.clone(), &["account", "devices", "nodes", "vpc"]),
    ))
}

fn find<'a>(
    all: &'a mut [Value],
    request: &ApiRequest,
    nth: usize,
) -> Result<&'a mut Value, Refused> {
    let id = request.nth_id(nth).parse().ok();
    let mut found = all.iter_mut().filter(|object| object["id"].as_u64() == id);
    found
        .find(|object| object["account"].is_null() || object["account"] == *request.project)
        .ok_or_else(not_found)
}

/// Controls of tests over the state.
impl Linodes {
    /// Returns an ID that nothing has.
    pub fn number(&mut self) -> u64 {
        self.created += 1;
        self.created
    }

    /// Adds a Linode, and returns its ID.
    pub fn add_linode(&mut self, account: &str, name: &str) -> u64 {
        let id = self.number();
        let [high, low] = u16::try_from(id % 1_000_000)
            .unwrap_or_default()
            .to_be_bytes();
        self.linodes.push(json!({
            "id": id, "account": account, "label": name, "status": "running", "type": "g6-standard-4", "region": "us-east",
            "ipv4": [format!("203.0.{high}.{low}"), format!("192.168.{high}.{low}")],
            "ipv6": format!("2600:3c03::{:x}/128", id % 1_000_000), "host_uuid": format!("host-{id}"), "tags": ["prod"],
            "interface_generation": "legacy_config",
            "vpc": {"address": format!("10.0.{high}.{low}"), "ranges": [], "ipv6": format!("2600:3c0f:7:{:x}::/64", id % 1_000_000)},
        }));
        id
    }

    /// Adds a NodeBalancer with one port, and returns its ID.
    pub fn add_nodebalancer(&mut self, label: &str) -> u64 {
        let id = self.insert(
            ACCOUNT,
            &json!({"label": label, "region": "us-east", "tags": []}),
        );
        let config =
            json!({"port": 80, "protocol": "tcp", "algorithm": "roundrobin", "check": "none"});
        let _ = self.add_config(id, &config);
        id
    }

    /// Copies every NodeBalancer, with its tags and configurations, as an operator does: the copies have other labels, IDs
    /// and addresses.
    pub fn copy_nodebalancers(&mut self) {
        for original in self.nodebalancers.clone() {
            let label = format!("twin-{}", original["id"]);
            let id = self.insert(
                ACCOUNT,
                &json!({"label": label, "region": "us-east", "tags": original["tags"]}),
            );
            let configs: Vec<_> = self
                .configs
                .iter()
                .filter(|config| config["nodebalancer_id"] == original["id"])
                .cloned()
                .collect();
            for mut config in configs {
                (config["id"], config["nodebalancer_id"]) = (self.number().into(), id.into());
                for node in config["nodes"].as_array_mut().into_iter().flatten() {
                    node["id"] = self.number().into();
                }
                self.configs.push(config);
            }
        }
    }
}

const API: &[Route<Linodes>] = &[
    ("GET", "/profile", profile),
    ("GET", "/regions", regions),
    ("GET", "/linode/instances", linodes),
    ("GET", "/linode/instances/{id}", linode),
    ("GET", "/linode/instances/{id}/configs", profiles),
    ("GET", "/linode/instances/{id}/interfaces", interfaces),
    (
        "PUT",
        "/linode/instances/{id}/configs/{config}/interfaces/{interface}",
        set_ranges,
    ),
    (
        "PUT",
        "/linode/instances/{id}/interfaces/{interface}",
        set_ranges,
    ),
    ("GET", "/vpcs", vpcs),
    ("GET", "/vpcs/{id}", vpc),
    ("GET", "/vpcs/{id}/subnets", subnets),
    ("GET", "/vpcs/{id}/subnets/{subnet}", subnet),
    ("GET", "/vpcs/{id}/ips", vpc_ips),
    ("GET", "/vpcs/{id}/ipv6s", vpc_ips),
    ("GET", "/nodebalancers", nodebalancers),
    ("POST", "/nodebalancers", create_nodebalancer),
    ("GET", "/nodebalancers/{id}", nodebalancer),
    ("PUT", "/nodebalancers/{id}", update_nodebalancer),
    ("DELETE", "/nodebalancers/{id}", delete_nodebalancer),
    ("GET", "/nodebalancers/{id}/configs", configs),
    ("POST", "/nodebalancers/{id}/configs", create_config),
    (
        "DELETE",
        "/nodebalancers/{id}/configs/{config}",
        delete_config,
    ),
    (
        "POST",
        "/nodebalancers/{id}/configs/{config}/rebuild",
        rebuild,
    ),
    ("GET", "/nodebalancers/{id}/configs/{config}/nodes", nodes),
    ("GET", "/nodebalancers/{id}/firewalls", firewalls_of),
    ("GET", "/networking/firewalls", firewalls),
    ("POST", "/networking/firewalls", create_firewall),
    ("GET", "/networking/firewalls/{id}", firewall),
    ("DELETE", "/networking/firewalls/{id}", delete_firewall),
    ("PUT", "/networking/firewalls/{id}/rules", set_rules),
    ("GET", "/networking/firewalls/{id}/devices", devices),
    ("POST", "/networking/firewalls/{id}/devices", add_device),
    (
        "DELETE",
        "/networking/firewalls/{id}/devices/{device}",
        delete_device,
    ),
    ("DELETE", "/networking/reserved/ips/{address}", release),
];

impl Cloud for Linodes {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[Routes {
        prefix: "/v4",
        service: (),
        table: API,
    }];

    /// Lists have a limit of their own.
    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        self.account.clone_into(&mut request.project);
        if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return Err(Refused::new(401, "", "Invalid Token"));
        }
        let is_list = request.route.starts_with("GET ")
            && !request.route.ends_with('}')
            && request.route != "GET /profile";
        let limit = self.limits[usize::from(!is_list)];
        let minute = Duration::from_secs(60);
        let allowance = self
            .buckets
            .entry(is_list)
            .or_insert_with(|| Bucket::new(limit, minute, limit))
            .take();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        request.on_answer.extend([
            ("x-ratelimit-limit", allowance.limit.to_string()),
            ("x-ratelimit-remaining", allowance.remaining.to_string()),
            (
                "x-ratelimit-reset",
                (now + allowance.full_in).as_secs().to_string(),
            ),
        ]);
        if allowance.is_exceeded {
            return Err(Refused {
                retry_after: Some(1),
                ..Refused::new(429, "", "Too many requests")
            });
        }
        if request.is_broken() {
            Err(refuse("the body is no JSON"))
        } else {
            Ok(())
        }
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let reason = if refused.message.is_empty() {
            &refused.code
        } else {
            &refused.message
        };
        Reply::new(
            refused.status.unwrap_or(400),
            json!({"errors": [{ "reason": reason }]}),
        )
    }
}

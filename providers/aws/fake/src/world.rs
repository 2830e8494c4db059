//! The state of the cloud: objects as the APIs show them, by kind. Fields that begin with an underscore are not shown.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::{Bucket, Next, Page, Refused};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{ACCOUNT, Answer, ApiRequest, CLUSTER, Service, VPC, refuse};

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instances, with their network interfaces.
    Instance,
    /// Network interfaces of Fargate.
    Interface,
    /// Subnets of the VPC.
    Subnet,
    /// Route tables of the VPC.
    Table,
    /// Security groups of the VPC.
    Group,
    /// Load balancers of the first generation.
    Classic,
    /// Load balancers of the second generation.
    Network,
    /// Target groups, with their targets.
    TargetGroup,
    /// Listeners of network load balancers.
    Listener,
}

impl Kind {
    /// Name in the account of all objects, field with the ID, parameters that ask for IDs and names, code without such an object.
    fn words(self) -> (&'static str, &'static str, [&'static str; 2], &'static str) {
        match self {
            Self::Instance => ("instance", "instanceId", ["InstanceId", ""], "InvalidInstanceID.NotFound"),
            Self::Interface => {
                ("interface", "networkInterfaceId", ["NetworkInterfaceId", ""], "InvalidNetworkInterfaceID.NotFound")
            }
            Self::Subnet => ("subnet", "subnetId", ["SubnetId", ""], "InvalidSubnetID.NotFound"),
            Self::Table => ("table", "routeTableId", ["RouteTableId", ""], "InvalidRouteTableID.NotFound"),
            Self::Group => ("group", "groupId", ["GroupId", "GroupName"], "InvalidGroup.NotFound"),
            Self::Classic => ("classic", "LoadBalancerName", ["LoadBalancerNames", ""], "LoadBalancerNotFound"),
            Self::Network => ("network", "LoadBalancerArn", ["LoadBalancerArns", "Names"], "LoadBalancerNotFound"),
            Self::TargetGroup => {
                ("target-group", "TargetGroupArn", ["TargetGroupArns", "Names"], "TargetGroupNotFound")
            }
            Self::Listener => ("listener", "ListenerArn", ["ListenerArns", ""], "ListenerNotFound"),
        }
    }

    fn name_field(self) -> &'static str {
        match self {
            Self::Group => "groupName",
            Self::TargetGroup => "TargetGroupName",
            _ => "LoadBalancerName",
        }
    }
}

/// Names of filters, and where objects have their value.
const FILTERS: [(&str, &str); 16] = [
    ("vpc-id", "vpcId"),
    ("subnet-id", "subnetId"),
    ("availability-zone", "availabilityZone"),
    ("group-id", "groupId"),
    ("group-name", "groupName"),
    ("route-table-id", "routeTableId"),
    ("association.main", "associationSet.main"),
    ("association.subnet-id", "associationSet.subnetId"),
    ("private-dns-name", "privateDnsName"),
    ("private-ip-address", "privateIpAddress"),
    ("instance-id", "instanceId"),
    ("instance-state-name", "instanceState.name"),
    ("attachment.status", "attachment.status"),
    ("ip-permission.group-id", "ipPermissions.groups.groupId"),
    ("tag-key", "tagSet.key"),
    ("network-interface-id", "networkInterfaceId"),
];

/// A change that is carried out later: when, to what, and the fields.
type Pending = (Instant, Kind, String, Value);

/// The state of the cloud.
pub struct World {
    /// The account that the key is for.
    pub account: &'static str,
    /// New instances, security groups and tags are shown after this time.
    pub lag: Duration,
    /// New network load balancers are active after this time.
    pub provisioning: Duration,
    /// Security groups are free after this time when their load balancer was deleted.
    pub detaching: Duration,
    /// The longest page of a list.
    pub page: usize,
    /// The most rules of a security group.
    pub rules: usize,
    /// Requests to each API in so many seconds: reads, and changes.
    pub limits: [(u32, u64); 2],
    pub(crate) buckets: BTreeMap<(Service, bool), Bucket>,
    things: BTreeMap<&'static str, Vec<Value>>,
    pending: Vec<Pending>,
    created: u32,
}

impl Default for World {
    /// A VPC with two public and two private subnets in two zones, a route table for each and a security group of nodes.
    fn default() -> Self {
        let mut world = Self {
            account: ACCOUNT,
            lag: Duration::ZERO,
            provisioning: Duration::from_secs(90),
            detaching: Duration::from_secs(8),
            page: 20,
            rules: 60,
            limits: [(200, 5), (100, 10)],
            buckets: BTreeMap::new(),
            things: BTreeMap::new(),
            pending: Vec::new(),
            created: 0,
        };
        let cluster = json!([{"key": format!("kubernetes.io/cluster/{CLUSTER}"), "value": "owned"}]);
        let mut tables = [("public", "igw-0a1b2c3d"), ("private", "")].map(|(name, gateway)| {
            let mut routes = vec![json!({"destinationCidrBlock": "10.0.0.0/16", "gatewayId": "local", "origin": "CreateRouteTable", "state": "active"})];
            if !gateway.is_empty() {
                routes.push(json!({"destinationCidrBlock": "0.0.0.0/0", "gatewayId": gateway, "origin": "CreateRoute", "state": "active"}));
            }
            let is_main = name == "public";
            let associations: Vec<_> = if is_main { vec![json!({"main": true})] } else { Vec::new() };
            json!({"routeTableId": format!("rtb-{name}"), "vpcId": VPC, "routeSet": routes, "associationSet": associations,
                "tagSet": if is_main { cluster.clone() } else { json!([]) }, "_account": ACCOUNT})
        });
        for (number, role) in [(0, "elb"), (1, "elb"), (2, "internal-elb"), (3, "internal-elb")] {
            let id = format!("subnet-0000000{number}");
            push(&mut tables[usize::from(number > 1)]["associationSet"], json!({"main": false, "subnetId": id}));
            let mut tags = cluster.clone();
            push(&mut tags, json!({"key": format!("kubernetes.io/role/{role}"), "value": "1"}));
            world.add(Kind::Subnet, json!({"subnetId": id, "vpcId": VPC, "availabilityZone": zone(number % 2), "state": "available",
                "cidrBlock": format!("10.0.{}.0/20", number * 16), "tagSet": tags, "_account": ACCOUNT,
                "ipv6CidrBlockAssociationSet": [{"ipv6CidrBlock": format!("2600:1f18:1::{number}:0:0:0/64"), "ipv6CidrBlockState": {"state": "associated"}}]}));
        }
        tables.into_iter().for_each(|table| world.add(Kind::Table, table));
        let nodes = json!({"groupId": "sg-nodes", "groupName": "nodes", "groupDescription": "nodes", "vpcId": VPC, "tagSet": cluster,
            "ownerId": ACCOUNT, "ipPermissions": [], "_rules": [], "_account": ACCOUNT});
        world.add(Kind::Group, nodes);
        world
    }
}

/// Returns `us-east-1a` or `us-east-1b`.
pub(crate) fn zone(number: u32) -> &'static str {
    if number.is_multiple_of(2) { "us-east-1a" } else { "us-east-1b" }
}

/// Returns the items of a list, or none.
pub(crate) fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a text, or an empty one.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[allow(clippy::needless_pass_by_value, reason = "most items are made for this")]
pub(crate) fn push(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().into_iter().for_each(|all| all.push(item.clone()));
}

pub(crate) fn retain(list: &mut Value, keep: impl Fn(&Value) -> bool) {
    list.as_array_mut().into_iter().for_each(|all| all.retain(&keep));
}

/// Sets a tag; its fields are `key` and `value` in EC2, and `Key` and `Value` elsewhere.
pub(crate) fn tag(tags: &mut Value, [key, value]: [&str; 2], new: &Value) {
    retain(tags, |it| it[key] != new["Key"]);
    push(tags, json!({key: new["Key"], value: text(&new["Value"])}));
}

/// Returns the values on a path; lists are looked into.
fn leaves<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    match (value, path.split_once('.').unwrap_or((path, ""))) {
        (Value::Array(items), _) => items.iter().flat_map(|it| leaves(it, path)).collect(),
        (value, ("", _)) => vec![value],
        (value, (first, rest)) => leaves(&value[first], rest),
    }
}

fn matches(it: &Value, filter: &Value) -> Result<bool, Refused> {
    let name = text(&filter["Name"]);
    let is_wanted = |has: &Value| {
        let has = has.as_str().map_or_else(|| has.to_string(), str::to_owned);
        array(&filter["Value"]).any(|it| text(it) == "*" || *it == has)
    };
    if let Some(key) = name.strip_prefix("tag:") {
        return Ok(array(&it["tagSet"]).any(|tag| tag["key"] == key && is_wanted(&tag["value"])));
    }
    match FILTERS.iter().find(|(known, _)| *known == name) {
        Some((_, path)) => Ok(leaves(it, path).into_iter().any(is_wanted)),
        None => refuse("InvalidParameterValue", format!("The filter '{name}' is invalid")),
    }
}

/// Controls of tests over the state.
impl World {
    /// Returns all objects of a kind: `instance`, `subnet`, `table`, `group`, `classic`, `network`, `target-group`, `listener`.
    #[must_use]
    pub fn all(&self, kind: &str) -> &[Value] {
        self.things.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Returns the objects of a kind, to be changed.
    pub fn each(&mut self, kind: Kind) -> &mut Vec<Value> {
        self.things.entry(kind.words().0).or_default()
    }

    pub(crate) fn add(&mut self, kind: Kind, object: Value) {
        self.each(kind).push(object);
    }

    /// Returns a number that nothing has.
    pub fn number(&mut self) -> u32 {
        self.created += 1;
        self.created
    }

    /// Adds a running instance with this private DNS name, and returns its ID.
    pub fn add_instance(&mut self, account: &str, name: &str) -> String {
        let number = self.number();
        let id = format!("i-{:017x}", 0x0a00_0000 + number);
        let [.., high, low] = number.to_be_bytes();
        let (ip, zone) = (format!("10.0.{high}.{low}"), zone(number));
        self.add(Kind::Instance, json!({
            "instanceId": id, "instanceState": {"code": 16, "name": "running"}, "instanceType": "m5.large",
            "placement": {"availabilityZone": zone}, "privateDnsName": name, "privateIpAddress": ip, "vpcId": VPC, "subnetId": "subnet-00000000",
            "dnsName": format!("ec2-203-0-{high}-{low}.compute-1.amazonaws.com"), "ipAddress": format!("203.0.{high}.{low}"),
            "groupSet": [{"groupId": "sg-nodes", "groupName": "nodes"}], "sourceDestCheck": true, "launchTime": "2026-01-01T00:00:00.000Z",
            "tagSet": [{"key": format!("kubernetes.io/cluster/{CLUSTER}"), "value": "owned"}, {"key": "Name", "value": name}],
            "networkInterfaceSet": [{"networkInterfaceId": format!("eni-{number:08x}"), "status": "in-use", "privateIpAddress": ip,
                "attachment": {"deviceIndex": 0, "networkCardIndex": 0, "status": "attached"},
                "privateIpAddressesSet": [{"privateIpAddress": ip, "primary": true}],
                "ipv6AddressesSet": [{"ipv6Address": format!("2600:1f18:1::{number:x}")}]}],
            "_account": account, "_hidden": !self.lag.is_zero(),
        }));
        self.later(self.lag, Kind::Instance, &id, json!({"_hidden": false}));
        id
    }
}

impl World {
    /// Creates a load balancer of this name by hand, without tags.
    pub fn add_balancer(&mut self, kind: Kind, name: &str) {
        let listeners =
            json!([{"Protocol": "TCP", "InstanceProtocol": "TCP", "LoadBalancerPort": "80", "InstancePort": "30080"}]);
        let body = json!({"LoadBalancerName": name, "Name": name, "Type": "network", "Subnets": ["subnet-00000000"], "Listeners": listeners,
            "SecurityGroups": ["sg-nodes"]});
        let (effects, now) = (fake_cloud::Effects::default(), Instant::now());
        let request = ApiRequest {
            service: Service::Elb,
            route: String::new(),
            path: String::new(),
            ids: Vec::new(),
            query: Vec::new(),
            headers: http::HeaderMap::new(),
            bytes: bytes::Bytes::new(),
            body,
            project: ACCOUNT.to_owned(),
            effects,
            now,
            on_answer: Vec::new(),
        };
        let provisioning = std::mem::take(&mut self.provisioning);
        let _ = if kind == Kind::Network {
            crate::elbv2::create(self, &request)
        } else {
            crate::elb::create(self, &request)
        };
        self.provisioning = provisioning;
    }
}

/// Objects of the account that asks.
impl World {
    /// Carries a change out after this time.
    pub(crate) fn later(&mut self, after: Duration, kind: Kind, id: &str, change: Value) {
        let now = if after.is_zero() { None } else { Some(Instant::now() + after) };
        match now {
            Some(at) => self.pending.push((at, kind, id.to_owned(), change)),
            None => self.apply(kind, id, &change),
        }
    }

    fn apply(&mut self, kind: Kind, id: &str, change: &Value) {
        let field = kind.words().1;
        for it in self.each(kind).iter_mut().filter(|it| it[field] == id) {
            for (key, value) in change.as_object().into_iter().flatten() {
                match key.as_str() {
                    "+tags" => array(value).for_each(|new| tag(&mut it["tagSet"], ["key", "value"], new)),
                    _ => it[key] = value.clone(),
                }
            }
        }
    }

    /// Carries out what is due.
    pub(crate) fn carry_out(&mut self, now: Instant) {
        for (_, kind, id, change) in self.pending.extract_if(.., |it| it.0 <= now).collect::<Vec<_>>() {
            self.apply(kind, &id, &change);
        }
    }

    pub(crate) fn find(&mut self, request: &ApiRequest, kind: Kind, id: &Value) -> Result<&mut Value, Refused> {
        let (name, field, _, missing) = kind.words();
        let is_it = |it: &&mut Value| it[field] == *id && it["_account"] == *request.project && it["_hidden"] != true;
        let found = self.each(kind).iter_mut().find(is_it);
        found.map_or_else(|| refuse(missing, format!("The {name} ID '{}' does not exist", text(id))), Ok)
    }

    pub(crate) fn has(&mut self, request: &ApiRequest, kind: Kind, id: &Value) -> bool {
        self.find(request, kind, id).is_ok()
    }

    /// Returns the page of a list, by IDs, names and filters.
    pub(crate) fn describe(&mut self, request: &ApiRequest, kind: Kind, set: &str) -> Answer {
        let items = self.chosen(request, kind)?;
        self.paged(request, items, set)
    }

    pub(crate) fn chosen(&mut self, request: &ApiRequest, kind: Kind) -> Result<Vec<Value>, Refused> {
        let (name, field, parameters, missing) = kind.words();
        let is_shown = |it: &&Value| it["_account"] == *request.project && it["_hidden"] != true;
        let mut items: Vec<_> = self.all(name).iter().filter(is_shown).cloned().collect();
        for (parameter, field) in parameters.into_iter().zip([field, kind.name_field()]) {
            let wanted: Vec<_> = array(&request.body[parameter]).collect();
            if wanted.is_empty() {
                continue;
            }
            if let Some(lost) = wanted.iter().find(|id| !items.iter().any(|it| it[field] == ***id)) {
                return refuse(missing, format!("The {name} '{}' does not exist", text(lost)));
            }
            items.retain(|it| wanted.contains(&&it[field]));
        }
        for filter in array(&request.body["Filter"]) {
            if array(&filter["Value"]).count() > 200 {
                return refuse("FilterLimitExceeded", "The maximum number of filter values is 200");
            }
            let fits: Vec<bool> = items.iter().map(|it| matches(it, filter)).collect::<Result<_, _>>()?;
            let mut fits = fits.into_iter();
            items.retain(|_| fits.next().unwrap_or_default());
        }
        Ok(items)
    }

    pub(crate) fn paged(&self, request: &ApiRequest, items: Vec<Value>, set: &str) -> Answer {
        let is_ec2 = request.service == Service::Ec2;
        let [token, size, next, most] = if is_ec2 {
            ["NextToken", "MaxResults", "nextToken", "1000"]
        } else {
            ["Marker", "PageSize", "NextMarker", "400"]
        };
        let most = if set == "routeTableSet" { 100 } else { most.parse().unwrap_or(0) };
        let size = &request.body[size];
        let size = match text(size).parse::<usize>() {
            Ok(size) if (1..=most).contains(&size) => size.min(self.page),
            _ if !size.is_null() => return refuse("ValidationError", "the size of a page is out of range"),
            _ if is_ec2 => items.len().max(1),
            _ => self.page,
        };
        let ids = ["InstanceId", "GroupId", "SubnetId", "RouteTableId"];
        if is_ec2 && !request.body["MaxResults"].is_null() && ids.iter().any(|key| !request.body[*key].is_null()) {
            return refuse("InvalidParameterCombination", "IDs and MaxResults cannot be given together");
        }
        let start: usize =
            text(&request.body[token]).strip_prefix("after-").and_then(|it| it.parse().ok()).unwrap_or(0);
        let Page { items, next: followed, .. } =
            Page::starting(items.into_iter().enumerate(), start, size, &request.effects);
        let after = items.last().map_or(start + size, |(index, _)| index + 1);
        let token = match followed {
            Next::Nothing => Value::Null,
            Next::Following => format!("after-{after}").into(),
            Next::Itself => format!("after-{start}").into(),
        };
        let items: Vec<_> = items.into_iter().map(|(_, it)| it).collect();
        Ok(json!({set: items, next: token}))
    }
}

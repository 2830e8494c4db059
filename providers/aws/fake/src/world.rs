//! The state of the cloud: objects as the APIs show them, by kind. Fields that begin with an underscore are not shown.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::{Bucket, Effects, Next, Page, Refused};
pub(crate) use fake_cloud::{array, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{ACCOUNT, Answer, CLUSTER, VPC, check, refuse};

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
    /// Name in the account of all objects, field with the ID, parameter with IDs, element with a list, code without such an
    /// object.
    fn words(self) -> [&'static str; 5] {
        let words = match self {
            Self::Instance => {
                "instance instanceId InstanceId reservationSet InvalidInstanceID.NotFound"
            }
            Self::Interface => {
                "interface networkInterfaceId NetworkInterfaceId networkInterfaceSet InvalidNetworkInterfaceID.NotFound"
            }
            Self::Subnet => "subnet subnetId SubnetId subnetSet InvalidSubnetID.NotFound",
            Self::Table => {
                "table routeTableId RouteTableId routeTableSet InvalidRouteTableID.NotFound"
            }
            Self::Group => "group groupId GroupId securityGroupInfo InvalidGroup.NotFound",
            Self::Classic => {
                "classic LoadBalancerName LoadBalancerNames LoadBalancerDescriptions LoadBalancerNotFound"
            }
            Self::Network => {
                "network LoadBalancerArn LoadBalancerArns LoadBalancers LoadBalancerNotFound"
            }
            Self::TargetGroup => {
                "target-group TargetGroupArn TargetGroupArns TargetGroups TargetGroupNotFound"
            }
            Self::Listener => "listener ListenerArn ListenerArns Listeners ListenerNotFound",
        };
        let mut words = words.split(' ');
        std::array::from_fn(|_| words.next().unwrap_or_default())
    }

    /// Field with the ID, and parameter with one.
    pub(crate) fn id(self) -> &'static str {
        self.words()[1]
    }

    /// Parameter with names, and the field with the name.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Group => ["GroupName", "groupName"],
            Self::TargetGroup => ["Names", "TargetGroupName"],
            _ => ["Names", "LoadBalancerName"],
        }
    }
}

/// Names of filters, and where objects have their value.
const FILTERS: &str = "vpc-id=vpcId subnet-id=subnetId availability-zone=availabilityZone group-id=groupId group-name=groupName \
    route-table-id=routeTableId association.main=associationSet.main association.subnet-id=associationSet.subnetId \
    private-dns-name=privateDnsName private-ip-address=privateIpAddress instance-id=instanceId instance-state-name=instanceState.name \
    attachment.status=attachment.status ip-permission.group-id=ipPermissions.groups.groupId tag-key=tagSet.key \
    network-interface-id=networkInterfaceId";

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
    pub(crate) buckets: BTreeMap<(String, bool), Bucket>,
    /// The faults that hit the request.
    pub(crate) effects: Effects,
    things: BTreeMap<&'static str, Vec<Value>>,
    pending: Vec<Pending>,
    created: u32,
}

impl Default for World {
    /// A VPC with two public and two private subnets in two zones, a route table for each and a security group of nodes.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let lag = Duration::ZERO;
        let provisioning = seconds(90);
        let detaching = seconds(8);
        let (buckets, effects, things, pending) = Default::default();
        let page = 20;
        let rules = 60;
        let limits = [(200, 5), (100, 10)];
        let created = 0;
        let mut world = Self {
            account: ACCOUNT,
            lag,
            provisioning,
            detaching,
            page,
            rules,
            limits,
            buckets,
            effects,
            things,
            pending,
            created,
        };
        for kind in [Kind::Table, Kind::Subnet, Kind::Group] {
            *world.each(kind) = array(&data()["there"][kind.words()[0]]).cloned().collect();
        }
        world
    }
}

/// Returns the objects that are there from the start, and the fields that new objects have in common.
pub(crate) fn data() -> Value {
    serde_json::from_str(include_str!("world.json")).unwrap_or_default()
}

/// Returns a new object of a kind with these fields.
pub(crate) fn new(kind: Kind, fields: &Value) -> Value {
    let mut object = data()["new"][kind.words()[0]].take();
    merge(&mut object, fields);
    object
}

/// Returns `us-east-1a` or `us-east-1b`.
pub(crate) fn zone(number: u32) -> &'static str {
    if number.is_multiple_of(2) {
        "us-east-1a"
    } else {
        "us-east-1b"
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "most items are made for this"
)]
pub(crate) fn push(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut()
        .into_iter()
        .for_each(|all| all.push(item.clone()));
}

pub(crate) fn retain(list: &mut Value, keep: impl Fn(&Value) -> bool) {
    list.as_array_mut()
        .into_iter()
        .for_each(|all| all.retain(&keep));
}

/// Sets the fields of an object.
pub(crate) fn merge(into: &mut Value, fields: &Value) {
    fields
        .as_object()
        .into_iter()
        .flatten()
        .for_each(|(key, value)| into[key] = value.clone());
}

/// Sets tags; their fields are `key` and `value` in EC2, and `Key` and `Value` elsewhere.
pub(crate) fn tag(tags: &mut Value, [key, value]: [&str; 2], new: &Value) {
    for new in array(new) {
        retain(tags, |object| object[key] != new["Key"]);
        push(tags, json!({key: new["Key"], value: text(&new["Value"])}));
    }
}

/// Returns the values on a path; lists are looked into.
fn leaves<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    match (value, path.split_once('.').unwrap_or((path, ""))) {
        (Value::Array(items), _) => items
            .iter()
            .flat_map(|object| leaves(object, path))
            .collect(),
        (value, ("", _)) => vec![value],
        (value, (first, rest)) => leaves(&value[first], rest),
    }
}

fn matches(entry: &Value, filter: &Value) -> Result<bool, Refused> {
    let name = text(&filter["Name"]);
    let is_wanted = |has: &Value| {
        let has = has.as_str().map_or_else(|| has.to_string(), str::to_owned);
        array(&filter["Value"]).any(|object| text(object) == "*" || *object == has)
    };
    if let Some(key) = name.strip_prefix("tag:") {
        return Ok(array(&entry["tagSet"]).any(|tag| tag["key"] == key && is_wanted(&tag["value"])));
    }
    match FILTERS
        .split(' ')
        .filter_map(|text| text.split_once('='))
        .find(|(known, _)| *known == name)
    {
        Some((_, path)) => Ok(leaves(entry, path).into_iter().any(is_wanted)),
        None => refuse(
            "InvalidParameterValue",
            format!("The filter '{name}' is invalid"),
        ),
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
        self.things.entry(kind.words()[0]).or_default()
    }

    /// Adds an object, of the account that the key is for unless it says otherwise.
    pub(crate) fn add(&mut self, kind: Kind, mut object: Value) {
        if object["_account"].is_null() {
            object["_account"] = self.account.into();
        }
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
        let ip = format!("10.0.{high}.{low}");
        let zone = zone(number);
        let fields = json!({"instanceId": id, "placement": {"availabilityZone": zone}, "privateDnsName": name, "privateIpAddress": ip,
            "dnsName": format!("ec2-203-0-{high}-{low}.compute-1.amazonaws.com"), "ipAddress": format!("203.0.{high}.{low}"),
            "tagSet": [{"key": format!("kubernetes.io/cluster/{CLUSTER}"), "value": "owned"}, {"key": "Name", "value": name}],
            "networkInterfaceSet": [{"networkInterfaceId": format!("eni-{number:08x}"), "status": "in-use", "privateIpAddress": ip,
                "attachment": {"deviceIndex": 0, "networkCardIndex": 0, "status": "attached"},
                "privateIpAddressesSet": [{"privateIpAddress": ip, "primary": true}],
                "ipv6AddressesSet": [{"ipv6Address": format!("2600:1f18:1::{number:x}")}]}],
            "_account": account, "_hidden": !self.lag.is_zero()});
        self.add(Kind::Instance, new(Kind::Instance, &fields));
        self.later(self.lag, Kind::Instance, &id, json!({"_hidden": false}));
        id
    }

    /// Adds a network interface of Fargate with this address.
    pub fn add_interface(&mut self, address: &str) {
        let id = format!("eni-{:08x}", self.number());
        let name = format!("ip-{}.ec2.internal", address.replace('.', "-"));
        self.add(
            Kind::Interface,
            json!({"networkInterfaceId": id, "availabilityZone": zone(0), "privateIpAddress": address,
            "vpcId": VPC, "privateDnsName": name, "attachment": {"status": "attached"}, "ipv6AddressesSet": []}),
        );
    }

    /// Creates a load balancer of this name by hand, without tags.
    pub fn add_balancer(&mut self, kind: Kind, name: &str) {
        let listener = json!({"Protocol": "TCP", "InstanceProtocol": "TCP", "LoadBalancerPort": "80", "InstancePort": "30080"});
        let body = json!({"LoadBalancerName": name, "Name": name, "Type": "network", "Subnets": ["subnet-00000000"],
            "Listeners": [listener], "SecurityGroups": ["sg-nodes"]});
        let account = self.account;
        let provisioning = self.provisioning;
        (self.account, self.provisioning) = (ACCOUNT, Duration::ZERO);
        let api = if kind == Kind::Network {
            crate::elbv2::answer
        } else {
            crate::elb::answer
        };
        let _ = api(self, "CreateLoadBalancer", &body);
        (self.account, self.provisioning) = (account, provisioning);
    }
}

/// Objects of the account that the key is for.
impl World {
    /// Carries a change out after this time.
    pub(crate) fn later(&mut self, after: Duration, kind: Kind, id: &str, change: Value) {
        match after.is_zero() {
            true => self.apply(kind, id, &change),
            false => self
                .pending
                .push((Instant::now() + after, kind, id.to_owned(), change)),
        }
    }

    fn apply(&mut self, kind: Kind, id: &str, change: &Value) {
        for entry in self
            .each(kind)
            .iter_mut()
            .filter(|object| object[kind.id()] == id)
        {
            match change.get("+tags") {
                Some(tags) => tag(&mut entry["tagSet"], ["key", "value"], tags),
                None => merge(entry, change),
            }
        }
    }

    /// Carries out what is due.
    pub(crate) fn carry_out(&mut self, now: Instant) {
        for (_, kind, id, change) in self
            .pending
            .extract_if(.., |pair| pair.0 <= now)
            .collect::<Vec<_>>()
        {
            self.apply(kind, &id, &change);
        }
    }

    pub(crate) fn find(&mut self, kind: Kind, id: &Value) -> Result<&mut Value, Refused> {
        let ([name, field, .., missing], account) = (kind.words(), self.account);
        let is_this_object = |object: &&mut Value| {
            object[field] == *id && object["_account"] == account && object["_hidden"] != true
        };
        let found = self.each(kind).iter_mut().find(is_this_object);
        found.map_or_else(
            || {
                refuse(
                    missing,
                    format!("The {name} ID '{}' does not exist", text(id)),
                )
            },
            Ok,
        )
    }

    pub(crate) fn has(&mut self, kind: Kind, id: &Value) -> bool {
        self.find(kind, id).is_ok()
    }

    /// Removes the objects of a kind that have this value.
    pub(crate) fn remove(&mut self, kind: Kind, field: &str, value: &Value) {
        self.each(kind).retain(|object| object[field] != *value);
    }

    /// Returns the page of a list, by IDs, names and filters.
    pub(crate) fn describe(&mut self, kind: Kind, body: &Value) -> Answer {
        let items = self.chosen(kind, body)?;
        self.paged(body, items, kind.words()[3])
    }

    pub(crate) fn chosen(&mut self, kind: Kind, body: &Value) -> Result<Vec<Value>, Refused> {
        let [name, id, ids, _, missing] = kind.words();
        let is_shown =
            |object: &&Value| object["_account"] == self.account && object["_hidden"] != true;
        let mut items: Vec<_> = self.all(name).iter().filter(is_shown).cloned().collect();
        for [parameter, field] in [[ids, id], kind.names()] {
            let wanted: Vec<_> = array(&body[parameter]).collect();
            if let Some(lost) = wanted
                .iter()
                .find(|id| !items.iter().any(|object| object[field] == ***id))
            {
                return refuse(
                    missing,
                    format!("The {name} '{}' does not exist", text(lost)),
                );
            }
            items.retain(|object| wanted.is_empty() || wanted.contains(&&object[field]));
        }
        for filter in array(&body["Filter"]) {
            let is_short = array(&filter["Value"]).count() <= 200;
            check(
                is_short,
                "FilterLimitExceeded",
                "The maximum number of filter values is 200",
            )?;
            let fits: Vec<bool> = items
                .iter()
                .map(|object| matches(object, filter))
                .collect::<Result<_, _>>()?;
            let mut fits = fits.into_iter();
            items.retain(|_| fits.next().unwrap_or_default());
        }
        Ok(items)
    }

    pub(crate) fn paged(&self, body: &Value, items: Vec<Value>, set: &str) -> Answer {
        let is_ec2 = set.starts_with(char::is_lowercase);
        let [token, size, next] = if is_ec2 {
            ["NextToken", "MaxResults", "nextToken"]
        } else {
            ["Marker", "PageSize", "NextMarker"]
        };
        let most = if set == "routeTableSet" {
            100
        } else if is_ec2 {
            1000
        } else {
            400
        };
        let has_ids = ["InstanceId", "GroupId", "SubnetId", "RouteTableId"]
            .iter()
            .any(|key| !body[*key].is_null());
        let is_right = !is_ec2 || !has_ids || body[size].is_null();
        check(
            is_right,
            "InvalidParameterCombination",
            "IDs and MaxResults cannot be given together",
        )?;
        let size = match (&body[size], text(&body[size]).parse::<usize>()) {
            (_, Ok(size)) if (1..=most).contains(&size) => size.min(self.page),
            (Value::Null, _) if is_ec2 => items.len().max(1),
            (Value::Null, _) => self.page,
            _ => return refuse("ValidationError", "the size of a page is out of range"),
        };
        let start: usize = text(&body[token])
            .strip_prefix("after-")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let page = Page::starting(items.into_iter().enumerate(), start, size, &self.effects);
        let after = page
            .items
            .last()
            .map_or(start + size, |(index, _)| index + 1);
        let token = match page.next {
            Next::Nothing => Value::Null,
            Next::Following => format!("after-{after}").into(),
            Next::Itself => format!("after-{start}").into(),
        };
        Ok(
            json!({set: page.items.into_iter().map(|(_, object)| object).collect::<Vec<_>>(), next: token}),
        )
    }
}

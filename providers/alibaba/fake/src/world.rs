//! The state of the cloud: objects as the APIs show them, by kind. Fields that begin with an underscore are not shown.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use fake_cloud::{Bucket, Effects, Next, Objects, Page};
pub(crate) use fake_cloud::{array, merge, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{ACCOUNT, Answer, REGION, VPC, refuse};

/// Work in the background: its ID, its end, and the error that it ends with.
struct Job {
    id: String,
    due: Instant,
    error: Option<String>,
}

/// The state of the cloud, with objects of the kinds `instance`, `interface`, `classic`, `vgroup`, `classic listener`,
/// `network`, `group`, `listener`, `route`, `table`, `vswitch`, `certificate`, `lingjun`.
pub struct World {
    /// Time that jobs of NLB take, and until a new NLB is active.
    pub job: Duration,
    /// The longest page of a list.
    pub page: usize,
    /// Requests to each API in so many seconds.
    pub limit: (u32, u64),
    pub(crate) buckets: BTreeMap<String, Bucket>,
    pub(crate) effects: Effects,
    pub(crate) now: Instant,
    objects: Objects,
    jobs: Vec<Job>,
}

impl Default for World {
    /// A VPC with a vSwitch in two zones each, and a route table.
    fn default() -> Self {
        let (buckets, effects, jobs) = Default::default();
        let job = Duration::from_secs(2);
        let page = 100;
        let limit = (600, 10);
        let now = Instant::now();
        let mut world = Self {
            job,
            page,
            limit,
            buckets,
            effects,
            now,
            objects: Objects::of(ACCOUNT),
            jobs,
        };
        for zone in ["a", "b"] {
            let zone_id = format!("{REGION}-{zone}");
            world.add(
                "vswitch",
                json!({"VSwitchId": format!("vsw-{zone}"), "ZoneId": zone_id, "VpcId": VPC,
                "CidrBlock": "10.0.0.0/16", "AvailableIpAddressCount": 250}),
            );
        }
        world.add(
            "vpc",
            json!({"VpcId": VPC, "CidrBlock": "10.0.0.0/8", "RegionId": REGION}),
        );
        for id in ["cert-1", "cert-2", "cert-3"] {
            let end = 4_102_444_800_000_i64;
            world.add(
                "certificate",
                json!({"ServerCertificateId": id, "ExpireTimeStamp": end}),
            );
        }
        world.add(
            "table",
            json!({"RouteTableId": "vtb-main", "RouteTableType": "System", "VpcId": VPC}),
        );
        world
    }
}

impl Deref for World {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }
}

/// Returns a number that is written as a number or as a text.
pub(crate) fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns parameters with numbers and truths instead of their texts.
pub(crate) fn typed(value: &Value) -> Value {
    match value {
        Value::String(text) if text == "true" || text == "false" => json!(text == "true"),
        Value::String(text) => text
            .parse::<i64>()
            .map_or_else(|_| value.clone(), |number| json!(number)),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), typed(value)))
            .collect(),
        Value::Array(items) => items.iter().map(typed).collect(),
        other => other.clone(),
    }
}

/// Returns the fields of an object that a list of names has.
pub(crate) fn only(body: &Value, names: &str) -> Value {
    let kept = names
        .split_whitespace()
        .filter(|name| !body[*name].is_null());
    kept.map(|name| (name.to_owned(), typed(&body[name])))
        .collect()
}

/// Returns tags of a request in the form of answers.
pub(crate) fn tags(body: &Value, [key, value]: [&str; 2]) -> Value {
    array(&body["Tag"])
        .map(|tag| json!({key: tag["Key"], value: tag["Value"].as_str().unwrap_or_default()}))
        .collect()
}

fn tag_values<'a>(object: &'a Value, key: &'a str) -> impl Iterator<Item = &'a str> {
    let all = if object["Tags"].is_array() {
        &object["Tags"]
    } else {
        &object["Tags"]["Tag"]
    };
    array(all)
        .filter(move |tag| tag["Key"] == key || tag["TagKey"] == key)
        .map(|tag| {
            tag["Value"]
                .as_str()
                .or(tag["TagValue"].as_str())
                .unwrap_or_default()
        })
}

/// Returns `true` if an object has all tags of a request; one without a value may have any.
pub(crate) fn has_tags(object: &Value, body: &Value) -> bool {
    array(&body["Tag"]).all(|tag| {
        tag_values(object, text(&tag["Key"]))
            .any(|has| tag["Value"].is_null() || tag["Value"] == has)
    })
}

/// Sets or removes tags of the objects that a request names, and answers nothing.
pub(crate) fn change_tags(
    all: &mut [Value],
    id: &str,
    body: &Value,
    names: [&str; 2],
    account: &str,
) {
    let is_meant = |object: &Value| {
        object["_account"] == account
            && array(&body["ResourceId"]).any(|wanted| *wanted == object[id])
    };
    for entry in all.iter_mut().filter(|object| is_meant(object)) {
        let list = if entry["Tags"].is_array() {
            &mut entry["Tags"]
        } else {
            &mut entry["Tags"]["Tag"]
        };
        let Some(list) = list.as_array_mut() else {
            continue;
        };
        let gone: Vec<_> = array(&body["TagKey"])
            .chain(array(&body["Tag"]).map(|tag| &tag["Key"]))
            .cloned()
            .collect();
        list.retain(|tag| !gone.contains(&tag[names[0]]));
        list.extend(array(&tags(body, names)).cloned());
    }
}

/// Controls of tests over the state.
impl World {
    /// Adds a running instance of this name, and returns its ID.
    pub fn add_instance(&mut self, account: &str, name: &str) -> String {
        let number = self.number();
        let id = format!("i-bp1{number:06}");
        let eni = format!("eni-bp1{number:06}");
        let [.., high, low] = number.to_be_bytes();
        let ip = format!("10.0.{high}.{low}");
        let zone = format!(
            "{REGION}-{}",
            if name.ends_with(['0', '2', '4', '6', '8']) {
                "a"
            } else {
                "b"
            }
        );
        self.add("instance", json!({"InstanceId": id, "InstanceName": name, "InstanceType": "ecs.g7.large", "RegionId": REGION,
            "ZoneId": zone, "Status": "Running", "InstanceChargeType": "PostPaid", "SpotStrategy": "NoSpot",
            "PublicIpAddress": {"IpAddress": []}, "InnerIpAddress": {"IpAddress": []},
            "EipAddress": {"IpAddress": format!("203.0.{high}.{low}"), "AllocationId": format!("eip-{number}")},
            "VpcAttributes": {"VpcId": VPC, "VSwitchId": "vsw-a", "PrivateIpAddress": {"IpAddress": [ip]}},
            "NetworkInterfaces": {"NetworkInterface": [{"NetworkInterfaceId": eni, "Type": "Primary", "PrimaryIpAddress": ip,
                "Ipv6Sets": {"Ipv6Set": [{"Ipv6Address": format!("fd00::{number:x}")}]}}]},
            "Tags": {"Tag": [{"TagKey": "ack.aliyun.com", "TagValue": "testbed"}]}, "_account": account}));
        self.add(
            "interface",
            json!({"NetworkInterfaceId": eni, "InstanceId": id, "Type": "Primary", "Status": "InUse",
            "PrivateIpAddress": ip, "SourceDestCheck": true, "VpcId": VPC, "_account": account}),
        );
        id
    }

    pub(crate) fn carry_out_jobs(&mut self, now: Instant) {
        self.now = now;
        let over: Vec<_> = self
            .jobs
            .iter()
            .filter(|job| job.due <= now)
            .map(|job| job.id.clone())
            .collect();
        for object in self.each("network") {
            if object["LoadBalancerStatus"] == "Provisioning"
                && over.iter().any(|id| object["_job"] == **id)
            {
                object["LoadBalancerStatus"] = "Active".into();
            }
        }
    }

    /// Begins work that ends later, and returns its ID.
    pub(crate) fn begin(&mut self) -> String {
        let id = format!("job-{}", self.number());
        let error = self.effects.error();
        self.jobs.push(Job {
            id: id.clone(),
            due: self.now + self.job,
            error,
        });
        id
    }

    pub(crate) fn jobs(&self, ids: &Value) -> Value {
        let state = |job: &Job| {
            let status = match (&job.error, job.due <= self.now) {
                (_, false) => "Processing",
                (Some(_), true) => "Failed",
                (None, true) => "Succeeded",
            };
            json!({"Id": job.id, "Status": status})
        };
        let meant = self
            .jobs
            .iter()
            .filter(|job| array(ids).any(|id| *id == *job.id));
        meant.map(state).collect()
    }

    /// Returns a page whose successor a token names.
    pub(crate) fn token_page(
        &self,
        items: Vec<Value>,
        body: &Value,
        size: &str,
        place: [&str; 2],
    ) -> Answer {
        let length = number(&body[size])
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(20)
            .clamp(1, self.page);
        let start = match text(&body["NextToken"]) {
            "" => 0,
            token => token
                .parse()
                .or_else(|_| refuse("InvalidNextToken", "The token is invalid."))?,
        };
        let page = Page::starting(items, start, length, &self.effects);
        let next = match page.next {
            Next::Nothing => String::new(),
            Next::Following => (start + length).to_string(),
            Next::Itself => start.to_string(),
        };
        let list = match place {
            [outer, ""] => json!({outer: page.items}),
            [outer, inner] => json!({outer: {inner: page.items}}),
        };
        let mut answer = list;
        answer["NextToken"] = json!(next);
        // ECS has no useful total with tokens, and VPC has none.
        if place[1].is_empty() {
            answer["TotalCount"] = json!(page.total);
        }
        Ok(answer)
    }

    /// Returns a page by its number.
    pub(crate) fn numbered_page(
        &self,
        items: Vec<Value>,
        body: &Value,
        [outer, inner]: [&str; 2],
    ) -> Answer {
        let [page, size] = ["PageNumber", "PageSize"]
            .map(|key| number(&body[key]).and_then(|number| usize::try_from(number).ok()));
        let size = size.unwrap_or(10).clamp(1, self.page);
        let page = Page::numbered(items, page.unwrap_or(1).max(1), size, &self.effects);
        Ok(
            json!({outer: {inner: page.items}, "TotalCount": page.total, "PageNumber": page.number, "PageSize": size}),
        )
    }
}

//! The state of the cloud: objects as the APIs show them, by kind. Fields that begin with an underscore are not shown.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use fake_cloud::{Bucket, Effects, Objects, Page};
pub(crate) use fake_cloud::{array, merge, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{ACCOUNT, Answer, REGION, TABLE, VPC, refuse};

/// A task in the background: its ID, its load balancer, its end, and the error that it ends with.
struct Task {
    id: String,
    balancer: String,
    due: Instant,
    error: Option<String>,
}

/// The state of the cloud, with objects of the kinds `instance`, `balancer`, `listener`, `group`, `table`, `route`.
pub struct World {
    /// Time that tasks take.
    pub task: Duration,
    /// The longest page of a list.
    pub page: usize,
    /// Requests for each action in a second.
    pub limit: u32,
    pub(crate) buckets: BTreeMap<String, Bucket>,
    pub(crate) effects: Effects,
    pub(crate) now: Instant,
    /// Answers to creations by their tokens. The token of a creation that failed gets the same answer again.
    pub(crate) tokens: BTreeMap<String, Value>,
    objects: Objects,
    tasks: Vec<Task>,
}

impl Default for World {
    /// A VPC with a cluster route table.
    fn default() -> Self {
        let (buckets, effects, tokens, tasks) = Default::default();
        let task = Duration::from_millis(1200);
        let page = 100;
        let limit = 20;
        let now = Instant::now();
        let mut world = Self {
            task,
            page,
            limit,
            buckets,
            effects,
            now,
            tokens,
            objects: Objects::of(ACCOUNT),
            tasks,
        };
        world.add(
            "table",
            json!({"RouteTableName": TABLE, "RouteTableCidrBlock": "10.244.0.0/16", "VpcId": VPC}),
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

/// Returns the fields of an object that a list of names has.
pub(crate) fn only(body: &Value, names: &str) -> Value {
    let kept = names
        .split_whitespace()
        .filter(|name| !body[*name].is_null());
    kept.map(|name| (name.to_owned(), body[name].clone()))
        .collect()
}

/// Returns `true` if an object fits the filters of a request. `value`: the values of the object for a filter.
pub(crate) fn fits(body: &Value, value: impl Fn(&str) -> Vec<String>) -> bool {
    array(&body["Filters"]).all(|filter| {
        let has = value(text(&filter["Name"]));
        array(&filter["Values"]).any(|wanted| has.iter().any(|ha| wanted == ha.as_str()))
    })
}

/// Controls of tests over the state.
impl World {
    /// Adds a running instance of this name, and returns its ID.
    pub fn add_instance(&mut self, account: &str, name: &str) -> String {
        let number = self.number();
        let id = format!("ins-t{number:07}");
        let [.., high, low] = number.to_be_bytes();
        let zone = format!("{REGION}-{}", 4 - self.all("instance").len() % 2);
        self.add("instance", json!({"InstanceId": id, "InstanceName": name, "InstanceType": "S5.MEDIUM4",
            "InstanceChargeType": "POSTPAID_BY_HOUR", "InstanceState": "RUNNING", "RestrictState": "NORMAL", "CPU": 2, "Memory": 4,
            "Placement": {"Zone": zone, "ProjectId": 0}, "HostName": name, "Uuid": format!("uuid-{number}"),
            "VirtualPrivateCloud": {"VpcId": VPC, "SubnetId": "subnet-testbed1", "AsVpcGateway": false},
            "PrivateIpAddresses": [format!("10.0.{high}.{low}")], "PublicIpAddresses": [format!("203.0.{high}.{low}")],
            "CreatedTime": "2026-01-02T03:04:05Z", "Tags": [], "SecurityGroupIds": [], "_account": account}));
        id
    }

    pub(crate) fn carry_out_tasks(&mut self, now: Instant) {
        self.now = now;
        let (over, failed): (Vec<_>, Vec<_>) = self
            .tasks
            .iter()
            .filter(|task| task.due <= now)
            .partition(|task| task.error.is_none());
        let [over, failed] = [over, failed].map(|all| {
            all.iter()
                .map(|task| task.balancer.clone())
                .collect::<Vec<_>>()
        });
        self.each("balancer").retain(|balancer| {
            balancer["Status"] != 0 || !failed.iter().any(|id| balancer["LoadBalancerId"] == **id)
        });
        for object in self
            .each("balancer")
            .iter_mut()
            .filter(|balancer| balancer["Status"] == 0)
        {
            if over.iter().any(|id| object["LoadBalancerId"] == **id) {
                object["Status"] = 1.into();
            }
        }
    }

    /// Returns `true` while a task changes a load balancer.
    pub(crate) fn is_busy(&self, balancer: &Value) -> bool {
        self.tasks
            .iter()
            .any(|task| task.due > self.now && *balancer == *task.balancer)
    }

    /// Begins a task, and returns the answer with its ID. `None` if the task will fail.
    pub(crate) fn begin(&mut self, balancer: &Value) -> (Value, bool) {
        let id = format!("task-{}", self.number());
        let error = self.effects.error();
        let succeeds = error.is_none();
        let balancer = text(balancer).to_owned();
        let due = self.now + self.task;
        self.tasks.push(Task {
            id: id.clone(),
            balancer,
            due,
            error,
        });
        (json!({"RequestId": id}), succeeds)
    }

    pub(crate) fn task(&self, id: &Value) -> Answer {
        let Some(task) = self.tasks.iter().find(|task| *id == *task.id) else {
            return refuse("InvalidParameterValue", "The task does not exist.");
        };
        let status = match (&task.error, task.due <= self.now) {
            (_, false) => 2,
            (Some(_), true) => 1,
            (None, true) => 0,
        };
        Ok(
            json!({"Status": status, "Message": task.error.clone().unwrap_or_default(), "LoadBalancerIds": [task.balancer]}),
        )
    }

    /// Returns a page at an offset.
    pub(crate) fn page(&self, items: Vec<Value>, body: &Value, place: &str) -> Answer {
        let number = |key: &str| {
            body[key]
                .as_u64()
                .or_else(|| body[key].as_str()?.parse().ok())
        };
        let number = |key: &str| number(key).and_then(|number| usize::try_from(number).ok());
        let size = number("Limit").unwrap_or(20).clamp(1, self.page);
        let page = Page::starting(
            items,
            number("Offset").unwrap_or_default(),
            size,
            &self.effects,
        );
        Ok(json!({place: page.items, "TotalCount": page.total}))
    }
}

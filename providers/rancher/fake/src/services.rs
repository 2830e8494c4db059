//! Load balancer services and external services: states, actions and links.

use std::time::Duration;

use fake_cloud::{Refused, Reply};
use serde_json::{Map, Value, json};

use crate::{Answer, ApiRequest, HIDDEN, Rancher, array, base, invalid, not_found, page, without};

/// The port of the health check of load balancers.
const CHECK_PORT: u64 = 42;

/// States that a service leaves by itself, with the next state and the time until then.
const PASSING: [(&str, &str, u64); 8] = [
    ("registering", "inactive", 500),
    ("activating", "active", 1500),
    ("updating-active", "active", 300),
    ("updating-inactive", "inactive", 300),
    ("upgrading", "upgraded", 2000),
    ("finishing-upgrade", "active", 500),
    ("deactivating", "inactive", 500),
    ("removing", "removed", 500),
];

fn collection(service: &Value) -> &'static str {
    if service["type"] == "externalService" {
        "externalservices"
    } else {
        "loadbalancerservices"
    }
}

/// Returns the actions that a service offers in its state.
fn actions(service: &Value) -> &'static [&'static str] {
    let is_balancer = service["type"] == "loadBalancerService";
    match service["state"].as_str().unwrap_or_default() {
        // A service that Rancher does not let go.
        _ if service["locked"] == true => &["update"],
        "inactive" if is_balancer => &[
            "activate",
            "setservicelinks",
            "addservicelink",
            "update",
            "remove",
        ],
        "inactive" => &["activate", "update", "remove"],
        "active" if is_balancer => &[
            "deactivate",
            "setservicelinks",
            "addservicelink",
            "restart",
            "upgrade",
            "update",
            "remove",
        ],
        "active" => &["deactivate", "update", "remove"],
        "upgraded" => &["finishupgrade", "rollback", "remove"],
        "removing" | "removed" => &[],
        _ => &["remove"],
    }
}

fn shown(request: &ApiRequest, service: &Value) -> Value {
    let id = service["id"].as_str().unwrap_or_default();
    let url = format!("{}/{}/{id}", base(request), collection(service));
    let is_passing = PASSING
        .iter()
        .any(|(state, ..)| service["state"] == **state);
    let mut shown = without(service.clone(), &HIDDEN);
    shown["transitioning"] = if is_passing { "yes" } else { "no" }.into();
    let message = shown["transitioningMessage"].take();
    shown["transitioningMessage"] = if shown["state"] == "activating" {
        message
    } else {
        Value::Null
    };
    let action = |action: &&str| {
        (
            (*action).to_owned(),
            format!("{url}/?action={action}").into(),
        )
    };
    shown["actions"] = actions(service)
        .iter()
        .map(action)
        .collect::<Map<_, _>>()
        .into();
    shown["links"] = json!({
        "self": url, "consumedservices": format!("{url}/consumedservices"),
        "consumedbyservices": format!("{url}/consumedbyservices"),
    });
    shown
}

impl Rancher {
    fn find(&mut self, request: &ApiRequest) -> Result<&mut Value, Refused> {
        let kind = request
            .path
            .split('/')
            .nth(4)
            .unwrap_or_default()
            .to_owned();
        let is_this_object = |object: &&mut Value| {
            object["id"] == request.id()
                && object["environment"] == *request.project
                && collection(object) == kind
        };
        self.services
            .iter_mut()
            .find(is_this_object)
            .ok_or_else(not_found)
    }

    /// Returns the live service with this ID.
    fn live(&self, request: &ApiRequest, id: &Value) -> Option<&Value> {
        let is_this_object = |object: &&Value| {
            object["id"] == *id
                && object["environment"] == *request.project
                && object["removed"].is_null()
        };
        self.services.iter().find(is_this_object)
    }

    fn begin(&mut self, request: &ApiRequest, id: &str, state: &str) {
        let time = PASSING
            .iter()
            .find(|(text, ..)| *text == state)
            .map_or(0, |(.., time)| *time);
        if let Some(service) = self.services.iter_mut().find(|service| service["id"] == id) {
            service["state"] = state.into();
            service["transitioningMessage"] = Value::Null;
        }
        self.work
            .begin(id, Duration::from_millis(time), &request.effects);
    }

    /// Ends what is due. Each request does so, too.
    pub fn finish(&mut self) {
        for (id, operation) in self.work.finished() {
            let Some(at) = self
                .services
                .iter()
                .position(|service| service["id"] == *id)
            else {
                continue;
            };
            let number: u64 = id.trim_start_matches("1s").parse().unwrap_or_default();
            let service = &mut self.services[at];
            let state = service["state"].clone();
            let is_activating = state == "activating" && service["type"] == "loadBalancerService";
            let has_host = self
                .hosts
                .iter()
                .any(|host| host["environment"] == service["environment"]);
            if is_activating && (self.has_no_free_port || !has_host) {
                service["transitioningMessage"] =
                    "Scheduling failed: ports are in use on all hosts".into();
                self.work.begin(
                    &id,
                    Duration::from_millis(1500),
                    &fake_cloud::Effects::default(),
                );
                continue;
            }
            let next = PASSING
                .iter()
                .find(|(text, ..)| state == **text)
                .map_or("active", |(_, next, _)| *next);
            service["state"] = if operation.error.is_some() {
                "error"
            } else {
                next
            }
            .into();
            if next == "removed" {
                service["removed"] = "2017-05-04T08:09:10Z".into();
            }
            if next == "inactive" && service["startOnCreate"] == true {
                service["state"] = "activating".into();
                service["startOnCreate"] = false.into();
                self.work.begin(
                    &id,
                    Duration::from_millis(500),
                    &fake_cloud::Effects::default(),
                );
            } else if service["state"] == "active" && service["type"] == "loadBalancerService" {
                let ip = format!("203.0.{}.{}", 113 + number / 250, number % 250 + 1);
                let port = |object: &Value| {
                    object
                        .as_str()
                        .and_then(|text| text.split(':').next()?.parse::<u64>().ok())
                };
                let endpoint = |port| json!({"type": "publicEndpoint", "ipAddress": ip, "port": port, "serviceId": id});
                service["publicEndpoints"] = array(&service["launchConfig"]["ports"].clone())
                    .filter_map(port)
                    .map(endpoint)
                    .collect();
            }
        }
    }

    /// Creates a service, and returns it.
    fn create(&mut self, request: &ApiRequest, kind: &str) -> Result<Value, Refused> {
        let body = &request.body;
        let environment = &*request.project;
        let stack = self
            .stacks
            .iter()
            .find(|stack| stack["id"] == body["stackId"] && stack["environment"] == environment);
        if stack.is_none() {
            return Err(invalid("InvalidReference", "stackId"));
        }
        let name = body["name"].as_str().unwrap_or_default();
        let is_inner = |character: char| character.is_ascii_alphanumeric() || character == '-';
        if name.is_empty()
            || name.len() > 63
            || !name.chars().all(is_inner)
            || name.starts_with('-')
            || name.contains("--")
        {
            return Err(invalid("InvalidCharacters", "name"));
        }
        let is_taken = |object: &Value| {
            object["stackId"] == body["stackId"]
                && object["removed"].is_null()
                && object["name"]
                    .as_str()
                    .is_some_and(|other_name| other_name.eq_ignore_ascii_case(name))
        };
        if self.services.iter().any(is_taken) {
            return Err(invalid("NotUnique", "name"));
        }
        let id = format!("1s{}", self.number());
        let mut service = body.clone();
        for (key, value) in [
            ("id", json!(id)),
            ("type", json!(kind)),
            ("environment", json!(environment)),
            ("removed", Value::Null),
            ("created", json!("2017-05-04T08:09:10Z")),
            ("startOnCreate", json!(body["startOnCreate"] == true)),
        ] {
            service[key] = value;
        }
        for (key, value) in [
            ("scale", json!(1)),
            ("linkedServices", json!({})),
            ("publicEndpoints", json!([])),
        ] {
            if kind == "loadBalancerService" && service[key].is_null() {
                service[key] = value;
            }
        }
        self.services.push(service);
        self.begin(request, &id, "registering");
        self.services.last().cloned().ok_or_else(not_found)
    }

    fn check_balancer(&self, request: &ApiRequest) -> Result<(), Refused> {
        let body = &request.body;
        for rule in array(&body["lbConfig"]["portRules"]) {
            if rule["sourcePort"].as_u64() == Some(CHECK_PORT) {
                return Err(invalid(
                    "InvalidOption",
                    "Port 42 is reserved for service health check",
                ));
            }
            if rule["serviceId"].is_null() && rule["selector"].is_null() {
                return Err(invalid("MissingRequired", "serviceId"));
            }
            if rule["targetPort"].is_null() {
                return Err(invalid("MissingRequired", "targetPort"));
            }
            if self.live(request, &rule["serviceId"]).is_none() {
                return Err(invalid("InvalidReference", "serviceId"));
            }
            if !["tcp", "http", "https", "tls", "sni", "udp"]
                .iter()
                .any(|text| rule["protocol"] == **text)
            {
                return Err(invalid("InvalidOption", "protocol"));
            }
        }
        let ports = &body["launchConfig"]["ports"];
        let is_port = |object: &Value| {
            object
                .as_str()
                .is_some_and(|text| text.ends_with("/tcp") && text.matches(':').count() == 1)
        };
        if array(ports).all(is_port) {
            Ok(())
        } else {
            Err(invalid("PortWrongFormat", "ports"))
        }
    }
}

pub(crate) fn balancers(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let all: Vec<_> = cloud
        .services
        .iter()
        .filter(|service| service["type"] == "loadBalancerService")
        .cloned()
        .collect();
    page(cloud, request, "loadBalancerService", &all, |page| {
        shown(request, page)
    })
}

pub(crate) fn externals(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let all: Vec<_> = cloud
        .services
        .iter()
        .filter(|service| service["type"] == "externalService")
        .cloned()
        .collect();
    page(cloud, request, "externalService", &all, |page| {
        shown(request, page)
    })
}

pub(crate) fn service(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    cloud
        .find(request)
        .map(|cloud| Reply::new(200, shown(request, cloud)))
}

pub(crate) fn create_balancer(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    if request.body["launchConfig"]["imageUuid"]
        .as_str()
        .is_none_or(|image_uuid| !image_uuid.starts_with("docker:"))
    {
        return Err(invalid("MissingRequired", "imageUuid"));
    }
    if request.body["lbConfig"].is_null() {
        return Err(invalid("MissingRequired", "lbConfig"));
    }
    cloud.check_balancer(request)?;
    cloud
        .create(request, "loadBalancerService")
        .map(|object| Reply::new(201, shown(request, &object)))
}

pub(crate) fn create_external(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    cloud
        .create(request, "externalService")
        .map(|object| Reply::new(201, shown(request, &object)))
}

pub(crate) fn update(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    cloud.check_balancer(request)?;
    let found = cloud.find(request)?;
    if !actions(found).contains(&"update") {
        return Err(Refused::new(409, "InvalidState", "state"));
    }
    for key in [
        "name",
        "description",
        "metadata",
        "scale",
        "lbConfig",
        "externalIpAddresses",
    ] {
        request
            .body
            .get(key)
            .into_iter()
            .for_each(|value| found[key] = value.clone());
    }
    let state = if found["state"] == "active" {
        "updating-active"
    } else {
        "updating-inactive"
    };
    let id = request.id().to_owned();
    cloud.begin(request, &id, state);
    service(cloud, request)
}

pub(crate) fn delete(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let found = cloud.find(request)?;
    if found["locked"] == true {
        return Err(Refused::new(405, "ActionNotAvailable", ""));
    }
    if !actions(found).contains(&"remove") {
        return Err(not_found());
    }
    let id = request.id().to_owned();
    // A service that is being removed is linked to nothing.
    for service in &mut cloud.services {
        if let Some(links) = service["linkedServices"].as_object_mut() {
            links.retain(|_, linked| *linked != *id);
        }
        if service["id"] == *id {
            service["linkedServices"] = json!({});
        }
    }
    cloud.begin(request, &id, "removing");
    service(cloud, request)
}

pub(crate) fn act(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let action = request.query("action").unwrap_or_default();
    let id = request.id().to_owned();
    let found = cloud.find(request)?;
    if !actions(found).contains(&action) {
        return Err(Refused::new(405, "ActionNotAvailable", ""));
    }
    match action {
        "setservicelinks" => {
            let mut links = Map::new();
            for link in array(&request.body["serviceLinks"]) {
                let linked = cloud
                    .live(request, &link["serviceId"])
                    .ok_or_else(|| invalid("InvalidReference", "serviceId"))?;
                let name = linked["name"].as_str().unwrap_or_default().to_owned();
                if links.insert(name, linked["id"].clone()).is_some() {
                    return Err(invalid("NotUnique", "serviceId"));
                }
            }
            cloud.find(request)?["linkedServices"] = links.into();
        }
        "upgrade" => {
            let config = &request.body["inServiceStrategy"]["launchConfig"];
            if config.is_null() {
                return Err(invalid(
                    "InvalidOption",
                    "LaunchConfig is required for load balancer service",
                ));
            }
            found["launchConfig"] = config.clone();
            cloud.begin(request, &id, "upgrading");
        }
        "activate" => cloud.begin(request, &id, "activating"),
        "deactivate" => cloud.begin(request, &id, "deactivating"),
        "finishupgrade" => cloud.begin(request, &id, "finishing-upgrade"),
        _ => return Err(Refused::new(405, "ActionNotAvailable", "")),
    }
    service(cloud, request).map(|reply| Reply {
        status: 202,
        ..reply
    })
}

fn collection_of(
    cloud: &Rancher,
    request: &ApiRequest,
    is_wanted: impl Fn(&Value) -> bool,
) -> Answer {
    let found: Vec<_> = cloud
        .services
        .iter()
        .filter(|service| service["removed"].is_null() && is_wanted(service))
        .cloned()
        .collect();
    page(cloud, request, "service", &found, |page| {
        shown(request, page)
    })
}

fn has_link(service: &Value, id: &Value) -> bool {
    service["linkedServices"]
        .as_object()
        .is_some_and(|links| links.values().any(|link| link == id))
}

pub(crate) fn consumed(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let found = cloud.find(request)?.clone();
    collection_of(cloud, request, |object| has_link(&found, &object["id"]))
}

pub(crate) fn consumers(cloud: &mut Rancher, request: &ApiRequest) -> Answer {
    let found = cloud.find(request)?.clone();
    collection_of(cloud, request, |object| has_link(object, &found["id"]))
}

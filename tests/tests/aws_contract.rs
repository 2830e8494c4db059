//! The AWS provider and its fake against the service descriptions of AWS's own clients: each parameter and each element of an
//! answer exists, what is required is there, and numbers, truth values and enumerations are such.
//!
//! `CCM_TEST_AWS_DESCRIPTIONS`: a directory with `ec2.json`, `elb.json` and `elbv2.json`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use ccm_conformance::Harness;
use ccm_conformance::virtual_time::VirtualTime;
use ccm_tests::profiles::AwsCloud;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The descriptions by service, the actions that were seen, and what breaks the descriptions.
#[derive(Default)]
struct Contract {
    services: BTreeMap<String, Value>,
    seen: Mutex<BTreeSet<String>>,
    violations: Mutex<BTreeSet<String>>,
}

/// An element of an answer.
struct Element<'a> {
    name: &'a str,
    text: &'a str,
    children: Vec<Element<'a>>,
}

/// Reads an element without attributes, and what follows it.
fn element(xml: &str) -> Option<(Element<'_>, &str)> {
    let (name, mut rest) = xml.trim_start().strip_prefix('<')?.split_once('>')?;
    let mut children = Vec::new();
    let start = rest;
    loop {
        let (text, end) = rest.split_at(rest.find('<')?);
        if let Some(after) = end.strip_prefix("</") {
            let text = if children.is_empty() {
                &start[..start.len() - rest.len() + text.len()]
            } else {
                ""
            };
            return Some((
                Element {
                    name,
                    text,
                    children,
                },
                after.split_once('>')?.1,
            ));
        }
        let (child, after) = element(end)?;
        children.push(child);
        rest = after;
    }
}

impl Contract {
    fn violate(&self, place: &str, what: &str) {
        self.violations.lock().insert(format!("{place}: {what}"));
    }

    /// Returns the shape of a member by the name that it has in requests or in answers.
    fn member<'a>(
        description: &'a Value,
        shape: &'a Value,
        key: &str,
        is_request: bool,
    ) -> Option<&'a Value> {
        let is_ec2 = description["metadata"]["protocol"] == "ec2";
        let named = |(name, member): &(&String, &Value)| {
            let location = member["locationName"].as_str().unwrap_or(name);
            match member["queryName"].as_str() {
                Some(query) if is_request && is_ec2 => query == key,
                _ if is_request && is_ec2 => location[..1].to_uppercase() + &location[1..] == key,
                _ => location == key,
            }
        };
        let found = shape["members"].as_object()?.iter().find(named)?.1;
        description["shapes"].get(found["shape"].as_str()?)
    }

    fn leaf(&self, shape: &Value, text: &str, place: &str) {
        let is_right = match shape["type"].as_str().unwrap_or_default() {
            "integer" | "long" => text.parse::<i64>().is_ok_and(|number| {
                shape["min"].as_i64().is_none_or(|min| number >= min)
                    && shape["max"].as_i64().is_none_or(|max| number <= max)
            }),
            "boolean" => ["true", "false"].contains(&text),
            "string" => shape["enum"]
                .as_array()
                .is_none_or(|all| all.iter().any(|object| object == text)),
            "timestamp" => text.ends_with('Z'),
            _ => false,
        };
        if !is_right {
            self.violate(place, &format!("{text:?} is no {}", shape["type"]));
        }
    }

    fn request(&self, description: &Value, shape: &Value, value: &Value, place: &str) {
        match (shape["type"].as_str().unwrap_or_default(), value) {
            ("structure", Value::Object(fields)) => {
                for (key, value) in fields {
                    match Self::member(description, shape, key, true) {
                        Some(shape) => {
                            self.request(description, shape, value, &format!("{place}.{key}"));
                        }
                        None => self.violate(place, &format!("there is no parameter {key}")),
                    }
                }
                for required in shape["required"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                {
                    let name = &shape["members"][required]["locationName"];
                    let names = [required, name.as_str().unwrap_or(required)];
                    if !fields
                        .keys()
                        .any(|key| names.iter().any(|name| name.eq_ignore_ascii_case(key)))
                    {
                        self.violate(place, &format!("parameter {required} is missing"));
                    }
                }
            }
            ("list", Value::Array(items)) => {
                let shape =
                    &description["shapes"][shape["member"]["shape"].as_str().unwrap_or_default()];
                items
                    .iter()
                    .for_each(|item| self.request(description, shape, item, place));
            }
            ("list", Value::String(text)) if text.is_empty() => {}
            (_, Value::String(text)) => self.leaf(shape, text, place),
            (kind, _) => self.violate(place, &format!("{value} is no {kind}")),
        }
    }

    fn answer(&self, description: &Value, shape: &Value, element: &Element<'_>, place: &str) {
        match shape["type"].as_str().unwrap_or_default() {
            "structure" => {
                for child in element
                    .children
                    .iter()
                    .filter(|element| !["requestId", "ResponseMetadata"].contains(&element.name))
                {
                    match Self::member(description, shape, child.name, false) {
                        Some(shape) => self.answer(
                            description,
                            shape,
                            child,
                            &format!("{place}.{}", child.name),
                        ),
                        None => self.violate(place, &format!("there is no element {}", child.name)),
                    }
                }
            }
            "list" => {
                let inner =
                    &description["shapes"][shape["member"]["shape"].as_str().unwrap_or_default()];
                let name = shape["member"]["locationName"].as_str().unwrap_or("member");
                for child in &element.children {
                    if child.name != name {
                        self.violate(
                            place,
                            &format!("elements are called {name}, not {}", child.name),
                        );
                    }
                    self.answer(description, inner, child, place);
                }
            }
            _ => self.leaf(shape, element.text, place),
        }
    }

    /// Checks a request, which has its parameters in JSON, and its answer.
    fn exchange(&self, path: &str, request: &[u8], answer: &str) {
        let mut parts = path.trim_start_matches('/').split('/');
        let service = parts.next().unwrap_or_default();
        let action = parts.next().unwrap_or_default();
        let Some(description) = self.services.get(service) else {
            return;
        };
        self.seen.lock().insert(format!("{service} {action}"));
        let operation = &description["operations"][action];
        let shape = |which: &str| {
            operation[which]["shape"]
                .as_str()
                .and_then(|name| description["shapes"].get(name))
        };
        let parameters = serde_json::from_slice(request).unwrap_or_default();
        match shape("input") {
            Some(shape) => self.request(
                description,
                shape,
                &parameters,
                &format!("request {service} {action}"),
            ),
            None => self.violate(path, "there is no such action"),
        }
        let place = format!("answer {service} {action}");
        let Some((root, _)) = element(answer.split_once("?>").map_or(answer, |(_, xml)| xml))
        else {
            return self.violate(&place, "no XML");
        };
        let result = root
            .children
            .iter()
            .find(|element| Some(element.name) == operation["output"]["resultWrapper"].as_str());
        if let Some(shape) = shape("output").filter(|_| root.name == format!("{action}Response")) {
            self.answer(description, shape, result.unwrap_or(&root), &place);
        }
    }

    fn layer(self: &Arc<Self>, api: Router) -> Router {
        let contract = Arc::clone(self);
        api.layer(from_fn(move |request: Request, next: Next| {
            let contract = Arc::clone(&contract);
            async move {
                let (head, body) = request.into_parts();
                let path = head.uri.path().to_owned();
                let body = to_bytes(body, usize::MAX).await.unwrap();
                let answer = next
                    .run(Request::from_parts(head, Body::from(body.clone())))
                    .await;
                let (head, answer) = answer.into_parts();
                let answer = to_bytes(answer, usize::MAX).await.unwrap();
                contract.exchange(&path, &body, &String::from_utf8_lossy(&answer));
                Response::from_parts(head, Body::from(answer))
            }
        }))
    }
}

/// Settings of Services beside the kind, without the prefix of their keys.
const SETTINGS: [&[(&str, &str)]; 5] = [
    &[],
    &[
        (
            "ssl-cert",
            "arn:aws:acm:us-east-1:111122223333:certificate/a",
        ),
        ("ssl-ports", "443"),
        ("additional-resource-tags", "a=b"),
    ],
    &[
        ("healthcheck-protocol", "HTTP"),
        ("healthcheck-path", "/up"),
        ("healthcheck-interval", "20"),
    ],
    &[
        ("internal", "true"),
        ("cross-zone-load-balancing-enabled", "true"),
    ],
    &[
        ("access-log-enabled", "true"),
        ("access-log-s3-bucket-name", "logs"),
        (
            "ssl-negotiation-policy",
            "ELBSecurityPolicy-TLS-1-2-2017-01",
        ),
    ],
];
/// Settings of one kind of load balancers.
const CLASSIC: &[(&str, &str)] = &[
    ("proxy-protocol", "*"),
    ("connection-draining-enabled", "true"),
    ("connection-draining-timeout", "60"),
    ("connection-idle-timeout", "65"),
];
const NETWORK: &[(&str, &str)] = &[
    ("target-group-attributes", "proxy_protocol_v2.enabled=true"),
    ("eip-allocations", "eipalloc-1,eipalloc-2"),
];

async fn live(harness: &Harness, own: &[(&str, &str)]) {
    let annotations = |settings: &[(&str, &str)]| -> Value {
        let pairs = settings.iter().map(|(key, value)| {
            (
                format!("service.beta.kubernetes.io/aws-load-balancer-{key}"),
                json!(value),
            )
        });
        pairs.collect()
    };
    harness.join(1..=3).await;
    let program = harness.start().await.expect("a start");
    for (number, settings) in SETTINGS.into_iter().chain([own]).enumerate() {
        let name = format!("service-{number}");
        harness.user.create_service(&name, &[80, 443]).await;
        harness
            .user
            .patch_service(
                &name,
                &json!({"metadata": {"annotations": annotations(settings)}}),
            )
            .await;
        harness.settle().await;
        harness.user.set_ports(&name, &[80, 8080]).await;
        harness.settle().await;
    }
    harness.user.delete_node("worker-3").await;
    harness.settle().await;
    for number in 0..=SETTINGS.len() {
        harness
            .user
            .delete_service(&format!("service-{number}"))
            .await;
    }
    harness.settle().await;
    program.stop().await;
}

#[test]
#[ignore = "needs the service descriptions of AWS"]
fn every_request_and_answer_fits_the_descriptions() {
    let directory = std::env::var("CCM_TEST_AWS_DESCRIPTIONS").expect("CCM_TEST_AWS_DESCRIPTIONS");
    let read = |service: &str| {
        let text = std::fs::read(format!("{directory}/{service}.json")).expect("the description");
        (
            service.to_owned(),
            serde_json::from_slice(&text).expect("JSON"),
        )
    };
    let contract = Arc::new(Contract {
        services: ["ec2", "elb", "elbv2"].map(read).into(),
        ..Contract::default()
    });
    for (cloud, own) in [
        (AwsCloud::classic(), CLASSIC),
        (AwsCloud::network(), NETWORK),
    ] {
        let checked = Arc::clone(&contract);
        let harness = Harness::of(&cloud)
            .routes()
            .layer(move |api| checked.layer(api))
            .build();
        VirtualTime::default().live(async || live(&harness, own).await);
    }
    let seen = contract.seen.lock();
    let violations = contract.violations.lock();
    println!("{} actions: {seen:#?}", seen.len());
    assert_eq!(*violations, BTreeSet::new());
    assert!(seen.len() >= 35, "{} actions", seen.len());
}

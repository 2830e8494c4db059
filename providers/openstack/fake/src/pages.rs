//! Lists: filters, fields, pages.

use fake_cloud::{FaultKind, Next, Page, Reply};
use serde_json::{Map, Value, json};

use crate::model::{Kind, Model, Object, text};
use crate::refusal::{Refusal, Service};
use crate::requests::{Answer, ApiRequest};

/// Parameters that select nothing.
const MANNERS: [&str; 6] = [
    "limit",
    "marker",
    "page_reverse",
    "sort_key",
    "sort_dir",
    "fields",
];

/// Returns `true` if a value matches a query parameter.
fn is(value: &Value, wanted: &str) -> bool {
    match value {
        Value::Null => wanted.is_empty(),
        Value::Bool(value) => wanted.eq_ignore_ascii_case(if *value { "true" } else { "false" }),
        Value::String(value) => value == wanted,
        Value::Number(value) => value.to_string() == wanted,
        // `fixed_ips=ip_address=10.0.0.1`, or an item of a list.
        Value::Array(values) => values
            .iter()
            .any(|value| match (value, wanted.split_once('=')) {
                (Value::Object(value), Some((key, wanted))) => {
                    value.get(key).is_some_and(|key| is(key, wanted))
                }
                (value, _) => is(value, wanted),
            }),
        Value::Object(_) => false,
    }
}

fn has_tags(object: &Object, parameter: &str, wanted: &str) -> bool {
    let tags = crate::model::list(object, "tags");
    let mut found = wanted
        .split(',')
        .map(|wanted| tags.iter().any(|tag| tag == wanted));
    match parameter {
        "tags" => found.all(|flag| flag),
        "tags-any" => found.any(|flag| flag),
        "not-tags" => !found.all(|flag| flag),
        _ => !found.any(|flag| flag),
    }
}

/// Returns `true` if an object is selected: each parameter matches by one of its values.
fn is_selected(object: &Object, query: &[(String, String)]) -> bool {
    query
        .iter()
        .filter(|(key, _)| !MANNERS.contains(&key.as_str()))
        .all(|(key, _)| {
            query
                .iter()
                .filter(|(other, _)| other == key)
                .any(|(_, wanted)| match key.as_str() {
                    "tags" | "tags-any" | "not-tags" | "not-tags-any" => {
                        has_tags(object, key, wanted)
                    }
                    // Octavia's objects of a load balancer.
                    "loadbalancer_id" | "load_balancer_id" => is(
                        object.get("loadbalancers").unwrap_or(&Value::Null),
                        &format!("id={wanted}"),
                    ),
                    "pool_id" => is(
                        object.get("pools").unwrap_or(&Value::Null),
                        &format!("id={wanted}"),
                    ),
                    _ => object.get(key).is_some_and(|key| is(key, wanted)),
                })
        })
}

/// Parameters must be names of attributes.
fn check(request: &ApiRequest, attributes: &[&str]) -> Result<(), Refusal> {
    for (key, _) in &request.query {
        let is_known = MANNERS.contains(&key.as_str())
            || attributes.contains(&key.as_str())
            || ["tags", "tags-any", "not-tags", "not-tags-any"].contains(&key.as_str());
        match request.service {
            _ if is_known => {}
            Service::Network => {
                return Err(Refusal::bad(format!(
                    "['{key}'] is invalid attribute for filtering"
                )));
            }
            _ => {
                return Err(Refusal::invalid(
                    "One or more arguments are either duplicate or invalid",
                ));
            }
        }
    }
    Ok(())
}

fn limit(model: &Model, request: &ApiRequest) -> Result<usize, Refusal> {
    let most = model.options.page_size;
    match request
        .query("limit")
        .map(|text| (text, text.parse::<usize>()))
    {
        None | Some((_, Ok(0))) => Ok(most),
        Some((_, Ok(limit))) => Ok(limit.min(most)),
        Some((text, Err(_))) => {
            let message = format!(
                "Invalid input for query parameters limit. Value: {text}. '{text}' does not match '^[0-9]*$'"
            );
            Err(Refusal::new(400, "badRequest", message))
        }
    }
}

/// Returns the link to the page after the one that ends with `marker`.
fn link(model: &Model, request: &ApiRequest, limit: usize, marker: &str) -> Value {
    let endpoint = &model.options.endpoint;
    let path = &request.path;
    // Octavia's links drop the query parameters.
    let kept = request.query.iter().filter(|(key, _)| {
        request.service != Service::Balancer && key != "marker" && key != "limit"
    });
    let kept: String = kept
        .map(|(key, value)| format!("{key}={}&", encoded(value)))
        .collect();
    json!({"rel": "next", "href": format!("{endpoint}{path}?{kept}limit={limit}&marker={marker}")})
}

fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value
        .bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// Returns the requested page of the objects, in this order.
pub(crate) fn page(model: &Model, request: &ApiRequest, kind: Kind, items: Vec<Object>) -> Answer {
    page_of(model, request, kind.words().1, Some(kind), items)
}

/// Returns a page like [`page`], under the key `collection`.
pub(crate) fn page_of(
    model: &Model,
    request: &ApiRequest,
    collection: &str,
    kind: Option<Kind>,
    items: Vec<Object>,
) -> Answer {
    let limit = limit(model, request)?;
    let is_without_end = request.effects.has(&FaultKind::EmptyPages);
    let start = match request.query("marker").filter(|_| !is_without_end) {
        None => 0,
        Some(marker) => match items.iter().position(|object| text(object, "id") == marker) {
            Some(at) => at + 1,
            None => return Err(no_marker(request.service, kind, marker)),
        },
    };
    let mut page = Page::starting(items, start, limit, &request.effects);
    if request.query("limit").is_some() || request.service == Service::Compute {
        page = page.full_is_followed(limit, &request.effects);
    }
    let marker = match page.next {
        Next::Nothing => None,
        // Each page names another one than the page before.
        Next::Following if is_without_end => {
            Some(format!("{}x", request.query("marker").unwrap_or_default()))
        }
        Next::Following => page
            .items
            .last()
            .map(|object| text(object, "id").to_owned()),
        Next::Itself => Some(request.query("marker").unwrap_or_default().to_owned()),
    };
    let links: Vec<Value> = marker
        .iter()
        .map(|marker| link(model, request, limit, marker))
        .collect();
    let fields: Vec<&str> = request.all("fields").collect();
    let shown = |mut item: Object| {
        item.retain(|key, _| fields.is_empty() || fields.contains(&key.as_str()));
        Value::Object(item)
    };
    let mut body = Map::new();
    body.insert(
        collection.to_owned(),
        page.items.into_iter().map(shown).collect(),
    );
    if !links.is_empty() || request.service == Service::Balancer {
        body.insert(format!("{collection}_links"), links.into());
    }
    Ok(Reply::new(200, body.into()))
}

fn no_marker(service: Service, kind: Option<Kind>, marker: &str) -> Refusal {
    match service {
        Service::Compute => Refusal::new(400, "badRequest", format!("marker [{marker}] not found")),
        Service::Balancer => Refusal::invalid(format!(
            "Supplied pagination marker '{marker}' is not valid."
        )),
        _ => kind.unwrap_or(Kind::Port).not_found(marker),
    }
}

/// Returns the page of what the project sees, as `render` shows it, by the filters of Neutron and Octavia.
pub(crate) fn list(
    model: &Model,
    request: &ApiRequest,
    kind: Kind,
    attributes: &[&str],
    render: impl Fn(&Model, &Object) -> Object,
) -> Answer {
    check(request, attributes)?;
    let seen = model
        .all(kind)
        .filter(|object| model.is_visible(kind, object, &request.project));
    let shown = seen
        .map(|object| render(model, object))
        .filter(|render| is_selected(render, &request.query));
    page(model, request, kind, shown.collect())
}

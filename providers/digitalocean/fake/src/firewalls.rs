//! Cloud firewalls API of the fake cloud.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::model::{Answer, ApiRequest, CREATED, Model, Owned, invalid, named, of, ok, page, uuid};

const KEYS: [&str; 5] = [
    "name",
    "tags",
    "droplet_ids",
    "inbound_rules",
    "outbound_rules",
];

/// Returns the firewall that a request describes.
fn described(request: &ApiRequest, id: &str) -> Result<Value, Refused> {
    let body = request
        .body
        .as_object()
        .ok_or_else(|| invalid("the body is no object"))?;
    if let Some(key) = body.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(invalid(format!("{key} is unknown")));
    }
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
    let is_inner = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
    if name.len() < 2 || name.len() > 255 || !name.chars().all(is_inner) {
        return Err(invalid("name is invalid"));
    }
    let mut firewall =
        json!({"id": id, "status": "succeeded", "created_at": CREATED, "pending_changes": []});
    for key in KEYS {
        firewall[key] = body
            .get(key)
            .filter(|key| !key.is_null())
            .cloned()
            .unwrap_or_else(|| json!([]));
    }
    let rules = |key: &str| firewall[key].as_array().cloned().unwrap_or_default();
    let inbound = rules("inbound_rules");
    let outbound = rules("outbound_rules");
    if inbound.is_empty() && outbound.is_empty() {
        return Err(invalid("a firewall needs a rule"));
    }
    for (rule, peer) in inbound
        .iter()
        .map(|inbound| (inbound, "sources"))
        .chain(outbound.iter().map(|outbound| (outbound, "destinations")))
    {
        let is_known = ["tcp", "udp", "icmp"]
            .iter()
            .any(|text| rule["protocol"] == **text);
        let is_any = |key: &str| {
            rule[peer][key]
                .as_array()
                .is_some_and(|key| !key.is_empty())
        };
        if !is_known
            || !rule["ports"].is_string()
            || !(is_any("addresses") || is_any("load_balancer_uids"))
        {
            return Err(invalid(format!("rule {rule} is invalid")));
        }
    }
    // Normalized as in the API: icmp has port 0, and `all` is shown as 0.
    for key in ["inbound_rules", "outbound_rules"] {
        for rule in firewall[key]
            .as_array_mut()
            .into_iter()
            .flatten()
            .filter(|key| key["ports"] == "all")
        {
            rule["ports"] = "0".into();
        }
    }
    Ok(firewall)
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    page(
        request,
        "firewalls",
        of(&model.firewalls, request),
        Value::clone,
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(json!({"firewall": named(&model.firewalls, request)?}))
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let id = uuid(4, model.next_number());
    let object = described(request, &id)?;
    if of(&model.firewalls, request).any(|entry| entry["name"] == object["name"]) {
        return Err(Refused::new(409, "conflict", "duplicate name"));
    }
    model.firewalls.insert(
        id,
        Owned {
            account: request.project.clone(),
            object: object.clone(),
        },
    );
    Ok(Reply::new(202, json!({"firewall": object})))
}

pub(crate) fn update(model: &mut Model, request: &ApiRequest) -> Answer {
    named(&model.firewalls, request)?;
    let object = described(request, request.id())?;
    let owned = Owned {
        account: request.project.clone(),
        object: object.clone(),
    };
    model.firewalls.insert(request.id().to_owned(), owned);
    ok(json!({"firewall": object}))
}

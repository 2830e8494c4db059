//! Listeners, groups, members and access lists of load balancers.

use fake_cloud::Refused;
use serde_json::{Value, json};

use super::{Answer, ApiRequest, Mycloud, invalid, not_found};

/// Changes fields one by one, also inside of objects.
fn merge(target: &mut Value, patch: &Value) {
    for (field, value) in patch.as_object().into_iter().flatten() {
        match value.is_object() && target[field].is_object() {
            true => merge(&mut target[field], value),
            false => target[field] = value.clone(),
        }
    }
}

fn items<'a>(owner: &'a mut Value, parts: &str) -> &'a mut Vec<Value> {
    owner[parts].as_array_mut().expect("parts are lists")
}

fn part<'a>(owner: &'a mut Value, parts: &str, id: &str) -> Result<&'a mut Value, Refused> {
    items(owner, parts)
        .iter_mut()
        .find(|object| object["id"] == id)
        .ok_or_else(not_found)
}

fn in_use() -> Refused {
    Refused::new(409, "ResourceInUse", "a listener uses it")
}

fn create(
    cloud: &mut Mycloud,
    request: &ApiRequest,
    parts: &str,
    check: fn(&Value, &Value) -> Result<(), Refused>,
) -> Answer {
    let prefix = parts.get(..3).unwrap_or_default();
    let number = cloud.number();
    let balancer = request.body["loadbalancer_id"]
        .as_str()
        .unwrap_or(request.id());
    cloud.change(request, balancer, |cloud| {
        let mut created = request.body.clone();
        // A key is never shown again.
        created
            .as_object_mut()
            .map(|object| object.remove("private_key"));
        created["id"] = format!("{prefix}-{number}").into();
        check(cloud, &created)?;
        items(cloud, parts).push(created.clone());
        Ok(created)
    })
}

fn update(
    cloud: &mut Mycloud,
    request: &ApiRequest,
    parts: &str,
    check: fn(&Value, &Value) -> Result<(), Refused>,
) -> Answer {
    cloud.change(request, request.id(), |cloud| {
        let whole = cloud.clone();
        let found = part(cloud, parts, request.nth_id(1))?;
        merge(found, &request.body);
        check(&whole, found)?;
        Ok(found.clone())
    })
}

fn delete(
    cloud: &mut Mycloud,
    request: &ApiRequest,
    parts: &str,
    id: &str,
    balancer: &str,
) -> Answer {
    cloud.change(request, balancer, |cloud| {
        part(cloud, parts, id)?;
        let has = |object: &Value| {
            object["certificate_ids"]
                .as_array()
                .is_some_and(|ids| ids.iter().any(|other_id| other_id == id))
        };
        let is_used =
            |object: &Value| object["group_id"] == id || object["acl"]["id"] == id || has(object);
        if items(cloud, "listeners").iter().any(is_used) {
            return Err(in_use());
        }
        items(cloud, parts).retain(|object| object["id"] != id);
        Ok(json!({"id": id}))
    })
}

fn check_listener(owner: &Value, entry: &Value) -> Result<(), Refused> {
    let list = |parts: &str| owner[parts].as_array().cloned().unwrap_or_default();
    let protocol = entry["protocol"].as_str().unwrap_or_default();
    let is_udp = |object: &Value| object["protocol"] == "udp";
    let is_taken = |other: &Value| {
        other["id"] != entry["id"]
            && other["port"] == entry["port"]
            && is_udp(other) == is_udp(entry)
    };
    if list("listeners").iter().any(is_taken) {
        return Err(Refused::new(409, "AlreadyExists", "the port is taken"));
    }
    if !["tcp", "udp", "http", "https", "tls"].contains(&protocol) {
        return Err(invalid("protocol is not known"));
    }
    if !list("groups")
        .iter()
        .any(|group| group["id"] == entry["group_id"])
    {
        return Err(invalid("group_id: there is no such group"));
    }
    if ["https", "tls"].contains(&protocol)
        && entry["certificate_ids"]
            .as_array()
            .is_none_or(Vec::is_empty)
    {
        return Err(invalid("certificate_ids: at least one"));
    }
    let is_upload = |id: &Value| {
        list("certificates")
            .iter()
            .any(|certificate| certificate["id"] == *id)
    };
    let mut ids = entry["certificate_ids"].as_array().into_iter().flatten();
    if !ids.all(|id| id.as_str().is_some_and(|text| text.starts_with("crt-")) || is_upload(id)) {
        return Err(invalid("certificate_ids: there is no such certificate"));
    }
    if entry["max_qps"]
        .as_u64()
        .is_some_and(|max_qps| max_qps > 1_000_000)
    {
        return Err(invalid("max_qps: at most 1000000"));
    }
    if entry["proxy_protocol"]
        .as_str()
        .is_some_and(|proxy_protocol| proxy_protocol != "off")
        && !["tcp", "tls"].contains(&protocol)
    {
        return Err(invalid("proxy_protocol: only for tcp and tls"));
    }
    let is_limited = entry["acl"]["type"]
        .as_str()
        .is_some_and(|kind| kind != "off");
    let is_known = |list: &Value| list["id"] == entry["acl"]["id"];
    if is_limited
        && entry["acl"]["id"] != "acl-shared"
        && !list("access_lists").iter().any(is_known)
    {
        return Err(invalid("acl.id: there is no such access list"));
    }
    Ok(())
}

fn check_group(_: &Value, object: &Value) -> Result<(), Refused> {
    let port = object["health_check"]["port"].as_u64().unwrap_or_default();
    if (1..=65_535).contains(&port) {
        Ok(())
    } else {
        Err(invalid("health_check.port: 1 to 65535"))
    }
}

fn check_access_list(_: &Value, current: &Value) -> Result<(), Refused> {
    let is_range = |object: &Value| object.as_str().is_some_and(|text| text.contains('/'));
    match current["entries"]
        .as_array()
        .is_some_and(|entry| !entry.is_empty() && entry.len() <= 300 && entry.iter().all(is_range))
    {
        true => Ok(()),
        false => Err(invalid("entries: 1 to 300 ranges")),
    }
}

pub(super) fn create_listener(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    create(cloud, request, "listeners", check_listener)
}

pub(super) fn update_listener(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    update(cloud, request, "listeners", check_listener)
}

pub(super) fn delete_listener(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    delete(cloud, request, "listeners", request.nth_id(1), request.id())
}

pub(super) fn create_group(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    create(cloud, request, "groups", check_group)
}

pub(super) fn update_group(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    update(cloud, request, "groups", check_group)
}

pub(super) fn delete_group(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    delete(cloud, request, "groups", request.nth_id(1), request.id())
}

pub(super) fn create_access_list(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    create(cloud, request, "access_lists", check_access_list)
}

pub(super) fn create_certificate(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let is_pem = |field: &str| {
        request.body[field]
            .as_str()
            .is_some_and(|text| text.contains("-----BEGIN "))
    };
    if !is_pem("certificate") || !is_pem("private_key") {
        return Err(invalid("certificate and private_key: PEM"));
    }
    create(cloud, request, "certificates", |_, _| Ok(()))
}

pub(super) fn delete_certificate(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let owner = owner_of(cloud, request, "certificates")?;
    delete(cloud, request, "certificates", request.id(), &owner)
}

/// Returns the load balancer that has this part.
fn owner_of(cloud: &Mycloud, request: &ApiRequest, parts: &str) -> Result<String, Refused> {
    let has = |object: &&Value| {
        object[parts]
            .as_array()
            .is_some_and(|part| part.iter().any(|object| object["id"] == request.id()))
    };
    let found = cloud
        .load_balancers
        .iter()
        .filter(|load_balancer| load_balancer["account"] == *request.project)
        .find(has);
    found
        .and_then(|object| object["id"].as_str())
        .map(str::to_owned)
        .ok_or_else(not_found)
}

pub(super) fn update_access_list(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let owner = owner_of(cloud, request, "access_lists")?;
    cloud.change(request, &owner, |cloud| {
        let found = part(cloud, "access_lists", request.id())?;
        merge(found, &request.body);
        check_access_list(&Value::Null, found)?;
        Ok(found.clone())
    })
}

pub(super) fn delete_access_list(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let owner = owner_of(cloud, request, "access_lists")?;
    delete(cloud, request, "access_lists", request.id(), &owner)
}

fn members(
    cloud: &mut Mycloud,
    request: &ApiRequest,
    change: fn(&mut Vec<Value>, &Value),
) -> Answer {
    let sent = request.body["members"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if sent.is_empty() || sent.len() > 100 {
        return Err(invalid("members: 1 to 100"));
    }
    cloud.change(request, request.id(), |cloud| {
        let group = part(cloud, "groups", request.nth_id(1))?;
        if group["members"].is_null() {
            group["members"] = json!([]);
        }
        sent.iter()
            .for_each(|member| change(items(group, "members"), member));
        Ok(json!({"id": group["id"]}))
    })
}

fn is_same(one: &Value, other: &Value) -> bool {
    ["instance_id", "address", "port"]
        .iter()
        .all(|field| one[*field] == other[*field])
}

pub(super) fn add_members(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let mut sent = request.body["members"].as_array().into_iter().flatten();
    if !sent.all(|object| cloud.has_instance(&request.project, &object["instance_id"])) {
        return Err(invalid("instance_id: there is no such instance"));
    }
    members(cloud, request, |all, new| {
        all.retain(|object| !is_same(object, new));
        all.push(new.clone());
    })
}

pub(super) fn update_members(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    members(cloud, request, |all, new| {
        all.iter_mut()
            .filter(|object| is_same(object, new))
            .for_each(|object| object["weight"] = new["weight"].clone());
    })
}

pub(super) fn remove_members(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    members(cloud, request, |all, gone| {
        all.retain(|object| !is_same(object, gone));
    })
}

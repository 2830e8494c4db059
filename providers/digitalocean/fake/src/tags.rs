//! Tags, and the load balancers that have them.

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::model::{Answer, ApiRequest, Model, invalid, not_found};

pub(crate) fn is_valid(tag: &str) -> bool {
    let is_inner = |character: char| character.is_ascii_alphanumeric() || "_-:".contains(character);
    !tag.is_empty() && tag.len() <= 255 && tag.chars().all(is_inner)
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let name = request.body["name"].as_str().filter(|name| is_valid(name));
    let name = name.ok_or_else(|| invalid("tag name is invalid"))?;
    model
        .tags
        .insert((request.project.clone(), name.to_owned()));
    Ok(Reply::new(
        201,
        json!({"tag": {"name": name, "resources": {"count": 0}}}),
    ))
}

pub(crate) fn add_resources(model: &mut Model, request: &ApiRequest) -> Answer {
    change_resources(model, request, |tags, tag| {
        if !tags.iter().any(|other_tag| other_tag == tag) {
            tags.push(tag.into());
        }
    })
}

pub(crate) fn remove_resources(model: &mut Model, request: &ApiRequest) -> Answer {
    change_resources(model, request, |tags, tag| {
        tags.retain(|other_tag| other_tag != tag);
    })
}

fn change_resources(
    model: &mut Model,
    request: &ApiRequest,
    change: fn(&mut Vec<Value>, &str),
) -> Answer {
    let tag = request.id().replace("%3A", ":");
    if !model.tags.contains(&(request.project.clone(), tag.clone())) {
        return Err(not_found());
    }
    for resource in request.body["resources"]
        .as_array()
        .ok_or_else(|| invalid("resources are missing"))?
    {
        let id = resource["resource_id"].as_str().unwrap_or_default();
        if resource["resource_type"] != "load_balancer" {
            return Err(invalid("resource_type is invalid"));
        }
        let owned = model
            .load_balancers
            .get_mut(id)
            .filter(|object| object.account == request.project)
            .ok_or_else(not_found)?;
        owned.object["tags"]
            .as_array_mut()
            .into_iter()
            .for_each(|tags| change(tags, &tag));
    }
    Ok(Reply::empty(204))
}

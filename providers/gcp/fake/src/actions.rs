//! Actions on target pools, forwarding rules and instance groups.

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::collections::{fingerprint, page};
use crate::references::check_instances;
use crate::{Answer, ApiRequest, Gcp, array, path_of, refuse};

/// Returns the path of the object on which an action is.
fn target(request: &ApiRequest) -> String {
    let path = Gcp::path(request);
    path.rsplit_once('/')
        .map_or(path.clone(), |(object, _)| object.to_owned())
}

/// Returns the URLs of instances in a body, in the form of this cloud's links.
fn urls(cloud: &Gcp, request: &ApiRequest) -> Vec<String> {
    array(&request.body["instances"])
        .filter_map(|instance| Some(cloud.resolved(request, instance["instance"].as_str()?)))
        .collect()
}

/// Adds instances to a list, or removes them.
fn edit(list: &mut Value, urls: &[String], adds: bool) {
    let all = list.as_array().cloned().unwrap_or_default();
    let mut rest: Vec<Value> = all
        .into_iter()
        .filter(|object| {
            !urls
                .iter()
                .any(|url| Some(path_of(url)) == object.as_str().map(path_of))
        })
        .collect();
    if adds {
        rest.extend(urls.iter().map(|url| url.as_str().into()));
    }
    *list = rest.into();
}

pub(crate) fn pool_instances(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    if let Some(repeated) = cloud.repeated(request) {
        return repeated;
    }
    let path = target(request);
    let urls = urls(cloud, request);
    let adds = request.path.ends_with("/addInstance");
    cloud.object(&path)?;
    if urls.len() > 1000 {
        return Err(refuse(400, "invalid", "at most 1000 instances"));
    }
    if adds {
        check_instances(cloud, &urls.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    edit(&mut cloud.object(&path)?["instances"], &urls, adds);
    cloud.begin(request, &path, None, None)
}

pub(crate) fn health(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    cloud.object(&target(request))?;
    let status = json!({"instance": request.body["instance"], "healthState": "HEALTHY"});
    Ok(Reply::new(
        200,
        json!({"kind": "compute#targetPoolInstanceHealth", "healthStatus": [status]}),
    ))
}

pub(crate) fn set_labels(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    if let Some(repeated) = cloud.repeated(request) {
        return repeated;
    }
    let path = target(request);
    let fresh = fingerprint(cloud);
    let rule = cloud.object(&path)?;
    if rule["labelFingerprint"] != request.body["labelFingerprint"] {
        return Err(refuse(
            412,
            "conditionNotMet",
            "Labels fingerprint either invalid or resource labels have changed",
        ));
    }
    rule["labels"] = request.body["labels"].clone();
    rule["labelFingerprint"] = fresh;
    cloud.begin(request, &path, None, None)
}

pub(crate) fn list_members(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    let members = cloud.object(&target(request))?["members"].clone();
    let all = array(&members)
        .map(|object| json!({"instance": object, "status": "RUNNING"}))
        .collect();
    page(cloud, request, "compute#instanceGroupsListInstances", all)
}

pub(crate) fn group_instances(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    if let Some(repeated) = cloud.repeated(request) {
        return repeated;
    }
    let path = target(request);
    let urls = urls(cloud, request);
    let adds = request.path.ends_with("/addInstances");
    let known = cloud.object(&path)?["members"].clone();
    let is_member = |url: &String| array(&known).any(|object| object == url.as_str());
    check_instances(
        cloud,
        &urls
            .iter()
            .filter(|url| adds || !is_member(url))
            .map(String::as_str)
            .collect::<Vec<_>>(),
    )?;
    if adds && urls.iter().any(is_member) {
        return Err(refuse(
            400,
            "invalid",
            "an instance is already a member of the instance group",
        ));
    }
    let is_balanced = |group: &String| {
        cloud.all("backendServices").any(|object| {
            array(&object["backends"])
                .any(|backend| backend["group"].as_str().map(path_of) == Some(group))
        })
    };
    let groups = cloud
        .objects
        .iter()
        .filter(|(other, _)| **other != path && is_balanced(other));
    if adds
        && groups.into_iter().any(|(_, group)| {
            array(&group["members"]).any(|member| urls.iter().any(|url| member == url.as_str()))
        })
    {
        return Err(refuse(
            400,
            "INSTANCE_IN_MULTIPLE_LOAD_BALANCED_IGS",
            "an instance may belong to at most one load-balanced instance group",
        ));
    }
    let group = cloud.object(&path)?;
    edit(&mut group["members"], &urls, adds);
    group["size"] = array(&group["members"]).count().into();
    cloud.begin(request, &path, None, None)
}

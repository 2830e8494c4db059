//! Instances, and aggregated lists: of all zones, each with its items or with a warning.

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::collections::{cut, fits, shown, token};
use crate::{Answer, ApiRequest, Gcp, PROJECT, REGION};

impl Gcp {
    /// Adds a running instance to a zone, and returns its provider ID.
    pub fn add_instance(&mut self, name: &str, zone: &str) -> String {
        self.add_instance_to(PROJECT, name, zone)
    }

    /// Adds a running instance of a project.
    pub fn add_instance_to(&mut self, project: &str, name: &str, zone: &str) -> String {
        let number = self.number();
        let [high, low] = u16::try_from(number % 60_000)
            .unwrap_or_default()
            .to_be_bytes();
        let path = format!("{project}/zones/{zone}/instances/{name}");
        let interface = json!({
            "kind": "compute#networkInterface", "name": "nic0", "networkIP": format!("10.128.{high}.{low}"),
            "network": self.link(&format!("{project}/global/networks/default")),
            "subnetwork": self.link(&format!("{project}/regions/{REGION}/subnetworks/default")),
            "accessConfigs": [{"kind": "compute#accessConfig", "type": "ONE_TO_ONE_NAT", "name": "External NAT", "natIP": format!("198.51.{high}.{low}")}],
            "aliasIpRanges": [{"ipCidrRange": format!("10.40.{}.0/24", number % 250), "subnetworkRangeName": "pods"}],
        });
        let instance = json!({
            "status": "RUNNING", "machineType": self.link(&format!("{project}/zones/{zone}/machineTypes/n2-standard-4")),
            "tags": {"items": ["node"], "fingerprint": "42WmSpB8rSM="}, "networkInterfaces": [interface], "canIpForward": true,
        });
        self.insert(&path, instance);
        format!("gce://{project}/{zone}/{name}")
    }

    /// Changes the instances of this name.
    pub fn change_instance(&mut self, name: &str, change: impl Fn(&mut Value)) {
        let is_this_path =
            |path: &String| path.contains("/instances/") && path.ends_with(&format!("/{name}"));
        self.objects
            .iter_mut()
            .filter(|(path, _)| is_this_path(path))
            .for_each(|(_, object)| change(object));
    }

    /// Removes the instances of this name, also from pools and groups.
    pub fn remove_instance(&mut self, name: &str) {
        let end = format!("/instances/{name}");
        self.objects.retain(|path, _| !path.ends_with(&end));
        for object in self.objects.values_mut() {
            for key in ["instances", "members"] {
                object[key].as_array_mut().into_iter().for_each(|all| {
                    all.retain(|object| object.as_str().is_none_or(|url| !url.ends_with(&end)));
                });
            }
            if let Some(fields) = object.as_object_mut() {
                fields.retain(|key, value| {
                    !(["instances", "members"].contains(&&**key) && value.is_null())
                });
            }
        }
    }
}

/// The instances or instance groups of all zones. A zone that does not answer has a warning in the place of its items.
pub(crate) fn aggregated(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    let collection = request
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let kind = format!("compute#{}AggregatedList", crate::singular(&collection));
    let prefix = format!("{}/zones/", request.id());
    let is_its_path =
        |path: &str| path.starts_with(&prefix) && path.rsplit('/').nth(1) == Some(&collection);
    let is_reachable = |path: &str| {
        !cloud
            .unreachable
            .iter()
            .any(|zone| path.contains(&format!("/zones/{zone}/")))
    };
    let filter = request.query("filter").filter(|query| !query.is_empty());
    let mut found = Vec::new();
    for (path, entry) in cloud
        .objects
        .iter()
        .filter(|(path, _)| is_its_path(path) && is_reachable(path))
    {
        if filter.map_or(Ok(true), |filter| fits(entry, filter))? {
            found.push((path.clone(), entry.clone()));
        }
    }
    let page = cut(cloud, request, found)?;
    let mut scopes = json!({});
    let next = token(&page, request);
    for (path, object) in page.items {
        let zone = path.split('/').nth(2).unwrap_or_default();
        let scope = &mut scopes[format!("zones/{zone}")];
        if scope[&collection].is_null() {
            *scope = json!({ &*collection: [] });
        }
        scope[&collection]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(shown(&object)));
    }
    for zone in &cloud.unreachable {
        let warning = json!({"code": "UNREACHABLE", "message": format!("The zone {zone} does not answer"), "data": []});
        scopes[format!("zones/{zone}")] = json!({ "warning": warning });
    }
    let mut answer = json!({"kind": kind, "id": request.path, "items": scopes, "selfLink": cloud.link(&Gcp::path(request))});
    if let Some(next) = next {
        answer["nextPageToken"] = next.into();
    }
    Ok(Reply::new(200, answer))
}

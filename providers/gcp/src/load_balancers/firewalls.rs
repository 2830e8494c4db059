//! Changes of firewalls. If the program may not change those of a shared network, an event shows the command.

use cloud_provider::{EventSubject, Result, Service};
use provider_kit::load_balancers::{Attributes, ResourceGraph, ResourceKey};
use provider_kit::transport::Method;
use serde_json::Value;

use super::GceLoadBalancers;
use super::names::{LbNames, denial, traffic};
use super::objects::body;
use crate::api::{FIREWALL, Place, name};

fn texts(value: &Value) -> Vec<String> {
    let mut texts: Vec<_> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    texts.sort();
    texts
}

/// Returns the ports of a firewall as gcloud takes them: `tcp:80,tcp:443`.
fn specs(effects: &Value) -> Vec<String> {
    let mut specs = Vec::new();
    for effect in effects.as_array().into_iter().flatten() {
        let protocol = effect["IPProtocol"].as_str().unwrap_or_default();
        match texts(&effect["ports"]) {
            ports if ports.is_empty() => specs.push(protocol.to_owned()),
            ports => specs.extend(ports.iter().map(|port| format!("{protocol}:{port}"))),
        }
    }
    specs.sort();
    specs
}

/// Returns the gcloud command that makes a change.
pub(super) fn command(method: &Method, firewall: &str, settings: &Value, place: &Place) -> String {
    let project = format!("--project {}", place.network_project);
    let mut words = vec!["gcloud compute firewall-rules".to_owned()];
    match *method {
        Method::DELETE => return format!("{} delete {firewall} {project}", words[0]),
        Method::POST => words.push(format!(
            "create {firewall} --network {}",
            name(&place.network)
        )),
        _ => words.push(format!("update {firewall}")),
    }
    words.push(format!(
        "--description {:?}",
        settings["description"].as_str().unwrap_or_default()
    ));
    let lists = [
        ("--allow", specs(&settings["allowed"])),
        ("--deny", specs(&settings["denied"])),
        ("--source-ranges", texts(&settings["sourceRanges"])),
        (
            "--destination-ranges",
            texts(&settings["destinationRanges"]),
        ),
        ("--target-tags", texts(&settings["targetTags"])),
    ];
    words.extend(
        lists
            .into_iter()
            .filter(|(_, all)| !all.is_empty())
            .map(|(flag, all)| format!("{flag} {}", all.join(","))),
    );
    words.extend(
        settings["priority"]
            .as_u64()
            .map(|priority| format!("--priority {priority}")),
    );
    words.push(project);
    words.join(" ")
}

impl GceLoadBalancers {
    /// Returns `true` if the firewall could not be deleted, and is left to the administrator of a shared network.
    pub(super) fn is_kept_firewall(&self, resource: &ResourceKey) -> bool {
        matches!(resource, ResourceKey::CreatedAfter(auxiliary) if self.kept_firewalls.lock().contains(&auxiliary.name))
    }

    /// Keeps the priority of a firewall that allows as long as there may be one that denies and is not wanted: of two
    /// firewalls of the same priority, the one that denies counts.
    pub(super) fn keep_priorities(
        &self,
        desired: &mut ResourceGraph,
        seen: Option<&ResourceGraph>,
        names: &LbNames,
    ) {
        for is_ipv6 in [false, true] {
            let allowing = traffic(names.firewall(is_ipv6));
            let denying = denial(names.denial(is_ipv6));
            let Some(seen) = seen.filter(|_| !desired.resources.contains_key(&denying)) else {
                continue;
            };
            // Without the flag, firewalls that deny are not read.
            let may_deny =
                seen.resources.contains_key(&denying) || !self.api.config.removes_denials;
            let priority = seen
                .resources
                .get(&allowing)
                .and_then(|settings| settings.number::<u32>("priority"));
            let settings = desired.resources.get(&allowing).cloned();
            if let (Some(priority), Some(settings), true) = (
                priority.filter(|priority| *priority < 1000),
                settings,
                may_deny,
            ) {
                desired
                    .resources
                    .insert(allowing, settings.set("priority", priority));
            }
        }
    }

    /// Begins a change of a firewall, and returns its operation. A firewall of a shared network that may not be changed is left
    /// to its administrator; an event shows the command.
    pub(super) async fn change_firewall(
        &self,
        method: Method,
        firewall: &str,
        settings: &Attributes,
        service: &Service,
    ) -> Result<Option<String>> {
        let place = self.api.place().await?;
        let mut body = body(firewall, settings);
        let command = command(&method, firewall, &body, &place);
        let text = format!("Firewall change required by security admin: `{command}`");
        let reason = "LoadBalancerManualChange";
        body["network"] = place.network.as_str().into();
        let is_deletion = method == Method::DELETE;
        let call = match method {
            Method::POST => place.all(method, FIREWALL, "").json(&body),
            Method::DELETE => place.one(method, FIREWALL, firewall),
            _ => place.one(method, FIREWALL, firewall).json(&body),
        };
        match self.api.begin(call).await {
            Err(error) if place.is_shared() && error.is_unauthorized() => {
                if self
                    .deduplicator
                    .is_first(EventSubject::Service(service), reason, &text)
                {
                    self.kubernetes.cluster.events().normal(
                        EventSubject::Service(service),
                        reason,
                        &text,
                    );
                }
                if is_deletion {
                    self.kept_firewalls.lock().insert(firewall.to_owned());
                }
                Ok(None)
            }
            Err(error) if is_deletion && error.is_not_found() => Ok(None),
            Err(error) if error.is_unauthorized() => {
                Err(error.context("the role needs compute.firewalls.*"))
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn command_says_what_the_change_would_have_done() {
        let place = Place {
            network_project: "host".into(),
            network: "projects/host/global/networks/net".into(),
            ..Place::default()
        };
        let settings = json!({"description": "{\"a\":\"b\"}", "allowed": [{"IPProtocol": "tcp", "ports": ["80", "443"]}],
            "sourceRanges": ["0.0.0.0/0"], "destinationRanges": ["1.2.3.4"], "targetTags": ["b", "a"], "priority": 1000});
        assert_eq!(
            command(&Method::POST, "fw", &settings, &place),
            "gcloud compute firewall-rules create fw --network net --description \"{\\\"a\\\":\\\"b\\\"}\" \
             --allow tcp:443,tcp:80 --source-ranges 0.0.0.0/0 --destination-ranges 1.2.3.4 --target-tags a,b \
             --priority 1000 --project host"
        );
        assert_eq!(
            command(&Method::DELETE, "fw", &settings, &place),
            "gcloud compute firewall-rules delete fw --project host"
        );
    }
}

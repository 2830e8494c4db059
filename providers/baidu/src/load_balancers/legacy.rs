//! The owners of BLBs without owner tags: those that the Go program created, and those of users.

use std::collections::HashMap;
use std::sync::Arc;

use cloud_provider::{Service, default_load_balancer_name, is_default_load_balancer_name};
use provider_kit::load_balancers::ObservedLoadBalancer;
use provider_kit::text_tags::ADOPTED;

use super::eip::LEGACY_MARK;
use super::object::{DESCRIPTION, EDITED};
use super::{LONGEST_NAME, is_lent, requested_id, shortened, text_on};
use crate::GENERATED;
use crate::annotations as key;
use crate::config::Config;

/// The most characters of a description in front of the owner tags.
const LONGEST_TEXT: usize = 90;
/// The beginning of the names that are generated.
pub(super) const GENERATED_NAME: &str = "CCE/SVC/";

/// Returns a name without what differs between the versions of the Go program: `CCE/SVC/` in front, and the end of a
/// long one.
pub(super) fn legacy_name(name: &str) -> String {
    name.strip_prefix(GENERATED_NAME)
        .unwrap_or(name)
        .chars()
        .take(LONGEST_NAME)
        .collect()
}

/// Returns the legacy owner tag of a Service: namespace and name, behind the ID of the cluster.
pub(super) fn legacy_owner(cluster: &str, service: &Service) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let [namespace, name] = [
        part(&service.metadata.namespace),
        part(&service.metadata.name),
    ];
    format!("{cluster}/{namespace}/{name}")
}

/// Returns the names of BLBs that are generated for a Service: by this program, and by versions of the Go program. The
/// author of the Service cannot choose them.
pub(super) fn generated_names(cluster: &str, service: &Service) -> [String; 3] {
    let owner = legacy_owner(cluster, service);
    let shortened = shortened(format!("{GENERATED_NAME}{owner}"));
    let default = default_load_balancer_name(service)
        .chars()
        .take(32)
        .collect();
    [legacy_name(&owner), legacy_name(&shortened), default]
}

/// Returns `true` if a name has the form of those that are generated for Services, but not for this one.
pub(super) fn is_generated_for_another(name: &str, cluster: &str, service: &Service) -> bool {
    let is_own = generated_names(cluster, service).contains(&legacy_name(name));
    !is_own && (name.starts_with(GENERATED_NAME) || is_default_load_balancer_name(name))
}

/// Returns `true` if a description has the text as a whole: `cce:c-1` is not in `cce:c-12`.
pub(super) fn has_text(description: &str, text: &str) -> bool {
    description
        .split(text)
        .skip(1)
        .any(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The Services of a cluster, by the names and IDs of BLBs that may be theirs. Of several Services with one name or ID,
/// the oldest one has it: annotations are copied with a manifest.
#[derive(Default)]
pub(super) struct LegacyOwners {
    /// The beginning of the names that this cluster generates.
    prefix: String,
    generated: HashMap<String, String>,
    chosen: HashMap<String, String>,
    requested: HashMap<String, String>,
    added: HashMap<String, String>,
    /// The BLBs that annotations record as created for a Service, by ID.
    created: HashMap<String, Created>,
    /// The description of BLBs that this cluster creates.
    description: String,
}

/// A BLB that the annotations of a Service record as created for it. The author of the Service can write them, too, so
/// they count together with a generated name only.
struct Created {
    uid: Option<String>,
    /// Names that this program and the Go program generate for it.
    names: [String; 3],
    /// If set, an EIP was created with it.
    has_eip: bool,
}

impl Created {
    /// Returns the ID of the BLB that was created for a Service, with its record. The BLB that `…-exist-id` names, or one
    /// that the user asks for, is the user's.
    fn of(service: &Service, cluster: &str) -> Option<(String, Self)> {
        let id = text_on(service, key::ADDED_ID.key())?;
        if is_lent(service, &id) || requested_id(service).is_some() {
            return None;
        }
        let names = generated_names(cluster, service);
        let has_eip = text_on(service, key::ADDED_EIP.key()).is_some();
        Some((
            id,
            Self {
                uid: service.metadata.uid.clone(),
                names,
                has_eip,
            },
        ))
    }
}

impl LegacyOwners {
    pub(super) fn new(config: &Config, mut services: Vec<Arc<Service>>) -> Self {
        let cluster = &*config.cluster;
        services.sort_by_key(|service| {
            let metadata = &service.metadata;
            (
                metadata.creation_timestamp.clone(),
                metadata.namespace.clone(),
                metadata.name.clone(),
            )
        });
        let description = config.description();
        let mut owners = Self {
            prefix: format!("{cluster}/"),
            description,
            ..Self::default()
        };
        for service in services {
            let owner = legacy_owner(cluster, &service);
            let text = |annotation: &str| text_on(&service, annotation);
            if let Some((id, created)) = Created::of(&service, cluster) {
                owners.created.entry(id).or_insert(created);
            }
            for (map, entry) in [
                (&mut owners.generated, Some(legacy_name(&owner))),
                (
                    &mut owners.chosen,
                    text(key::NAME.key()).map(|name| legacy_name(&name)),
                ),
                (&mut owners.requested, requested_id(&service)),
                (&mut owners.added, text(key::ADDED_ID.key())),
            ] {
                if let Some(object) = entry {
                    map.entry(object).or_insert_with(|| owner.clone());
                }
            }
        }
        owners
    }

    /// Returns a BLB with its legacy owner tag, if it has no owner tags. One whose description a person has edited counts
    /// as created by this cluster if its name and an annotation say so.
    pub(super) fn observed(&self, blb: ObservedLoadBalancer) -> ObservedLoadBalancer {
        let mut blb = self.restored(blb);
        blb.legacy_owner = if blb.owner_tags.service.is_none() {
            self.owner(&blb)
        } else {
            None
        };
        blb
    }

    fn restored(&self, mut blb: ObservedLoadBalancer) -> ObservedLoadBalancer {
        let name = legacy_name(&blb.name);
        let Some(created) = self
            .created
            .get(&blb.id)
            .filter(|id| blb.adopted && id.names.contains(&name))
        else {
            return blb;
        };
        let words = blb.labels.get(DESCRIPTION).cloned().unwrap_or_default();
        let is_of_others =
            blb.owner_tags.service.is_some() && blb.owner_tags.service != created.uid;
        if is_of_others || words.contains(GENERATED) || has_text(&words, ADOPTED) {
            return blb;
        }
        let mark = if created.has_eip { LEGACY_MARK } else { "" };
        let restored = format!("{mark}{}", self.description);
        let whole = format!("{restored} {words}");
        // The owner tags need the rest of the 200 characters.
        let text = if words.is_empty() || whole.chars().count() > LONGEST_TEXT {
            restored
        } else {
            whole
        };
        blb.adopted = false;
        blb.labels.extend([
            (DESCRIPTION.to_owned(), text),
            (EDITED.to_owned(), "true".to_owned()),
        ]);
        blb
    }

    /// Returns the legacy owner tag of a BLB. A name or a recorded ID counts only if this cluster generated the BLB,
    /// because other clusters of the account may have the same names, and a recorded ID does not count if the BLB has the
    /// generated name of another Service.
    fn owner(&self, blb: &ObservedLoadBalancer) -> Option<String> {
        let name = (!blb.adopted).then(|| legacy_name(&blb.name));
        let name = name.as_deref();
        if let Some(owner) = name
            .and_then(|name| self.generated.get(name))
            .or_else(|| self.requested.get(&blb.id))
        {
            return Some(owner.clone());
        }
        let is_of_another_cluster = name.is_none()
            && blb
                .labels
                .get(DESCRIPTION)
                .is_some_and(|text| text.contains(GENERATED));
        let is_of_another_service = name.is_some_and(|name| name.starts_with(&self.prefix));
        let added = self
            .added
            .get(&blb.id)
            .filter(|_| !is_of_another_cluster && !is_of_another_service);
        let found = added.or_else(|| self.chosen.get(name?)).map(String::as_str);
        found.or(name).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_that_is_generated_for_another_service_is_known() {
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11"});
        let service: Service = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        for name in [
            "CCE/SVC/c-1/bank/web",
            "CCE/SVC/c-2/shop/web",
            "a0123456789abcdef0123456789abcde",
        ] {
            assert!(is_generated_for_another(name, "c-1", &service), "{name}");
        }
        let own_tag_values = [
            "CCE/SVC/c-1/shop/web",
            "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1",
            "web",
            "a-shop",
            "aaaa",
            "abc/shop/mail",
        ];
        assert!(
            own_tag_values
                .iter()
                .all(|name| !is_generated_for_another(name, "c-1", &service))
        );
    }

    #[test]
    fn description_of_a_cluster_is_not_that_of_another_one() {
        let ours = "auto generated by cce:c-1";
        for text in [
            ours,
            "cce_auto_create_eipauto generated by cce:c-1",
            "auto generated by cce:c-1 for the shop",
        ] {
            assert!(has_text(text, ours), "{text}");
        }
        for text in [
            "",
            "mine",
            "auto generated by cce:c-12",
            "auto generated by cce:",
        ] {
            assert!(!has_text(text, ours), "{text}");
        }
    }
}

//! Parts that users have added to load balancers of the program: they stay.

use cloud_provider::{EventSubject, Service};
use provider_kit::load_balancers::{Attributes, ObservedLoadBalancer, ResourceGraph, ResourceKey};

use super::{AlibabaLoadBalancers, OF_USERS, backends, texts};

impl AlibabaLoadBalancers {
    /// Leaves the backends that users have added to server groups as they are, even if the Service needs them, too.
    pub(super) fn keep_backends_of_users(
        &self,
        desired: &mut ResourceGraph,
        observed: &ObservedLoadBalancer,
        seen: &ResourceGraph,
        service: &Service,
    ) {
        for (resource, settings) in &seen.resources {
            let of_users = texts(settings.get(OF_USERS));
            let ResourceKey::Pool(pool) = resource else {
                continue;
            };
            if of_users.is_empty() {
                continue;
            }
            let text = format!(
                "server group {pool:?} of {} has backends that this program has not added ({}): they stay, and get traffic \
                 of the Service. Remove them if that is not meant",
                observed.place(),
                of_users.join(", ")
            );
            self.events
                .warn(true, EventSubject::Service(service), "BackendOfUser", &text);
            if let Some(targets) = desired.targets.get(pool).cloned() {
                let is_there = |text: &str| {
                    of_users
                        .iter()
                        .any(|other| backends::server_of(other) == backends::server_of(text))
                };
                desired.targets.insert(
                    pool.clone(),
                    targets.iter().filter(|target| !is_there(target)).collect(),
                );
            }
        }
    }

    /// Warns of parts of users that are deleted with a load balancer or a server group.
    pub(super) fn report_deleted_with(
        &self,
        settings: Option<&Attributes>,
        what: &str,
        place: &str,
        service: &Service,
    ) {
        let all = texts(settings.and_then(|settings| settings.get(OF_USERS)));
        if !all.is_empty() {
            let text = format!(
                "{what} that this program has not added ({}) are deleted with {place}",
                all.join(", ")
            );
            self.events.warn(
                true,
                EventSubject::Service(service),
                "PartOfUserDeleted",
                &text,
            );
        }
    }
}

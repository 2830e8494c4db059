//! Credentials, quotas, faults, and the account of requests.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::Kind;
use crate::{Fake, Fault, Options, Recorded};

/// Credentials.
impl Fake {
    /// From now on the user has this password; tokens stay good.
    pub fn set_password(&self, password: &str) {
        password.clone_into(&mut self.model().identity.password);
    }

    /// From now on the application credential has this secret; tokens stay good.
    pub fn set_application_secret(&self, secret: &str) {
        secret.clone_into(&mut self.model().identity.application_secret);
    }

    /// No token is good any more, as after a change of Keystone's keys.
    pub fn expire_tokens(&self) {
        self.model().identity.forget_tokens();
    }

    /// Adds a project for which the user may ask for a token.
    pub fn add_project(&self, id: &str, name: &str) {
        self.model().identity.projects.insert(id.to_owned(), name.to_owned());
    }

    /// No token is good any more, and new ones are for the project with this id, whatever is asked for: as if the project was
    /// deleted, and made again with the same name. `None`: new ones are for the right one again.
    pub fn confuse(&self, project: Option<&str>) {
        let mut model = self.model();
        model.identity.forget_tokens();
        model.identity.confused = project.map(str::to_owned);
    }

    /// From now on the user has these roles in the project. Without `member` or `admin`, it may only read.
    pub fn set_roles(&self, roles: &[&str]) {
        self.model().identity.roles = roles.iter().map(|it| (*it).to_owned()).collect();
    }
}

/// Behaviour.
impl Fake {
    /// Changes how the cloud behaves.
    pub fn set_options(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.model().options);
    }

    /// The project may have so many of a kind: `loadbalancer`, `listener`, `pool`, `healthmonitor`, `floatingip`, `port`,
    /// `security_group`, `security_group_rule`; `router_route` is for each router.
    ///
    /// # Panics
    /// If there is no such kind.
    pub fn set_quota(&self, kind: &str, most: usize) {
        let kinds = [
            Kind::Balancer,
            Kind::Listener,
            Kind::Pool,
            Kind::Monitor,
            Kind::FloatingIp,
            Kind::Port,
            Kind::SecurityGroup,
            Kind::Rule,
        ];
        let mut model = self.model();
        if kind == "router_route" {
            model.route_quota = most;
            return;
        }
        let kind = kinds.into_iter().find(|it| it.words().0 == kind).expect("a kind that has a quota");
        model.quotas.insert(kind, most);
    }

    /// Breaks something, until its count is used up or [`clear_faults`](Self::clear_faults).
    pub fn fail(&self, fault: Fault) {
        self.model().faults.push(fault);
    }

    /// Mends everything.
    pub fn clear_faults(&self) {
        self.model().faults.clear();
    }
}

/// Requests.
impl Fake {
    /// All requests so far that named a service.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.model().requests.clone()
    }

    /// Their number by route.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in &self.model().requests {
            *counts.entry(request.route.clone()).or_default() += 1;
        }
        counts
    }

    /// The number on this route; a method alone: with this method.
    #[must_use]
    pub fn count(&self, route: &str) -> usize {
        let counts = self.counts().into_iter();
        counts.filter(|(it, _)| it == route || it.split(' ').next() == Some(route)).map(|(_, count)| count).sum()
    }

    /// The bodies that were sent to this route.
    #[must_use]
    pub fn bodies(&self, route: &str) -> Vec<Value> {
        self.requests().into_iter().filter(|it| it.route == route).map(|it| it.body).collect()
    }

    /// Those that asked for a change: route and body. Asking for a token is none.
    #[must_use]
    pub fn changes(&self) -> Vec<(String, Value)> {
        self.requests().into_iter().filter(Recorded::is_mutation).map(|it| (it.route, it.body)).collect()
    }

    /// Forgets the requests so far.
    pub fn forget_requests(&self) {
        self.model().requests.clear();
    }
}

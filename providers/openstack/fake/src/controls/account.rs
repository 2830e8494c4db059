//! Controls of credentials, quotas and behaviour.

use crate::model::Kind;
use crate::{Fake, Options};

/// Controls of credentials and tokens.
impl Fake {
    /// Changes the user's password; tokens stay valid.
    pub fn set_password(&self, password: &str) {
        password.clone_into(&mut self.model().identity.password);
    }

    /// Changes the application credential's secret; tokens stay valid.
    pub fn set_application_secret(&self, secret: &str) {
        secret.clone_into(&mut self.model().identity.application_secret);
    }

    /// Invalidates all tokens, as after a change of Keystone's keys.
    pub fn expire_tokens(&self) {
        self.model().identity.forget_tokens();
    }

    /// Adds a project for which the user may request tokens.
    pub fn add_project(&self, id: &str, name: &str) {
        self.model()
            .identity
            .projects
            .insert(id.to_owned(), name.to_owned());
    }

    /// Invalidates all tokens, and issues new ones for the project with this ID, whatever the request asks for: as if
    /// the project was deleted, and created again with the same name. `None`: new tokens are for the requested project
    /// again.
    pub fn confuse(&self, project: Option<&str>) {
        let mut model = self.model();
        model.identity.forget_tokens();
        model.identity.confused = project.map(str::to_owned);
    }

    /// Sets the user's roles in the project. Without `member` or `admin`, it may only read.
    pub fn set_roles(&self, roles: &[&str]) {
        self.model().identity.roles = roles.iter().map(|role| (*role).to_owned()).collect();
    }
}

/// Controls of the cloud's behaviour.
impl Fake {
    /// Changes how the cloud behaves.
    pub fn set_options(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.model().options);
    }

    /// Sets the quota of the project for a kind: `loadbalancer`, `listener`, `pool`, `healthmonitor`, `floatingip`,
    /// `port`, `security_group`, `security_group_rule`; `router_route` applies to each router.
    ///
    /// # Panics
    /// If the kind is unknown.
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
        let kind = kinds
            .into_iter()
            .find(|other_kind| other_kind.words().0 == kind)
            .expect("a kind that has a quota");
        model.quotas.insert(kind, most);
    }
}

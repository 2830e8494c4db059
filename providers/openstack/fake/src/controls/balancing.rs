//! Load balancers, floating IPs, security groups, secrets.

use fake_cloud::Effects;
use serde_json::{Map, Value, json};

use crate::model::{Kind, Model, Object, set, text};
use crate::octavia::{set_state, sorted_tags};
use crate::{Fake, shown};

fn whole(model: &Model, balancer: &Object) -> Value {
    Value::Object(shown::whole(model, balancer))
}

/// Controls of load balancers.
impl Fake {
    /// Adds a load balancer from the body of a `POST`, without the outer key, as another program does: `ACTIVE` at
    /// once. Returns its ID.
    ///
    /// # Panics
    /// If Octavia would refuse it.
    pub fn add_load_balancer(&self, body: &Value) -> String {
        let mut model = self.model();
        let wanted = body.as_object().expect("an object");
        let id = model
            .add_balancer(Model::home(), wanted)
            .expect("a load balancer that Octavia takes");
        for listener in body["listeners"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
        {
            crate::listeners::add(&mut model, Model::home(), &id, listener)
                .expect("a listener that Octavia takes");
        }
        model.settle_at_once(&id);
        id
    }

    /// Returns all load balancers, each with all its resources, as the response to a `POST` of a whole load balancer
    /// shows them.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<Value> {
        let mut model = self.model();
        model.finish_work();
        model
            .all(Kind::Balancer)
            .map(|object| whole(&model, object))
            .collect()
    }

    /// Returns a load balancer with all that is in it, by name or id.
    #[must_use]
    pub fn load_balancer(&self, name: &str) -> Option<Value> {
        self.load_balancers()
            .into_iter()
            .find(|load_balancer| load_balancer["name"] == name || load_balancer["id"] == name)
    }

    /// Changes a load balancer, by name or ID, as an operator does in the console: at once, and unchecked. Returns
    /// `false` if it does not exist.
    pub fn change_load_balancer(
        &self,
        name: &str,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> bool {
        self.change(Kind::Balancer, name, change)
    }

    /// Changes a listener, by name or ID, at once and unchecked. Returns `false` if it does not exist.
    pub fn change_listener(
        &self,
        name: &str,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> bool {
        self.change(Kind::Listener, name, change)
    }

    /// Changes a pool, by name or ID, at once and unchecked. Returns `false` if it does not exist.
    pub fn change_pool(&self, name: &str, change: impl FnOnce(&mut Map<String, Value>)) -> bool {
        self.change(Kind::Pool, name, change)
    }

    /// Changes a health monitor, by name or ID, at once and unchecked. Returns `false` if it does not exist.
    pub fn change_monitor(&self, name: &str, change: impl FnOnce(&mut Map<String, Value>)) -> bool {
        self.change(Kind::Monitor, name, change)
    }

    /// Changes the members of a pool, by name or ID of the pool, at once and unchecked. Returns `false` if the pool
    /// does not exist.
    pub fn change_members(
        &self,
        pool: &str,
        change: impl FnOnce(&mut Vec<Map<String, Value>>),
    ) -> bool {
        let mut model = self.model();
        let id = model
            .all(Kind::Pool)
            .find(|object| text(object, "name") == pool || text(object, "id") == pool);
        let id = id.map(|id| text(id, "id").to_owned());
        id.and_then(|id| model.members.get_mut(&id))
            .map(change)
            .is_some()
    }

    fn change(&self, kind: Kind, name: &str, change: impl FnOnce(&mut Object)) -> bool {
        let mut model = self.model();
        let found = model
            .all_mut(kind)
            .find(|object| text(object, "name") == name || text(object, "id") == name);
        found.map(change).is_some()
    }

    /// Adds a listener to a load balancer, by its ID, from the body of a `POST`; `ACTIVE` at once. Returns its ID.
    ///
    /// # Panics
    /// If Octavia would refuse it.
    pub fn add_listener(&self, balancer: &str, body: &Value) -> String {
        let mut model = self.model();
        let wanted = body.as_object().expect("an object");
        let id = crate::listeners::add(&mut model, Model::home(), balancer, wanted)
            .expect("a listener that Octavia takes");
        model.settle_at_once(balancer);
        id
    }

    /// Removes a listener, by name or id, with its pool.
    pub fn remove_listener(&self, name: &str) -> bool {
        let mut model = self.model();
        let found = model
            .all(Kind::Listener)
            .find(|object| text(object, "name") == name || text(object, "id") == name)
            .cloned();
        let Some(listener) = found else { return false };
        model.drop_part(Kind::Listener, text(&listener, "id"));
        model.drop_part(Kind::Pool, text(&listener, "default_pool_id"));
        true
    }

    /// Removes a pool, by name or id.
    pub fn remove_pool(&self, name: &str) -> bool {
        let mut model = self.model();
        let found = model
            .all(Kind::Pool)
            .find(|object| text(object, "name") == name || text(object, "id") == name);
        let id = found.map(|object| text(object, "id").to_owned());
        id.map(|id| model.drop_part(Kind::Pool, &id)).is_some()
    }

    /// Removes a load balancer, by name or id, at once, with its VIP port.
    pub fn remove_load_balancer(&self, name: &str) -> bool {
        let mut model = self.model();
        let found = model
            .all(Kind::Balancer)
            .find(|object| text(object, "name") == name || text(object, "id") == name);
        let id = found.map(|object| text(object, "id").to_owned());
        id.map(|id| model.drop_balancer(&id)).is_some()
    }

    /// Sets the provisioning status of a load balancer, by name or id: `ERROR`, or `PENDING_UPDATE` for ever.
    pub fn set_provisioning_status(&self, name: &str, status: &str) -> bool {
        self.change_load_balancer(name, |load_balancer| set_state(load_balancer, status))
    }

    /// Stops Octavia's worker, so that every `PENDING_…` state stays; or continues it.
    pub fn freeze_octavia(&self, is_frozen: bool) {
        self.model().work.is_frozen = is_frozen;
    }
}

impl Model {
    /// Completes the pending operation of a load balancer at once.
    fn settle_at_once(&mut self, balancer: &str) {
        let time = std::mem::take(&mut self.options.update_time);
        self.begin(balancer, "PENDING_UPDATE", &Effects::default());
        self.options.update_time = time;
    }
}

/// Floating IPs, security groups, secrets.
impl Fake {
    /// Adds a floating IP of an external network, on a port or on none; its id.
    ///
    /// # Panics
    /// If the network has no subnet, or no address left.
    pub fn add_floating_ip(
        &self,
        network: &crate::Network,
        description: &str,
        port: Option<&str>,
    ) -> String {
        let mut model = self.model();
        let address = model
            .free_address(&network.subnet)
            .expect("a subnet with a free address");
        let mut floating = model.new_floating_ip(Model::home(), &network.id, &address, description);
        let id = text(&floating, "id").to_owned();
        if let Some(port) = port {
            let port = model
                .get(Kind::Port, port)
                .cloned()
                .expect("a port of that id");
            let fixed = crate::model::list(&port, "fixed_ips")
                .first()
                .map(|fixed_ips| fixed_ips["ip_address"].clone());
            set(&mut floating, "port_id", text(&port, "id"));
            set(&mut floating, "fixed_ip_address", fixed.unwrap_or_default());
            set(&mut floating, "status", "ACTIVE");
        }
        model.insert(Kind::FloatingIp, floating);
        id
    }

    /// Returns all floating IPs as the API shows them.
    #[must_use]
    pub fn floating_ips(&self) -> Vec<Value> {
        self.model()
            .all(Kind::FloatingIp)
            .cloned()
            .map(Value::Object)
            .collect()
    }

    /// Changes a floating IP, by id; at once, and unchecked.
    pub fn change_floating_ip(
        &self,
        id: &str,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> bool {
        self.model()
            .get_mut(Kind::FloatingIp, id)
            .map(change)
            .is_some()
    }

    /// Adds a security group with its two default rules; its id.
    pub fn add_security_group(&self, name: &str) -> String {
        let group = self.model().add_security_group(Model::home(), name, "");
        text(&group, "id").to_owned()
    }

    /// Adds a security group with only these rules, from the bodies of a `POST` without `security_group_id`; its id.
    pub fn add_security_group_of(&self, name: &str, rules: &[Value]) -> String {
        let mut model = self.model();
        let group = model.add_security_group(Model::home(), name, "");
        let id = text(&group, "id").to_owned();
        model.remove_rules(&id);
        for rule in rules {
            let mut rule = rule.as_object().cloned().unwrap_or_default();
            set(&mut rule, "security_group_id", id.clone());
            model.add_rule(Model::home(), &rule);
        }
        id
    }

    /// Returns all security groups with their rules.
    #[must_use]
    pub fn security_groups(&self) -> Vec<Value> {
        let model = self.model();
        let rules = |group: &Object| {
            let rules = model
                .all(Kind::Rule)
                .filter(|object| text(object, "security_group_id") == text(group, "id"));
            rules.cloned().map(Value::Object).collect::<Vec<_>>()
        };
        let shown = |group: &Object| {
            let mut shown = group.clone();
            set(&mut shown, "security_group_rules", rules(group));
            Value::Object(shown)
        };
        model.all(Kind::SecurityGroup).map(shown).collect()
    }

    /// Gives an object of Neutron (network, subnet, port, router) tags.
    pub fn set_tags(&self, id: &str, tags: &[&str]) -> bool {
        let tags: Vec<Value> = tags.iter().map(|tag| (*tag).into()).collect();
        let mut model = self.model();
        let kinds = [
            Kind::Network,
            Kind::Subnet,
            Kind::Port,
            Kind::Router,
            Kind::FloatingIp,
            Kind::SecurityGroup,
        ];
        let kind = kinds
            .into_iter()
            .find(|kind| model.get(*kind, id).is_some());
        let found = kind.and_then(|kind| model.get_mut(kind, id));
        found
            .map(|object| set(object, "tags", sorted_tags(&tags)))
            .is_some()
    }

    /// Adds a container to Barbican; its reference, as annotations name it.
    pub fn add_container(&self) -> String {
        let mut model = self.model();
        let id = model.new_id();
        let reference = format!("{}/key-manager/v1/containers/{id}", model.options.endpoint);
        let container = json!({"id": id, "project_id": Model::home(), "container_ref": reference, "status": "ACTIVE"});
        model.insert(
            Kind::Container,
            container.as_object().cloned().unwrap_or_default(),
        );
        reference
    }

    /// Adds a secret to Barbican; its reference, as annotations name it.
    pub fn add_secret(&self) -> String {
        let mut model = self.model();
        let id = model.new_id();
        let reference = format!("{}/key-manager/v1/secrets/{id}", model.options.endpoint);
        let secret = json!({"id": id, "project_id": Model::home(), "secret_ref": reference, "status": "ACTIVE"});
        model.insert(
            Kind::Secret,
            secret.as_object().cloned().unwrap_or_default(),
        );
        reference
    }
}

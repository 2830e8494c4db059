//! Controls for tests: set-up of objects, changes as by an operator, and queries of the state.

use serde_json::{Value, json};

use crate::model::{Model, Owned};
use crate::{ACCOUNT, Droplet, Fake, Options};

/// Controls of droplets in tests.
impl Fake {
    /// Adds an active droplet.
    pub fn add_droplet(&self, name: &str) -> Droplet {
        self.model().add_droplet(ACCOUNT, name)
    }

    /// Adds a droplet of another account.
    pub fn add_droplet_to(&self, account: &str, name: &str) -> Droplet {
        self.model().add_droplet(account, name)
    }

    /// Changes the first droplet of this name.
    pub fn change_droplet(&self, name: &str, change: impl FnOnce(&mut Droplet)) -> Option<Droplet> {
        let mut model = self.model();
        let droplet = model
            .droplets
            .values_mut()
            .map(|droplet| &mut droplet.object)
            .find(|droplet| droplet.name == name)?;
        change(droplet);
        Some(droplet.clone())
    }

    /// Deletes the first droplet of this name.
    pub fn delete_droplet(&self, name: &str) -> Option<Droplet> {
        let id = self.droplet(name)?.id;
        self.model().remove_droplet(id)
    }

    /// Returns all droplets, sorted by ID.
    #[must_use]
    pub fn droplets(&self) -> Vec<Droplet> {
        self.model()
            .droplets
            .values()
            .map(|droplet| droplet.object.clone())
            .collect()
    }

    /// Returns the first droplet of this name.
    #[must_use]
    pub fn droplet(&self, name: &str) -> Option<Droplet> {
        self.droplets()
            .into_iter()
            .find(|droplet| droplet.name == name)
    }
}

/// Load balancers, certificates, firewalls and tags: as the API shows them.
impl Fake {
    /// Adds an active load balancer with one rule, as an operator does in the console.
    ///
    /// # Panics
    /// If the name is not valid.
    pub fn add_load_balancer(&self, name: &str) -> Value {
        let mut model = self.model();
        let rule = json!({"entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 30080});
        let body = json!({"name": name, "forwarding_rules": [rule]});
        let settings = model
            .settings(ACCOUNT, &body, None)
            .expect("a valid load balancer");
        let id = model.insert_load_balancer(ACCOUNT, settings, &[]);
        model.activate(&id);
        model.load_balancers[&id].object.clone()
    }

    /// Changes the first load balancer of this name at once, and unchecked.
    pub fn change_load_balancer(
        &self,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        let mut model = self.model();
        let found = model
            .load_balancers
            .values_mut()
            .map(|object| &mut object.object)
            .find(|object| object["name"] == name)?;
        change(found);
        Some(found.clone())
    }

    /// Copies every load balancer, with its tags, as an operator does: the copies have other names, IDs and addresses.
    pub fn copy_load_balancers(&self) {
        let mut model = self.model();
        for mut settings in objects(model.load_balancers.values()) {
            settings["name"] =
                format!("twin-of-{}", settings["name"].as_str().unwrap_or_default()).into();
            let tags = settings["tags"].as_array().into_iter().flatten();
            let tags: Vec<String> = tags
                .filter_map(|tag| tag.as_str().map(str::to_owned))
                .collect();
            settings["ipv6"] = json!("");
            let id = model.insert_load_balancer(ACCOUNT, settings, &tags);
            model.activate(&id);
        }
    }

    /// Deletes all load balancers of this name.
    pub fn delete_load_balancer(&self, name: &str) {
        self.model()
            .load_balancers
            .retain(|_, object| object.object["name"] != name);
    }

    /// Returns all load balancers as the API shows them.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<Value> {
        objects(self.model().load_balancers.values())
    }

    /// Returns the first load balancer of this name.
    #[must_use]
    pub fn load_balancer(&self, name: &str) -> Option<Value> {
        self.load_balancers()
            .into_iter()
            .find(|load_balancer| load_balancer["name"] == name)
    }

    /// Adds a certificate (`custom` or `lets_encrypt`) and returns its id.
    pub fn add_certificate(&self, name: &str, kind: &str) -> String {
        self.model().add_certificate(ACCOUNT, name, kind)
    }

    /// Renews a certificate as the cloud does: it gets a new id, also on load balancers, and the old id no longer exists.
    pub fn renew_certificate(&self, id: &str) -> String {
        let mut model = self.model();
        let old = model
            .certificates
            .remove(id)
            .map(|object| object.object)
            .unwrap_or_default();
        let name = old["name"].as_str().unwrap_or_default();
        let kind = old["type"].as_str().unwrap_or_default();
        let new = model.add_certificate(ACCOUNT, name, kind);
        for owned in model.load_balancers.values_mut() {
            for rule in owned.object["forwarding_rules"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                if rule["certificate_id"] == id {
                    rule["certificate_id"] = new.as_str().into();
                }
            }
        }
        new
    }

    /// Returns all firewalls as the API shows them.
    #[must_use]
    pub fn firewalls(&self) -> Vec<Value> {
        objects(self.model().firewalls.values())
    }

    /// Changes all firewalls at once, and unchecked.
    pub fn change_firewalls(&self, change: impl FnMut(&mut Value)) {
        self.model()
            .firewalls
            .values_mut()
            .map(|object| &mut object.object)
            .for_each(change);
    }

    /// Returns all load balancers and firewalls as the API shows them.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let model = self.model();
        objects(
            model
                .load_balancers
                .values()
                .chain(model.firewalls.values()),
        )
    }
}

/// Controls of tokens, limits and behaviour.
impl Fake {
    /// Makes `token` valid for `account`: another account has other objects. A new one has none.
    pub fn set_token(&self, token: &str, account: &str) {
        self.model()
            .tokens
            .insert(token.to_owned(), account.to_owned());
    }

    /// Revokes `token`, so that requests fail with 401.
    pub fn revoke_token(&self, token: &str) {
        self.model().tokens.remove(token);
    }

    /// Makes `token` valid for reading only.
    pub fn set_read_only(&self, token: &str) {
        self.model().read_only.insert(token.to_owned());
    }

    /// Sets how many requests are left in this hour.
    pub fn set_remaining(&self, remaining: u32) {
        self.model().set_level(remaining);
    }

    /// Changes how the API behaves.
    pub fn set_options(&self, change: impl FnOnce(&mut Options)) {
        let model: &mut Model = &mut self.model();
        change(&mut model.options);
    }
}

fn objects<'a>(all: impl Iterator<Item = &'a Owned>) -> Vec<Value> {
    all.map(|a_owned| a_owned.object.clone()).collect()
}

//! Octavia: its versions, the operations of its worker, and the requests that it admits during them.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_cloud::{Effects, Reply};
use serde_json::{Value, json};

use crate::attributes::Attribute;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, LONGEST, too_long};

/// The kinds of objects that are part of a load balancer.
const PARTS: [Kind; 3] = [Kind::Listener, Kind::Pool, Kind::Monitor];

/// Sets the state of an object.
pub(crate) fn set_state(object: &mut Object, state: &str) {
    set(object, "provisioning_status", state);
}

/// Returns `true` if an object belongs to this load balancer.
pub(crate) fn is_of(object: &Object, balancer: &str) -> bool {
    items(object, "loadbalancers")
        .iter()
        .any(|loadbalancer| loadbalancer["id"] == balancer)
}

/// Deletes a listener or pool, during which its load balancer is busy.
pub(crate) fn delete_part(model: &mut Model, request: &ApiRequest, kind: Kind) -> Answer {
    let balancer = balancer_of(model.one(kind, &request.project, request.id())?);
    model.may_change(&balancer, &request.project)?;
    set_state(
        model.owned(kind, &request.project, request.id())?,
        "PENDING_DELETE",
    );
    model.begin(&balancer, "PENDING_UPDATE", &request.effects);
    Ok(Reply::empty(204))
}

/// Returns the load balancer of a part.
pub(crate) fn balancer_of(object: &Object) -> String {
    items(object, "loadbalancers")
        .first()
        .and_then(|loadbalancer| loadbalancer["id"].as_str())
        .unwrap_or_default()
        .to_owned()
}

/// Sets the state in which the worker leaves an object; returns `false` if the object is deleted.
fn settled(object: &mut Object, fails: bool, updated: &str) -> bool {
    let state = text(object, "provisioning_status").to_owned();
    match (state.strip_prefix("PENDING_"), fails) {
        (None, _) => {}
        (Some("DELETE"), false) => return false,
        (Some(_), true) => set_state(object, "ERROR"),
        (Some(_), false) => {
            set_state(object, "ACTIVE");
            set(object, "operating_status", "ONLINE");
            set(object, "updated_at", updated);
        }
    }
    true
}

impl Model {
    /// Starts an operation of the worker, during which the load balancer is in this state.
    pub(crate) fn begin(&mut self, balancer: &str, state: &str, effects: &Effects) {
        let time = match state {
            "PENDING_CREATE" => self.options.create_time,
            "PENDING_DELETE" => self.options.delete_time,
            _ => self.options.update_time,
        };
        let updated = self.clock.local();
        if let Some(balancer) = self.get_mut(Kind::Balancer, balancer) {
            set_state(balancer, state);
            if state != "PENDING_CREATE" {
                set(balancer, "updated_at", updated);
            }
        }
        self.work.begin(balancer, time, effects);
        if time == Duration::ZERO {
            self.finish_work();
        }
    }

    /// Completes the operations that are due.
    pub(crate) fn finish_work(&mut self) {
        for (balancer, work) in self.work.finished() {
            self.finish(&balancer, work.error.is_some());
        }
    }

    fn finish(&mut self, id: &str, fails: bool) {
        let updated = self.clock.local();
        let Some(balancer) = self.get_mut(Kind::Balancer, id) else {
            return;
        };
        if !settled(balancer, fails, &updated) {
            self.drop_balancer(id);
            return;
        }
        for kind in PARTS {
            let mut gone = Vec::new();
            for part in self.all_mut(kind).filter(|object| is_of(object, id)) {
                if !settled(part, fails, &updated) {
                    gone.push(text(part, "id").to_owned());
                }
            }
            gone.iter().for_each(|part| self.drop_part(kind, part));
        }
        let pools: Vec<String> = self
            .parts(Kind::Pool, id)
            .map(|part| text(part, "id").to_owned())
            .collect();
        for pool in pools {
            self.members
                .entry(pool)
                .or_default()
                .retain_mut(|member| settled(member, fails, &updated));
        }
    }

    /// Returns the listeners, pools or monitors of a load balancer.
    pub(crate) fn parts(&self, kind: Kind, balancer: &str) -> impl Iterator<Item = &Object> {
        self.all(kind).filter(move |object| is_of(object, balancer))
    }

    /// Removes an object of a load balancer, with its dependents.
    pub(crate) fn drop_part(&mut self, kind: Kind, id: &str) {
        self.remove(kind, id);
        if kind != Kind::Pool {
            return;
        }
        self.members.remove(id);
        let monitors = self
            .all(Kind::Monitor)
            .filter(|object| items(object, "pools").iter().any(|pool| pool["id"] == id));
        let monitors: BTreeSet<String> = monitors
            .map(|monitors| text(monitors, "id").to_owned())
            .collect();
        monitors
            .iter()
            .for_each(|monitor| _ = self.remove(Kind::Monitor, monitor));
        for listener in self
            .all_mut(Kind::Listener)
            .filter(|object| text(object, "default_pool_id") == id)
        {
            set(listener, "default_pool_id", Value::Null);
        }
    }

    /// Removes a load balancer, with all its objects and the port that Octavia created for it.
    pub(crate) fn drop_balancer(&mut self, id: &str) {
        self.work.forget(id);
        for kind in PARTS {
            let parts: Vec<String> = self
                .parts(kind, id)
                .map(|part| text(part, "id").to_owned())
                .collect();
            parts.iter().for_each(|part| self.drop_part(kind, part));
        }
        let Some(balancer) = self.remove(Kind::Balancer, id) else {
            return;
        };
        let port = text(&balancer, "vip_port_id");
        if self
            .get(Kind::Port, port)
            .is_some_and(|port| text(port, "device_owner") == "Octavia")
        {
            self.remove_port(port);
        }
    }

    /// Checks that resources of this load balancer may be changed now.
    pub(crate) fn may_change(&self, balancer: &str, project: &str) -> Result<(), Refusal> {
        let found = self.one(Kind::Balancer, project, balancer)?;
        match text(found, "provisioning_status") {
            "ACTIVE" => Ok(()),
            _ => Err(Refusal::conflict(format!(
                "Load Balancer {balancer} is immutable and cannot be updated."
            ))),
        }
    }

    /// Checks that members or the monitor of this pool may be changed now.
    pub(crate) fn may_change_pool(
        &self,
        balancer: &str,
        pool: &str,
        project: &str,
    ) -> Result<(), Refusal> {
        let state = self
            .get(Kind::Pool, pool)
            .map_or("", |pool| text(pool, "provisioning_status"));
        match state.starts_with("PENDING_") {
            true => Err(Refusal::conflict(format!(
                "Pool {pool} is immutable and cannot be updated."
            ))),
            false => self.may_change(balancer, project),
        }
    }

    /// Returns `true` if the load balancer's provider is OVN, which supports fewer features.
    pub(crate) fn is_ovn(&self, balancer: &str) -> bool {
        self.get(Kind::Balancer, balancer)
            .is_some_and(|balancer| text(balancer, "provider") == "ovn")
    }

    /// Checks that a request names only attributes that this version knows and permits to change.
    pub(crate) fn check_attributes(
        &self,
        object: &Object,
        what: &str,
        known: &[Attribute],
        is_change: bool,
    ) -> Result<(), Refusal> {
        let may = |key: &str| {
            let found = known.iter().find(|(name, ..)| *name == key);
            found.is_some_and(|(_, since, may_change)| {
                *since <= self.options.octavia && (*may_change || !is_change)
            })
        };
        if let Some(key) = object.keys().find(|key| !may(key)) {
            return Err(Refusal::invalid(format!(
                "Unknown attribute for argument {what}: {key}"
            )));
        }
        too_long(object).map_or(Ok(()), |key| {
            Err(Refusal::invalid(format!(
                "Invalid input for field/attribute {key}. Value: '{}'. Value should have a maximum character requirement of {LONGEST}",
                text(object, key)
            )))
        })
    }
}

/// Returns the error for a feature that OVN load balancers lack.
pub(crate) fn unsupported(what: &str) -> Refusal {
    Refusal::new(
        501,
        "",
        format!(
            "Provider 'ovn' does not support a requested option: OVN provider does not support {what}"
        ),
    )
}

/// Returns tags sorted, each once.
pub(crate) fn sorted_tags(tags: &[Value]) -> Value {
    let tags: BTreeSet<&str> = tags.iter().filter_map(Value::as_str).collect();
    json!(tags)
}

/// Merges the fields of a change.
pub(crate) fn merge(object: &mut Object, change: &Object, updated: &str) {
    for (key, value) in change {
        let value = if key == "tags" {
            sorted_tags(items(change, "tags"))
        } else {
            value.clone()
        };
        object.insert(key.clone(), value);
    }
    set(object, "updated_at", updated);
}

pub(crate) fn providers(model: &mut Model, _: &ApiRequest) -> Answer {
    let providers = model
        .options
        .providers
        .iter()
        .map(|name| json!({"name": name, "description": ""}));
    Ok(Reply::new(
        200,
        json!({"providers": providers.collect::<Vec<_>>()}),
    ))
}

pub(crate) fn versions(model: &mut Model, _: &ApiRequest) -> Answer {
    let last = model.options.octavia;
    let href = format!("{}/load-balancer/v2", model.options.endpoint);
    let versions = (0..=last).map(|minor| {
        let status = if minor == last {
            "CURRENT"
        } else {
            "SUPPORTED"
        };
        json!({"id": format!("v2.{minor}"), "status": status, "updated": "2016-12-11T00:00:00Z",
            "links": [{"href": href, "rel": "self"}]})
    });
    Ok(Reply::new(
        200,
        json!({"versions": versions.collect::<Vec<_>>()}),
    ))
}

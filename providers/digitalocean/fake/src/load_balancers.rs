//! Load balancers: created, read, changed, deleted.

use std::net::{Ipv4Addr, Ipv6Addr};

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::RESIZE_INTERVAL;
use crate::model::{Answer, ApiRequest, CREATED, Model, Owned, invalid, named, of, ok, page, uuid};
use crate::settings::tags_of;

impl Model {
    /// Adds a load balancer with this id, `settings` and tags, in the status `new`.
    pub(crate) fn insert_load_balancer(
        &mut self,
        account: &str,
        mut settings: Value,
        tags: &[String],
    ) -> String {
        let id = uuid(2, self.next_number());
        for (key, value) in [
            ("id", json!(id)),
            ("status", json!("new")),
            ("ip", json!("")),
            ("created_at", json!(CREATED)),
            ("tags", json!(tags)),
        ] {
            settings[key] = value;
        }
        self.tags
            .extend(tags.iter().map(|tag| (account.to_owned(), tag.clone())));
        self.load_balancers.insert(
            id.clone(),
            Owned {
                account: account.to_owned(),
                object: settings,
            },
        );
        id
    }

    /// Gives a load balancer its addresses.
    pub(crate) fn activate(&mut self, id: &str) {
        let Some(owned) = self.load_balancers.get_mut(id) else {
            return;
        };
        let number = u16::from_str_radix(&id[id.len() - 4..], 16).unwrap_or_default();
        let ([high, low], object) = (number.to_be_bytes(), &mut owned.object);
        object["status"] = "active".into();
        let ip = if object["network"] == "INTERNAL" {
            [10, 110, 200 + high, low]
        } else {
            [203, 0, high, low]
        };
        if object["ip"] == "" {
            object["ip"] = Ipv4Addr::from(ip).to_string().into();
        }
        if object["network_stack"] == "DUALSTACK" {
            object["ipv6"] = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, number)
                .to_string()
                .into();
        }
    }

    /// Completes the background operations that are due.
    pub(crate) fn finish_operations(&mut self) {
        for (id, operation) in self.running.finished() {
            self.busy.remove(&id);
            match (operation.error, self.load_balancers.get_mut(&id)) {
                (Some(_), Some(owned)) => owned.object["status"] = "errored".into(),
                (None, Some(owned)) if owned.object["status"] == "new" => self.activate(&id),
                _ => {}
            }
        }
    }

    /// Returns the load balancer in a path, for a change. A load balancer with a background operation refuses changes.
    fn changeable(&self, request: &ApiRequest) -> Result<&Value, Refused> {
        let found = named(&self.load_balancers, request)?;
        if self.busy.contains(request.id()) {
            return Err(invalid(
                "Load Balancer can't be updated while it processes previous actions",
            ));
        }
        Ok(found)
    }

    /// Begins work in the background that refuses further changes.
    fn begin(&mut self, id: &str, request: &ApiRequest, time: std::time::Duration) {
        if !time.is_zero() || request.effects.error().is_some() {
            self.busy.insert(id.to_owned());
        }
        self.running.begin(id, time, &request.effects);
        self.finish_operations();
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    let among = |parameter: &str, value: &Value| {
        let mut wanted = request
            .all(parameter)
            .flat_map(|text| text.split(','))
            .peekable();
        wanted.peek().is_none() || wanted.any(|text| value == text)
    };
    let is_selected =
        |object: &&Value| among("names", &object["name"]) && among("uuids", &object["id"]);
    page(
        request,
        "load_balancers",
        of(&model.load_balancers, request).filter(is_selected),
        Value::clone,
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(json!({"load_balancer": named(&model.load_balancers, request)?}))
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let mut settings = model.settings(&request.project, &request.body, None)?;
    let tags = tags_of(&request.body)?;
    if request.body["validate_only"] == true {
        return Ok(Reply::new(202, json!({"load_balancer": settings})));
    }
    let ip = request.body["ip"].clone();
    settings["project_id"] = uuid(5, 1).into();
    let id = model.insert_load_balancer(&request.project, settings, &tags);
    model.resized.insert(id.clone(), Instant::now());
    if let (Some(ip), Some(owned)) = (ip.as_str(), model.load_balancers.get_mut(&id)) {
        owned.object["ip"] = ip.into();
    }
    model.begin(&id, request, model.options.creation_time);
    Ok(Reply::new(
        202,
        json!({"load_balancer": model.load_balancers[&id].object}),
    ))
}

/// Replaces the whole state: settings that the body lacks get the defaults of a new load balancer. Tags stay: only a
/// creation and the tags' own requests change them.
pub(crate) fn update(model: &mut Model, request: &ApiRequest) -> Answer {
    let before = model.changeable(request)?.clone();
    let mut after = model.settings(&request.project, &request.body, Some(&before))?;
    let is_resized = before["size_unit"] != after["size_unit"];
    let is_recent = |at: &Instant| at.elapsed() < RESIZE_INTERVAL;
    if is_resized && model.resized.get(request.id()).is_some_and(is_recent) {
        return Err(invalid("load balancer can only be resized once every hour"));
    }
    if is_resized {
        model
            .resized
            .insert(request.id().to_owned(), Instant::now());
    }
    if request.body["validate_only"] != true {
        for key in [
            "id",
            "status",
            "ip",
            "ipv6",
            "created_at",
            "tags",
            "project_id",
        ] {
            before
                .get(key)
                .into_iter()
                .for_each(|value| after[key] = value.clone());
        }
        let owned = Owned {
            account: request.project.clone(),
            object: after.clone(),
        };
        model.load_balancers.insert(request.id().to_owned(), owned);
        model.begin(request.id(), request, model.options.change_time);
    }
    ok(json!({"load_balancer": after}))
}

pub(crate) fn remove_droplets(model: &mut Model, request: &ApiRequest) -> Answer {
    let mut after = model.changeable(request)?.clone();
    let gone = request.body["droplet_ids"]
        .as_array()
        .ok_or_else(|| invalid("droplet_ids are missing"))?;
    after["droplet_ids"]
        .as_array_mut()
        .into_iter()
        .for_each(|ids| ids.retain(|id| !gone.contains(id)));
    let owned = Owned {
        account: request.project.clone(),
        object: after,
    };
    model.load_balancers.insert(request.id().to_owned(), owned);
    model.begin(request.id(), request, model.options.change_time);
    Ok(Reply::empty(204))
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    named(&model.load_balancers, request)?;
    model.load_balancers.remove(request.id());
    model.running.forget(request.id());
    model.busy.remove(request.id());
    Ok(Reply::empty(204))
}

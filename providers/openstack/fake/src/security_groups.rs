//! Security groups and their rules.

use fake_cloud::Reply;
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::pages;
use crate::ports::check_changes;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, made, object, one};

/// Attributes that identify a rule.
const IDENTITY: [&str; 9] = [
    "security_group_id",
    "ethertype",
    "direction",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "remote_address_group_id",
];

impl Model {
    /// Makes a group with the two rules that all have: everything may leave.
    pub(crate) fn add_security_group(
        &mut self,
        project: &str,
        name: &str,
        description: &str,
    ) -> Object {
        let id = self.new_id();
        let now = self.clock.utc();
        let group = json!({
            "id": id, "name": name, "stateful": true, "tenant_id": project, "project_id": project, "description": description,
            "shared": false, "tags": [], "created_at": now, "updated_at": now, "revision_number": 1,
        });
        let group = group.as_object().cloned().unwrap_or_default();
        self.insert(Kind::SecurityGroup, group.clone());
        for ethertype in ["IPv4", "IPv6"] {
            let wanted =
                json!({"security_group_id": id, "ethertype": ethertype, "direction": "egress"});
            self.add_rule(project, wanted.as_object().unwrap_or(&Object::new()));
        }
        group
    }

    /// Adds a rule, unchecked.
    pub(crate) fn add_rule(&mut self, project: &str, wanted: &Object) {
        let rule = self.new_rule(project, wanted);
        self.insert(Kind::Rule, rule);
    }

    /// Removes all rules of a group.
    pub(crate) fn remove_rules(&mut self, group: &str) {
        if let Some(rules) = self.objects.get_mut(&Kind::Rule) {
            rules.retain(|_, rule| text(rule, "security_group_id") != group);
        }
    }

    fn new_rule(&mut self, project: &str, wanted: &Object) -> Object {
        let now = self.clock.utc();
        let mut rule = Object::new();
        set(&mut rule, "id", self.new_id());
        for key in IDENTITY {
            set(&mut rule, key, wanted.get(key).cloned().unwrap_or_default());
        }
        if rule["ethertype"].is_null() {
            set(&mut rule, "ethertype", "IPv4");
        }
        if let Some(protocol) = rule["protocol"].as_str().map(str::to_lowercase) {
            set(&mut rule, "protocol", protocol);
        }
        let range = text(&rule, "remote_ip_prefix").parse::<IpNet>().ok();
        set(
            &mut rule,
            "normalized_cidr",
            range.map(|network| network.trunc().to_string()),
        );
        set(
            &mut rule,
            "description",
            wanted
                .get("description")
                .cloned()
                .unwrap_or_else(|| "".into()),
        );
        for (key, value) in [
            ("project_id", project),
            ("tenant_id", project),
            ("created_at", &now),
            ("updated_at", &now),
        ] {
            set(&mut rule, key, value);
        }
        set(&mut rule, "belongs_to_default_sg", false);
        set(&mut rule, "revision_number", 0);
        rule
    }
}

fn shown(model: &Model, group: &Object) -> Object {
    let mut shown = group.clone();
    let rules = model
        .all(Kind::Rule)
        .filter(|object| text(object, "security_group_id") == text(group, "id"));
    shown.insert(
        "security_group_rules".to_owned(),
        rules.cloned().map(Value::Object).collect(),
    );
    shown
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(
        model,
        request,
        Kind::SecurityGroup,
        attributes::SECURITY_GROUP,
        shown,
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    let group = model.one(Kind::SecurityGroup, &request.project, request.id())?;
    one(Kind::SecurityGroup, shown(model, group))
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let wanted = object(request, Kind::SecurityGroup)?;
    check_changes(
        wanted,
        &[
            "name",
            "description",
            "project_id",
            "tenant_id",
            "stateful",
            "tags",
        ],
    )?;
    model.has_room(Kind::SecurityGroup, &request.project)?;
    let group = model.add_security_group(
        &request.project,
        text(wanted, "name"),
        text(wanted, "description"),
    );
    made(Kind::SecurityGroup, shown(model, &group))
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    let id = request.id();
    model.owned(Kind::SecurityGroup, &request.project, id)?;
    if model.all(Kind::Port).any(|port| {
        items(port, "security_groups")
            .iter()
            .any(|security_group| security_group == id)
    }) {
        return Err(Refusal::new(
            409,
            "SecurityGroupInUse",
            format!("Security Group {id} in use."),
        ));
    }
    model.remove(Kind::SecurityGroup, id);
    model.remove_rules(id);
    Ok(Reply::empty(204))
}

pub(crate) fn list_rules(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(model, request, Kind::Rule, attributes::RULE, |_, rule| {
        rule.clone()
    })
}

pub(crate) fn get_rule(model: &mut Model, request: &ApiRequest) -> Answer {
    one(
        Kind::Rule,
        model
            .one(Kind::Rule, &request.project, request.id())?
            .clone(),
    )
}

fn checked(model: &mut Model, request: &ApiRequest, wanted: &Object) -> Result<Object, Refusal> {
    let known: Vec<&str> = IDENTITY
        .into_iter()
        .chain(["description", "project_id"])
        .collect();
    check_changes(wanted, &known)?;
    model.one(
        Kind::SecurityGroup,
        &request.project,
        text(wanted, "security_group_id"),
    )?;
    if let Some(prefix) = wanted.get("remote_ip_prefix").and_then(Value::as_str) {
        let range = prefix.parse::<IpNet>();
        let range = range.map_err(|_| {
            Refusal::new(
                400,
                "InvalidCIDR",
                format!("Invalid CIDR {prefix} given as IP prefix."),
            )
        })?;
        let ethertype = wanted
            .get("ethertype")
            .and_then(Value::as_str)
            .unwrap_or("IPv4");
        if (ethertype == "IPv6") != range.addr().is_ipv6() {
            let message = format!("Conflicting value ethertype {ethertype} for CIDR {prefix}");
            return Err(Refusal::new(
                400,
                "SecurityGroupRuleParameterConflict",
                message,
            ));
        }
    }
    model.has_room(Kind::Rule, &request.project)?;
    let rule = model.new_rule(&request.project, wanted);
    match model.all(Kind::Rule).find(|object| {
        IDENTITY
            .into_iter()
            .all(|key| object.get(key) == rule.get(key))
    }) {
        None => Ok(rule),
        Some(there) => {
            let message = format!(
                "Security group rule already exists. Rule id is {}.",
                text(there, "id")
            );
            Err(Refusal::new(409, "SecurityGroupRuleExists", message))
        }
    }
}

/// Creates a rule, or several rules atomically.
pub(crate) fn create_rules(model: &mut Model, request: &ApiRequest) -> Answer {
    let (one, many) = Kind::Rule.words();
    let Some(wanted) = request.body.get(many).and_then(Value::as_array) else {
        let rule = checked(model, request, object(request, Kind::Rule)?)?;
        model.insert(Kind::Rule, rule.clone());
        return Ok(Reply::new(201, json!({one: rule})));
    };
    let wanted = wanted.iter().filter_map(Value::as_object);
    let rules = wanted
        .map(|wanted| checked(model, request, wanted))
        .collect::<Result<Vec<_>, _>>()?;
    rules
        .iter()
        .for_each(|rule| model.insert(Kind::Rule, rule.clone()));
    Ok(Reply::new(201, json!({many: rules})))
}

pub(crate) fn delete_rule(model: &mut Model, request: &ApiRequest) -> Answer {
    model.owned(Kind::Rule, &request.project, request.id())?;
    model.remove(Kind::Rule, request.id());
    Ok(Reply::empty(204))
}

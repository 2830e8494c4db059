//! Validation of load balancer requests: known keys, accepted values, defaults.

use std::collections::BTreeSet;

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::catalog::{is_region, region};
use crate::model::{Model, invalid};
use crate::tags;
use crate::{REGION, VPC};

/// Settings that a load balancer has from its creation on.
const FIXED: [&str; 6] = [
    "region",
    "type",
    "network",
    "network_stack",
    "vpc_uuid",
    "subnet_uuid",
];
/// Keys of a request that are not settings, or that apply only at creation.
const OTHER: [&str; 5] = ["validate_only", "ip", "tags", "tag", "project_id"];
/// Ports that network load balancers keep for themselves.
const RESERVED: std::ops::RangeInclusive<u64> = 50053..=50055;

fn defaults() -> Value {
    json!({
        "name": "", "region": REGION, "type": "REGIONAL", "network": "EXTERNAL", "network_stack": "IPV4", "vpc_uuid": VPC,
        "algorithm": "round_robin", "forwarding_rules": [], "droplet_ids": [],
        "health_check": {"protocol": "http", "port": 80, "path": "/", "check_interval_seconds": 10,
            "response_timeout_seconds": 5, "unhealthy_threshold": 5, "healthy_threshold": 3},
        "sticky_sessions": {"type": "none"}, "redirect_http_to_https": false, "enable_proxy_protocol": false,
        "enable_backend_keepalive": false, "disable_lets_encrypt_dns_records": false, "http_idle_timeout_seconds": 60,
        "firewall": {"allow": [], "deny": []},
    })
}

fn one_of(value: &Value, key: &str, accepted: &[&str]) -> Result<(), Refused> {
    if value.is_null() || accepted.iter().any(|text| value == text) {
        return Ok(());
    }
    Err(invalid(format!("{key} is invalid: {value}")))
}

fn within(value: &Value, key: &str, from: i64, to: i64) -> Result<(), Refused> {
    if value.is_null()
        || value
            .as_i64()
            .is_some_and(|number| (from..=to).contains(&number))
    {
        return Ok(());
    }
    Err(invalid(format!("{key} must be between {from} and {to}")))
}

impl Model {
    /// Returns the settings of a load balancer after a request with this body; `before`: the load balancer, if it exists.
    pub(crate) fn settings(
        &self,
        account: &str,
        body: &Value,
        before: Option<&Value>,
    ) -> Result<Value, Refused> {
        let body = body
            .as_object()
            .ok_or_else(|| invalid("the body is no object"))?;
        let mut settings = defaults();
        for key in FIXED {
            if let Some(value) = before.and_then(|object| object.get(key)) {
                settings[key] = if key == "region" {
                    value["slug"].clone()
                } else {
                    value.clone()
                };
            }
        }
        for (key, value) in body
            .iter()
            .filter(|(key, value)| !OTHER.contains(&key.as_str()) && !value.is_null())
        {
            let is_known = defaults().get(key).is_some()
                || ["size", "size_unit", "subnet_uuid", "tls_cipher_policy"]
                    .contains(&key.as_str());
            if !is_known {
                return Err(invalid(format!("{key} is unknown")));
            }
            if before.is_some() && FIXED.contains(&key.as_str()) && settings[key] != *value {
                return Err(invalid(format!("{key} cannot be changed")));
            }
            match (settings.get_mut(key), value) {
                (Some(Value::Object(into)), Value::Object(from)) => into.extend(from.clone()),
                _ => settings[key] = value.clone(),
            }
        }
        if settings.get("size").is_none() && settings.get("size_unit").is_none() {
            settings["size_unit"] = 1.into();
        }
        self.check(account, &settings)?;
        // Each size equates to a number of nodes.
        if let Some(size) = settings["size"].as_str() {
            let nodes = [("lb-medium", 3), ("lb-large", 6)]
                .into_iter()
                .find(|(name, _)| *name == size);
            settings["size_unit"] = nodes.map_or(1, |(_, nodes)| nodes).into();
        }
        settings["region"] = region(settings["region"].as_str().unwrap_or_default());
        Ok(settings)
    }

    fn check(&self, account: &str, settings: &Value) -> Result<(), Refused> {
        let name = settings["name"].as_str().unwrap_or_default();
        let is_end = |character: Option<char>| {
            character.is_some_and(|character| character.is_ascii_alphanumeric())
        };
        let is_inner =
            |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
        if !is_end(name.chars().next())
            || !is_end(name.chars().last())
            || name.len() > 255
            || !name.chars().all(is_inner)
        {
            return Err(invalid("name is invalid"));
        }
        if !settings["region"].as_str().is_some_and(is_region) {
            return Err(invalid("region is invalid"));
        }
        one_of(&settings["type"], "type", &["REGIONAL", "REGIONAL_NETWORK"])?;
        one_of(&settings["network"], "network", &["EXTERNAL", "INTERNAL"])?;
        one_of(
            &settings["network_stack"],
            "network_stack",
            &["IPV4", "DUALSTACK"],
        )?;
        one_of(
            &settings["size"],
            "size",
            &["lb-small", "lb-medium", "lb-large"],
        )?;
        within(&settings["size_unit"], "size_unit", 1, 200)?;
        within(
            &settings["http_idle_timeout_seconds"],
            "http_idle_timeout_seconds",
            30,
            600,
        )?;
        if !settings["size"].is_null() && !settings["size_unit"].is_null() {
            return Err(invalid("size and size_unit exclude each other"));
        }
        if settings["network"] == "INTERNAL" && settings["network_stack"] == "DUALSTACK" {
            return Err(invalid("internal load balancers have no IPv6"));
        }
        let check = &settings["health_check"];
        one_of(
            &check["protocol"],
            "health_check.protocol",
            &["http", "https", "tcp"],
        )?;
        within(&check["port"], "health_check.port", 1, 65535)?;
        for (key, from, to) in [
            ("check_interval_seconds", 3, 300),
            ("response_timeout_seconds", 3, 300),
            ("unhealthy_threshold", 2, 10),
            ("healthy_threshold", 2, 10),
        ] {
            within(&check[key], key, from, to)?;
        }
        let sticky = &settings["sticky_sessions"];
        one_of(
            &sticky["type"],
            "sticky_sessions.type",
            &["none", "cookies"],
        )?;
        if sticky["type"] == "cookies"
            && (!sticky["cookie_name"].is_string() || !sticky["cookie_ttl_seconds"].is_u64())
        {
            return Err(invalid(
                "sticky sessions need a name and a lifetime of the cookie",
            ));
        }
        for source in ["allow", "deny"]
            .iter()
            .flat_map(|key| settings["firewall"][key].as_array().into_iter().flatten())
        {
            if !source
                .as_str()
                .is_some_and(|source| source.starts_with("ip:") || source.starts_with("cidr:"))
            {
                return Err(invalid(format!("firewall source {source} is invalid")));
            }
        }
        for id in settings["droplet_ids"].as_array().into_iter().flatten() {
            if self
                .droplets
                .get(&id.to_string())
                .is_none_or(|droplet| droplet.account != account)
            {
                return Err(invalid(format!("droplet {id} does not exist")));
            }
        }
        self.check_rules(account, settings)
    }

    fn check_rules(&self, account: &str, settings: &Value) -> Result<(), Refused> {
        let rules = settings["forwarding_rules"]
            .as_array()
            .filter(|forwarding_rule| !forwarding_rule.is_empty());
        let mut entries = BTreeSet::new();
        for rule in rules.ok_or_else(|| invalid("forwarding_rules are missing"))? {
            let entry = rule["entry_protocol"].as_str().unwrap_or_default();
            one_of(
                &rule["entry_protocol"],
                "entry_protocol",
                &["http", "https", "http2", "http3", "tcp", "udp"],
            )?;
            one_of(
                &rule["target_protocol"],
                "target_protocol",
                &["http", "https", "http2", "tcp", "udp"],
            )?;
            within(&rule["entry_port"], "entry_port", 1, 65535)?;
            within(&rule["target_port"], "target_port", 1, 65535)?;
            let is_network = settings["type"] == "REGIONAL_NETWORK";
            let is_reserved = rule["entry_port"]
                .as_u64()
                .is_some_and(|port| RESERVED.contains(&port));
            if is_network && (is_reserved || !["tcp", "udp"].contains(&entry)) {
                return Err(invalid(
                    "the rule is not allowed for network load balancers",
                ));
            }
            let certificate = rule["certificate_id"]
                .as_str()
                .filter(|certificate_id| !certificate_id.is_empty());
            let passes = rule["tls_passthrough"] == true;
            if ["https", "http2", "http3"].contains(&entry) && certificate.is_some() == passes {
                return Err(invalid(format!(
                    "{entry} needs either a certificate or passthrough"
                )));
            }
            certificate
                .map(|id| self.check_certificate(account, id))
                .transpose()?;
            if !entries.insert((
                rule["entry_port"].as_u64(),
                ["udp", "http3"].contains(&entry),
            )) {
                return Err(invalid("two forwarding rules have the same entry port"));
            }
        }
        Ok(())
    }
}

/// Returns the tags in the body of a creation.
pub(crate) fn tags_of(body: &Value) -> Result<Vec<String>, Refused> {
    let tags = body["tags"].as_array().into_iter().flatten();
    let tags: Vec<String> = tags
        .filter_map(|tag| tag.as_str().map(str::to_owned))
        .collect();
    if tags.iter().all(|tag| tags::is_valid(tag)) {
        Ok(tags)
    } else {
        Err(invalid("a tag is invalid"))
    }
}

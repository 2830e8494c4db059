//! Installations of the chart: the values that users set for each cloud, and those that the test bed forces.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::target::Target;

/// Values and objects of one installation.
pub(crate) struct Installation {
    /// Values that a user sets with `--set`.
    pub(crate) set: Vec<String>,
    /// Objects that a user creates before the installation.
    pub(crate) objects: Vec<Value>,
    /// Values that the test bed forces: the fake in place of the cloud.
    pub(crate) forced: Value,
}

fn secret(name: &str, keys: &[(&str, &str)]) -> Value {
    let data: Map<String, Value> = keys
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "kube-system"}, "stringData": data})
}

fn two_values(provider: &str, secret: &str) -> Vec<String> {
    vec![format!("provider={provider}"), format!("secret={secret}")]
}

impl Installation {
    /// Returns the installation for Hetzner Cloud, whose API is at a port of the fake.
    pub(crate) fn hcloud(target: &Target, port: usize) -> Result<Self> {
        let settings = target.cloud.program(target.url(port)).environment;
        let of = |name: &str| {
            let found = settings.iter().find(|(key, _)| key == name);
            found
                .map(|(_, value)| value.clone())
                .with_context(|| format!("the profile has no {name}"))
        };
        Ok(Self {
            set: two_values("hcloud", "hcloud"),
            objects: vec![secret(
                "hcloud",
                &[("token", &of("HCLOUD_TOKEN")?), ("network", "kubernetes")],
            )],
            forced: json!({"env": {"HCLOUD_ENDPOINT": of("HCLOUD_ENDPOINT")?}}),
        })
    }

    /// Returns the installation for AWS. The test bed has no metadata service, which would name the VPC and the cluster.
    pub(crate) fn aws(target: &Target, port: usize) -> Result<Self> {
        let settings = target.cloud.program(target.url(port));
        let (keys, environment): (Vec<_>, Vec<_>) = settings
            .environment
            .into_iter()
            .partition(|(name, _)| name.contains("KEY"));
        let key = |(name, value): &(String, String)| format!("{} = {value}\n", name.to_lowercase());
        let credentials = format!("[default]\n{}", keys.iter().map(key).collect::<String>());
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aws-cloud-config", "namespace": "kube-system"},
            "data": {"cloud.conf": settings.cloud_config.context("the profile has no configuration file")?},
        });
        let environment: Map<String, Value> = environment
            .into_iter()
            .map(|(name, value)| (name, json!(value)))
            .collect();
        Ok(Self {
            set: two_values("aws", "aws"),
            objects: vec![secret("aws", &[("credentials", &credentials)]), config],
            forced: json!({"env": environment, "cloudConfig": {"configMapName": "aws-cloud-config"}}),
        })
    }

    /// Returns the installation for Azure. The file with the addresses of the fake lies beside the configuration file.
    /// The only Node is one of the control plane, which no load balancer has as a target by default.
    pub(crate) fn azure(target: &Target, port: usize) -> Result<Self> {
        let settings = target.cloud.program(target.url(port));
        let (variable, path) = settings
            .environment
            .first()
            .context("the profile has no file of addresses")?;
        let addresses = std::fs::read_to_string(path)?;
        let config = settings
            .cloud_config
            .context("the profile has no configuration file")?;
        let mut config: Value = serde_json::from_str(&config)?;
        config["excludeMasterFromStandardLB"] = json!(false);
        let config = config.to_string();
        Ok(Self {
            set: two_values("azure", "azure"),
            objects: vec![secret(
                "azure",
                &[("cloud-config", &config), ("addresses.json", &addresses)],
            )],
            forced: json!({"env": {variable: "/etc/cloud/addresses.json"}}),
        })
    }

    /// Returns the installation for keepalived on one Node, which has no room for a second replica.
    pub(crate) fn keepalived() -> Self {
        Self {
            set: vec![
                "provider=keepalived".into(),
                "env.KEEPALIVED_SERVICE_CIDR=192.0.2.64/26".into(),
            ],
            objects: Vec::new(),
            forced: json!({"replicas": 1}),
        }
    }

    /// Adds values of the scenario.
    pub(crate) fn with(mut self, more: Value) -> Self {
        merge(&mut self.forced, more);
        self
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

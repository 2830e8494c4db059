//! Keys of the vendors' configuration files, and their environment variables: each has a use, or a reason.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use cloud_provider::{ConfigFile, Environment, Result, Setup};
use provider_kit::declared::Declared;
use serde::Deserialize;

/// The keys of one struct of a vendor's program.
#[derive(Deserialize)]
struct Keys {
    provider: String,
    source: String,
    r#struct: String,
    /// A file with one key, `{}`; empty for environment variables.
    #[serde(default)]
    form: String,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    inert: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    refused: BTreeMap<String, Vec<String>>,
}

fn table() -> Vec<Keys> {
    serde_saphyr::from_str(include_str!("keys.yaml")).unwrap()
}

/// Reads a configuration file with the provider.
fn read(provider: &str, text: &str) -> Result<()> {
    let file = ConfigFile {
        path: "cloud-config".to_owned(),
        text: text.to_owned(),
    };
    let setup = Setup {
        environment: Environment::default().offline(),
        ..Setup::of(file)
    };
    match provider {
        "azure" => provider_azure::config::Config::read(&setup).map(|_| ()),
        "openstack" => provider_openstack::config::Config::read(&setup).map(|_| ()),
        "oci" => provider_oci::config::Config::read(&setup).map(|_| ()),
        "aws" => provider_aws::config::Config::read(&setup).map(|_| ()),
        "gcp" => provider_gcp::config::Config::read(&setup).map(|_| ()),
        "alibaba" => provider_alibaba::config::Config::read(&setup).map(|_| ()),
        "tencent" => provider_tencent::config::Config::read(&setup).map(|_| ()),
        "baidu" => provider_baidu::config::Config::read(&setup).map(|_| ()),
        other => panic!("{other} has no configuration file"),
    }
}

/// Returns the names of the provider's variables.
fn variables(provider: &str) -> BTreeSet<String> {
    let lists: &[&[&dyn Declared]] = match provider {
        "hetzner" => &[
            provider_hetzner::variables::HCLOUD,
            provider_hetzner::variables::ROBOT,
        ],
        "digitalocean" => &[provider_digitalocean::variables::ALL],
        "linode" => &[provider_linode::config::VARIABLES],
        "keepalived" => &[provider_keepalived::config::VARIABLES],
        "rancher" => &[provider_rancher::config::VARIABLES],
        other => panic!("{other} is not configured by variables"),
    };
    lists
        .concat()
        .iter()
        .map(|variable| variable.row().key.to_owned())
        .collect()
}

/// Returns the logged messages about unknown keys, and the result of reading the file.
fn unknown(provider: &str, text: &str) -> (Vec<String>, Result<()>) {
    let log = Log::default();
    let result = tracing::subscriber::with_default(log.clone(), || read(provider, text));
    let messages = log.0.lock().unwrap().clone();
    (
        messages
            .into_iter()
            .filter(|text| text.contains("unknown key") || text.contains("is not known"))
            .collect(),
        result,
    )
}

#[test]
fn every_key_of_the_vendors_files_is_known_to_its_provider() {
    let mut wrong = Vec::new();
    for keys in table().into_iter().filter(|keys| !keys.form.is_empty()) {
        for key in keys.read.iter().chain(keys.inert.values().flatten()) {
            let (messages, _) = unknown(&keys.provider, &keys.form.replace("{}", key));
            wrong.extend(messages.into_iter().map(|text| {
                format!(
                    "{} ({} {}): {text}",
                    keys.provider, keys.source, keys.r#struct
                )
            }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_refused_key_of_a_vendors_file_ends_the_start() {
    for keys in table() {
        for key in keys.refused.values().flatten() {
            let (_, result) = unknown(&keys.provider, &keys.form.replace("{}", key));
            let error = result.expect_err(key).to_string();
            assert!(error.contains(key.as_str()), "{key}: {error}");
        }
    }
}

#[test]
fn every_variable_of_the_vendors_is_declared_by_its_provider() {
    for keys in table().into_iter().filter(|keys| keys.form.is_empty()) {
        let declared = variables(&keys.provider);
        let missing: Vec<_> = keys
            .read
            .iter()
            .filter(|name| !declared.contains(*name))
            .collect();
        assert!(missing.is_empty(), "{}: {missing:?}", keys.provider);
    }
}

#[test]
fn a_key_that_no_vendor_has_is_reported_in_each_form() {
    for keys in table().into_iter().filter(|keys| !keys.form.is_empty()) {
        let (messages, result) = unknown(&keys.provider, &keys.form.replace("{}", "zzqx"));
        // A key without a value is not named: it may be the rest of a secret.
        assert!(
            !messages.is_empty(),
            "{} {}: {messages:?} {result:?}",
            keys.provider,
            keys.r#struct
        );
    }
}

/// The messages that were logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Message(String);

impl tracing::field::Visit for Message {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

//! Flags of admission webhooks and of their HTTPS server.

use std::net::IpAddr;
use std::str::FromStr;

use clap::{ArgAction, Args};
use serving::options::ServingOptions;

use super::tls::{self, SniFlag, TlsFlags};
use super::values::{List, PathFlag, go_bool, go_int64, ip, list, path};

/// Names of this program's webhooks (D-14).
pub const WEBHOOKS: [&str; 2] = [VOLUMES, SERVICES];
/// Name of the webhook that labels volumes when they are created.
pub(crate) const VOLUMES: &str = "pvlabel";
/// Name of the webhook that reports mistakes in Services when they are written.
pub(crate) const SERVICES: &str = "lb-service";
/// Item that selects all webhooks.
const ALL: &str = "*";

/// Flags that select admission webhooks.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookFlags {
    /// Webhooks to serve, with the syntax of --controllers; none if empty. Requires the feature gate
    /// CloudControllerManagerWebhook. pvlabel labels volumes when they are created, lb-service reports mistakes in
    /// Services when they are written.
    #[arg(long, default_value = "", value_parser = list)]
    pub webhooks: Vec<List>,
    /// Action of the webhook lb-service on a Service whose load balancer would be refused: Warn or Deny.
    #[arg(long, default_value = "Warn", value_name = "ACTION", value_parser = str::parse::<ValidationAction>)]
    pub service_validation_action: ValidationAction,
}

/// The value of `--service-validation-action`, named like the actions of a ValidatingAdmissionPolicyBinding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationAction {
    /// The Service is stored, and its author gets warnings.
    #[default]
    Warn,
    /// The Service is rejected.
    Deny,
}

impl FromStr for ValidationAction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "Warn" | "warn" => Ok(Self::Warn),
            "Deny" | "deny" => Ok(Self::Deny),
            other => Err(format!("{other:?} is not one of Warn, Deny")),
        }
    }
}

/// The selected webhooks; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookSelection {
    items: Vec<String>,
    /// Names of a vendor's webhooks.
    vendor: Vec<&'static str>,
}

impl WebhookSelection {
    /// Returns `true` if this webhook is selected. The first item with its name takes precedence over `*` (APP-31).
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        let named = self
            .items
            .iter()
            .find_map(|item| match item.strip_prefix('-') {
                Some(off) => (off == name).then_some(false),
                None => (item == name).then_some(true),
            });
        named.unwrap_or_else(|| self.items.iter().any(|item| item == ALL))
    }

    /// Returns `true` if no webhook of this program is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !known(&self.vendor).any(|name| self.includes(name))
    }
}

/// Returns the names of this program's webhooks and of a vendor's.
fn known(vendor: &[&'static str]) -> impl Iterator<Item = &'static str> {
    WEBHOOKS.into_iter().chain(vendor.iter().copied())
}

impl WebhookFlags {
    /// Returns the selected webhooks, and the action of the webhook for Services.
    pub(super) fn configuration(
        &self,
        vendor: &[&'static str],
    ) -> (WebhookSelection, ValidationAction) {
        let WebhookFlags {
            webhooks,
            service_validation_action,
        } = self;
        (
            WebhookSelection {
                items: List::owned(webhooks),
                vendor: vendor.to_vec(),
            },
            *service_validation_action,
        )
    }

    pub(super) fn items(&self) -> Vec<String> {
        List::owned(&self.webhooks)
    }

    pub(super) fn validate(&self, vendor: &[&'static str]) -> Vec<String> {
        let all = known(vendor).collect::<Vec<_>>();
        let items = self.items();
        let names = items
            .iter()
            .map(|item| item.strip_prefix('-').unwrap_or(item));
        names
            .filter(|name| *name != ALL && !all.contains(name))
            .map(|name| {
                format!(
                    "{name:?} is not in the list of known webhooks; known are {ALL}, {}",
                    all.join(", ")
                )
            })
            .collect()
    }
}

/// Flags of the webhooks' HTTPS server.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Webhook serving")]
pub struct WebhookServingFlags {
    /// Address to listen on for webhooks.
    #[arg(long, default_value_t = ServingOptions::default().bind_address, value_parser = ip)]
    pub webhook_bind_address: IpAddr,
    /// HTTPS port of the webhooks, opened only if a webhook is selected; 0 disables the server.
    #[arg(long, default_value = "10260", value_parser = go_int64)]
    pub webhook_secure_port: i64,
    /// Like --cert-dir, for the webhooks.
    #[arg(long, default_value = "", value_parser = path())]
    pub webhook_cert_dir: PathFlag,
    /// Like --tls-cert-file, for the webhooks.
    #[arg(long, default_value = "", value_parser = path())]
    pub webhook_tls_cert_file: PathFlag,
    /// File with the private key of --webhook-tls-cert-file, in PEM.
    #[arg(long, default_value = "", value_parser = path())]
    pub webhook_tls_private_key_file: PathFlag,
    /// Like --tls-sni-cert-key, for the webhooks.
    #[arg(long, value_parser = str::parse::<SniFlag>)]
    pub webhook_tls_sni_cert_key: Vec<SniFlag>,
    /// Like --tls-cipher-suites, for the webhooks.
    #[arg(long, default_value = "", value_parser = list)]
    pub webhook_tls_cipher_suites: Vec<List>,
    /// Like --tls-min-version, for the webhooks.
    #[arg(long, default_value = "", value_name = "VERSION")]
    pub webhook_tls_min_version: String,
    /// Like --tls-curve-preferences, for the webhooks.
    #[arg(long, default_value = "", value_parser = tls::numbers)]
    pub webhook_tls_curve_preferences: Vec<tls::Numbers>,
    /// Accepted without effect: the webhooks always use HTTP/1.1.
    #[arg(long, default_value_t = ServingOptions::default().disable_http2, value_parser = go_bool, action = ArgAction::Set)]
    pub webhook_disable_http2_serving: bool,
}

impl WebhookServingFlags {
    pub(super) fn options(&self) -> ServingOptions {
        let (options, tls) = self.split();
        tls.options(options)
    }

    /// Returns the TLS flags, which both servers share.
    pub(super) fn tls(&self) -> TlsFlags<'_> {
        self.split().1
    }

    /// Returns the options without those of TLS, and the TLS flags.
    fn split(&self) -> (ServingOptions, TlsFlags<'_>) {
        let WebhookServingFlags {
            webhook_bind_address,
            webhook_secure_port,
            webhook_cert_dir,
            webhook_tls_cert_file,
            webhook_tls_private_key_file,
            webhook_tls_sni_cert_key,
            webhook_tls_cipher_suites,
            webhook_tls_min_version,
            webhook_tls_curve_preferences,
            webhook_disable_http2_serving,
        } = self;
        let options = ServingOptions {
            bind_address: *webhook_bind_address,
            port: u16::try_from(*webhook_secure_port).unwrap_or_default(),
            cert_dir: webhook_cert_dir.to_path_buf(),
            pair_name: "cloud-controller-manager-webhook",
            disable_http2: *webhook_disable_http2_serving,
            port_flag: "--webhook-secure-port",
            ..ServingOptions::default()
        };
        let tls = TlsFlags {
            prefix: "--webhook-tls-",
            certificate: webhook_tls_cert_file,
            key: webhook_tls_private_key_file,
            sni: webhook_tls_sni_cert_key,
            cipher_suites: List::owned(webhook_tls_cipher_suites),
            min_version: webhook_tls_min_version,
            curve_preferences: tls::Numbers::all(webhook_tls_curve_preferences),
        };
        (options, tls)
    }

    pub(super) fn validate(&self, secure_port: i64) -> Vec<String> {
        let port = self.webhook_secure_port;
        let mut errors = Vec::new();
        if !(0..=65535).contains(&port) {
            errors.push(format!(
                "--webhook-secure-port {port} must be between 0 and 65535, inclusive. A value of 0 disables the webhook \
                 endpoint entirely."
            ));
        } else if port != 0 && port == secure_port {
            errors.push(format!(
                "--webhook-secure-port cannot be the same value as --secure-port: both are {port}; without webhooks pass \
                 --webhook-secure-port=0"
            ));
        }
        errors.extend(self.tls().validate());
        errors
    }
}

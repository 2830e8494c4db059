//! The options of each component of the process, as the flags set them.

use std::net::SocketAddr;
use std::time::Duration;

use ::controllers::Options;
use ::controllers::options::ServiceOptions;
use ::serving::options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
use cloud_provider::Environment;
use runtime::client::{ClientOptions, UserAgent};

use super::controllers::{NODE_IPAM, TAGGING};
use super::provider_flags::{self, USER_AGENT};
use super::{COMMAND, ElectionSettings, FeatureGates, Flags, GATE_WEBHOOK, WebhookSelection};
use crate::controllers_task::{Clients, Settings};
use crate::logging::LoggingOptions;

/// Names of the flags that enable node IPAM.
const ALLOCATE: [&str; 2] = ["allocate-node-cidrs", "cidr-allocator-type"];

impl Flags {
    /// Returns the options of the controllers.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            node: self.node.options(self.misc.node_status_update_frequency),
            lifecycle: self.lifecycle.options(),
            service: ServiceOptions { vanished: Some(self.lifecycle.share_and_delay()), ..self.service.options() },
            route: self.route.options(self.gates().route_mode()),
            explain: self.controllers.explain,
        }
    }

    /// Returns the settings that the controllers start with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            min_resync_period: self.api.min_resync_period(),
            // The names were validated when the flags were parsed.
            controllers: self.controllers.selection().unwrap_or_default(),
            configure_cloud_routes: self.route.configure_cloud_routes,
            ..Settings::new(self.options(), Clients::Configured(Box::new(self.client_options())))
        }
    }

    /// Returns the options of the Kubernetes clients.
    #[must_use]
    pub fn client_options(&self) -> ClientOptions {
        ClientOptions {
            kubeconfig: self.misc.kubeconfig.to_path_buf(),
            master: Some(self.misc.master.clone()).filter(|url| !url.is_empty()),
            user_agent: UserAgent {
                binary: self.binary().to_owned(),
                version: self.reported_version().to_owned(),
                commit: env!("CCM_REVISION").to_owned(),
            },
            qps: self.api.kube_api_qps,
            burst: self.api.burst(),
            ..ClientOptions::default()
        }
    }

    /// Returns the options of the endpoints' HTTPS server. Port 0 disables the server.
    #[must_use]
    pub fn serving(&self) -> ServingOptions {
        self.secure_serving.options()
    }

    /// Returns the options of the webhooks' HTTPS server, which is opened only if
    /// [`serves_webhooks`](Self::serves_webhooks) returns `true`.
    #[must_use]
    pub fn webhook_serving(&self) -> ServingOptions {
        self.webhook_serving.options()
    }

    /// Returns the webhooks that `--webhooks` selects.
    #[must_use]
    pub fn webhooks(&self) -> WebhookSelection {
        self.webhook.selection(&self.vendor_webhooks)
    }

    /// Returns `true` if webhooks are served: the gate is enabled, a webhook is selected and the port is not 0
    /// (APP-140, FLAG-25).
    #[must_use]
    pub fn serves_webhooks(&self) -> bool {
        self.gates().enabled(GATE_WEBHOOK) && !self.webhooks().is_empty() && self.webhook_serving().port != 0
    }

    /// Returns the address for metrics without TLS and authentication, if one is set.
    #[must_use]
    pub fn metrics_listener(&self) -> Option<SocketAddr> {
        self.secure_serving.metrics_listener()
    }

    /// Returns the options of authentication.
    #[must_use]
    pub fn authentication(&self) -> AuthenticationOptions {
        self.authentication.options()
    }

    /// Returns the options of authorization.
    #[must_use]
    pub fn authorization(&self) -> AuthorizationOptions {
        self.authorization.options()
    }

    /// Returns the settings of leader election; `None` if this process works without leader election (APP-69).
    #[must_use]
    pub fn election(&self) -> Option<ElectionSettings> {
        self.leader_election.settings(&self.leader_migration, self.gates().release_lease())
    }

    /// Returns the options of the log.
    #[must_use]
    pub fn logging(&self) -> LoggingOptions {
        self.logging.options(i32::from(self.verbosity))
    }

    /// Returns the feature gates.
    #[must_use]
    pub fn gates(&self) -> FeatureGates {
        self.controllers.gates()
    }

    /// Returns `true` if each controller uses a ServiceAccount of its own (APP-50).
    #[must_use]
    pub fn use_service_account_credentials(&self) -> bool {
        self.api.use_service_account_credentials
    }

    /// Returns the pause after the start of a controller, to be multiplied by a random factor from 1 to 2 (APP-35).
    #[must_use]
    pub fn controller_start_interval(&self) -> Duration {
        self.controllers.controller_start_interval.to_std_or_zero()
    }

    /// Returns the time that work in progress may take to finish at a shutdown (APP-162).
    #[must_use]
    pub fn shutdown_timeout(&self) -> Duration {
        self.controllers.shutdown_timeout.to_std_or_zero()
    }

    /// Returns `true` if profiles and `/debug/flags/v` are served.
    #[must_use]
    pub fn profiling(&self) -> bool {
        self.debugging.profiling
    }

    /// Returns `true` if lock profiles are requested, which requires [`profiling`](Self::profiling).
    #[must_use]
    pub fn contention_profiling(&self) -> bool {
        self.debugging.contention_profiling
    }

    /// Returns the Kubernetes version that the program reports (user agent, `kubernetes_build_info`).
    #[must_use]
    pub fn reported_version(&self) -> &str {
        self.version.reported()
    }

    /// Returns the value of any flag as text, including a vendor's own flags
    /// ([`Program::with_flag`](super::Program::with_flag)).
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.given.values().get(name).map(String::as_str)
    }

    /// Returns all values of `--user-agent`, which the provider appends to the `User-Agent` of its requests to the
    /// cloud.
    #[must_use]
    pub fn cloud_user_agent(&self) -> Vec<String> {
        let given = self.value(USER_AGENT).filter(|_| self.given.has(USER_AGENT)).unwrap_or_default();
        given.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the vendor flags that are set and that this provider reads, such as `--linodego-debug`, by name.
    #[must_use]
    pub fn cloud_flags(&self) -> Environment {
        let given = provider_flags::all()
            .map(|flag| (flag.name, flag.is_read_by(&self.cloud.cloud_provider)))
            .chain(ALLOCATE.map(|name| (name, self.has_node_ipam())))
            .chain([("controllers", self.has_tagging())])
            .filter(|(name, is_read)| *is_read && self.given.has(name));
        Environment::of(given.filter_map(|(name, _)| Some((format!("--{name}"), self.value(name)?))))
    }

    /// Returns `true` if the cloud's provider assigns Pod ranges to Nodes.
    pub(super) fn has_node_ipam(&self) -> bool {
        ["gce", "linode"].contains(&&*self.cloud.cloud_provider) && !self.controllers.excludes(&NODE_IPAM)
    }

    /// Returns `true` if `--controllers` selects the tagging of instances, which only provider `aws` does.
    pub(super) fn has_tagging(&self) -> bool {
        self.cloud.cloud_provider == "aws" && self.controllers.reserved().any(|name| name == TAGGING)
    }

    /// Returns the base name of the program.
    #[must_use]
    pub fn binary(&self) -> &str {
        if self.binary.is_empty() { COMMAND } else { &self.binary }
    }
}

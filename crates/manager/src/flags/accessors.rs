//! What the flags come to: the options of each part of the process.

use std::net::SocketAddr;
use std::time::Duration;

use ::controllers::Options;
use ::controllers::options::ServiceOptions;
use ::serving::options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
use cloud_provider::Environment;
use runtime::client::{ClientOptions, UserAgent};

use super::provider_flags::{self, USER_AGENT};
use super::{COMMAND, ElectionSettings, FeatureGates, Flags, GATE_WEBHOOK, WebhookSelection};
use crate::controllers_task::{Clients, Settings};
use crate::logging::LoggingOptions;

/// The flag that switches node IPAM on.
const ALLOCATE: [&str; 2] = ["allocate-node-cidrs", "cidr-allocator-type"];

impl Flags {
    /// How the controllers behave.
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

    /// What the controllers are started with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            min_resync_period: self.api.min_resync_period(),
            // Names were checked when the flags were parsed.
            controllers: self.controllers.selection().unwrap_or_default(),
            configure_cloud_routes: self.route.configure_cloud_routes,
            ..Settings::new(self.options(), Clients::Configured(Box::new(self.client_options())))
        }
    }

    /// How the Kubernetes API is found and asked.
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

    /// The HTTPS server of the endpoints; port 0: none.
    #[must_use]
    pub fn serving(&self) -> ServingOptions {
        self.secure_serving.options()
    }

    /// The HTTPS server of the webhooks. It is opened only if [`serves_webhooks`](Self::serves_webhooks).
    #[must_use]
    pub fn webhook_serving(&self) -> ServingOptions {
        self.webhook_serving.options()
    }

    /// The webhooks that `--webhooks` selects.
    #[must_use]
    pub fn webhooks(&self) -> WebhookSelection {
        self.webhook.selection(&self.vendor_webhooks)
    }

    /// Whether there is a server for webhooks: the gate is on, one is selected, and the port is not 0 (APP-140, FLAG-25).
    #[must_use]
    pub fn serves_webhooks(&self) -> bool {
        self.gates().enabled(GATE_WEBHOOK) && !self.webhooks().is_empty() && self.webhook_serving().port != 0
    }

    /// Where metrics are served without TLS and authentication, if they are.
    #[must_use]
    pub fn metrics_listener(&self) -> Option<SocketAddr> {
        self.secure_serving.metrics_listener()
    }

    /// Who the callers of the endpoints are.
    #[must_use]
    pub fn authentication(&self) -> AuthenticationOptions {
        self.authentication.options()
    }

    /// What the callers of the endpoints may do.
    #[must_use]
    pub fn authorization(&self) -> AuthorizationOptions {
        self.authorization.options()
    }

    /// How the leader is elected; `None`: this process works alone (APP-69).
    #[must_use]
    pub fn election(&self) -> Option<ElectionSettings> {
        self.leader_election.settings(&self.leader_migration, self.gates().release_lease())
    }

    /// How the log is written.
    #[must_use]
    pub fn logging(&self) -> LoggingOptions {
        self.logging.options(i32::from(self.verbosity))
    }

    /// The feature gates.
    #[must_use]
    pub fn gates(&self) -> FeatureGates {
        self.controllers.gates()
    }

    /// Whether each controller uses a ServiceAccount of its own (APP-50).
    #[must_use]
    pub fn use_service_account_credentials(&self) -> bool {
        self.api.use_service_account_credentials
    }

    /// Pause after starting a controller, to be stretched by a factor from 1 to 2 (APP-35).
    #[must_use]
    pub fn controller_start_interval(&self) -> Duration {
        self.controllers.controller_start_interval.to_std_or_zero()
    }

    /// How long what is in work may take to finish at a stop (APP-162).
    #[must_use]
    pub fn shutdown_timeout(&self) -> Duration {
        self.controllers.shutdown_timeout.to_std_or_zero()
    }

    /// Whether profiles and `/debug/flags/v` are served.
    #[must_use]
    pub fn profiling(&self) -> bool {
        self.debugging.profiling
    }

    /// Whether profiles of locks were asked for; effective only with [`profiling`](Self::profiling).
    #[must_use]
    pub fn contention_profiling(&self) -> bool {
        self.debugging.contention_profiling
    }

    /// The version of Kubernetes that the program says it is (user agent, `kubernetes_build_info`).
    #[must_use]
    pub fn reported_version(&self) -> &str {
        self.version.reported()
    }

    /// The value of any flag as text, one of a vendor's own ([`Program::with_flag`](super::Program::with_flag)) among them.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.given.values().get(name).map(String::as_str)
    }

    /// `--user-agent`, as often as it was given: goes into requests to the cloud.
    #[must_use]
    pub fn cloud_user_agent(&self) -> Vec<String> {
        let given = self.value(USER_AGENT).filter(|_| self.given.has(USER_AGENT)).unwrap_or_default();
        given.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
    }

    /// The flags of the cloud's Go cloud-controller-manager that were given and that its provider reads.
    #[must_use]
    pub fn cloud_flags(&self) -> Environment {
        let given = provider_flags::all()
            .map(|flag| (flag.name, flag.is_read_by(&self.cloud.cloud_provider)))
            .chain(ALLOCATE.map(|name| (name, self.has_node_ipam())))
            .filter(|(name, is_read)| *is_read && self.given.has(name));
        Environment::of(given.filter_map(|(name, _)| Some((format!("--{name}"), self.value(name)?))))
    }

    /// Returns `true` if the cloud's provider assigns Pod ranges to Nodes.
    pub(super) fn has_node_ipam(&self) -> bool {
        let is_from_cloud = self.route.cidr_allocator_type == "CloudAllocator";
        self.cloud.cloud_provider == "linode" || self.cloud.cloud_provider == "gce" && is_from_cloud
    }

    /// Base name of the program.
    #[must_use]
    pub fn binary(&self) -> &str {
        if self.binary.is_empty() { COMMAND } else { &self.binary }
    }
}

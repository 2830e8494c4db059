//! The typed configuration of the process, which the flags become at one place.
//!
//! Each struct of flags is destructured exactly once, with all of its fields and without `..`, here or in the file of
//! its section. So a flag that nothing reads does not compile: a new field is missing in a pattern (E0027), and a field
//! that is bound but not used is an unused variable, which this crate denies. A flag without effect is bound to `_`,
//! with the reason.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::controllers::Options;
use ::serving::options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
use cloud_provider::{AdoptableTag, Environment};
use runtime::client::{ApiServers, ClientOptions, DEFAULT_BURST, UserAgent};
use serde_json::Value;

use super::{
    ApiFlags, CloudFlags, ControllersFlags, DebuggingFlags, ElectionSettings, FeatureGates, Flags,
    GATE_NATIVE_HISTOGRAMS, GATE_WEBHOOK, MiscFlags, OnCloudConfigChange, RouteConfiguration,
    ValidationAction, WebhookSelection, provider_flags,
};
use crate::controller_set::{MIN_RESYNC_PERIOD, Selection, Settings};
use crate::kubernetes::Clients;
use crate::logging::LoggingOptions;

/// A port for health probes without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthListener {
    /// Address to listen on.
    pub address: SocketAddr,
    /// If set, a flag names the address, so the process does not start if the port is taken. Otherwise the name of the
    /// program presets it.
    pub is_required: bool,
}

/// The configuration of the process.
pub struct Configuration {
    /// The cloud and its provider.
    pub cloud: CloudConfiguration,
    /// Options of the controllers.
    pub options: Options,
    /// The selected controllers (`--controllers`).
    pub controllers: Selection,
    /// Routes, apart from the options of their controller.
    pub route: RouteConfiguration,
    /// Interval of full resyncs (`--min-resync-period`).
    pub min_resync_period: Duration,
    /// Pause after the start of a controller (`--controller-start-interval`), to be multiplied by a random factor from
    /// 1 to 2 (APP-35).
    pub controller_start_interval: Duration,
    /// Time that work in progress may take to finish at a shutdown (`--shutdown-timeout`, APP-162).
    pub shutdown_timeout: Duration,
    /// Options of the Kubernetes clients.
    pub client_options: ClientOptions,
    /// If set, each controller uses a ServiceAccount of its own (APP-50).
    pub use_service_account_credentials: bool,
    /// Settings of leader election; `None` if this process works without leader election (APP-69).
    pub election: Option<ElectionSettings>,
    /// Options of the endpoints' HTTPS server. Port 0 disables the server.
    pub serving: ServingOptions,
    /// Address for metrics without TLS and authentication, if one is set.
    pub metrics_listener: Option<SocketAddr>,
    /// Port for health probes without TLS, if one is set.
    pub health_listener: Option<HealthListener>,
    /// If set, the secure port answers health probes without TLS, too, because the probes of the vendor's manifests do
    /// not use TLS (D-370).
    pub plain_health: bool,
    /// Options of authentication of callers.
    pub authentication: AuthenticationOptions,
    /// Options of authorization of callers.
    pub authorization: AuthorizationOptions,
    /// If set, profiles and `/debug/flags/v` are served.
    pub profiling: bool,
    /// Webhooks that `--webhooks` selects.
    pub webhooks: WebhookSelection,
    /// Action of the webhook for Services (`--service-validation-action`).
    pub service_validation_action: ValidationAction,
    /// Options of the webhooks' HTTPS server, which is opened only if [`serves_webhooks`](Self::serves_webhooks)
    /// returns `true`.
    pub webhook_serving: ServingOptions,
    /// Options of the log.
    pub logging: LoggingOptions,
    /// Feature gates of `--feature-gates`, with their defaults.
    pub gates: FeatureGates,
    /// Document of `/configz`, without leader migration from a file.
    pub configz: Value,
}

/// The configuration of the cloud and its provider.
pub struct CloudConfiguration {
    /// Name of the provider (`--cloud-provider`).
    pub provider: String,
    /// Configuration file of the provider (`--cloud-config`).
    pub config_file: Option<PathBuf>,
    /// Reaction to a change of the configuration file (`--cloud-config-change`).
    pub on_config_change: OnCloudConfigChange,
    /// Name of the cluster (`--cluster-name`).
    pub cluster_name: String,
    /// If set, a provider that cannot tell the resources of this cluster from those of another starts nevertheless
    /// (`--allow-untagged-cloud`).
    pub allow_untagged: bool,
    /// Tag that a load balancer must have before a Service adopts it (`--adoptable-load-balancer-tag`).
    pub adoptable_tag: Option<AdoptableTag>,
    /// Values of `--user-agent`, which the provider appends to the `User-Agent` of its requests to the cloud.
    pub user_agent: Vec<String>,
    /// Vendor flags that are set and that this provider reads, by name.
    pub flags: Environment,
}

impl Flags {
    /// Returns the configuration that these flags set.
    #[must_use]
    pub fn configuration(&self) -> Configuration {
        let Flags {
            command_line: _, // Read by `cloud_user_agent` and `cloud_flags`, and reported by `notices` and `dump`.
            debugging,
            leader_migration,
            controllers,
            cloud,
            api,
            leader_election,
            route,
            node,
            lifecycle,
            service,
            webhook,
            webhook_serving,
            secure_serving,
            authentication,
            authorization,
            misc,
            logging,
            verbosity,
            version,
            help: _,      // Ends the program while the arguments are parsed.
            arguments: _, // Must be empty, which is checked while the arguments are parsed.
            binary: _,    // Read by `binary`.
            vendor: _, // Reported by `notices` and `dump`; a vendor reads its own flags with `value`.
            vendor_webhooks,
        } = self;
        // Locks are not profiled.
        let DebuggingFlags {
            profiling,
            contention_profiling: _,
        } = debugging;
        let ControllersFlags {
            controllers: _, // Read by `selection`.
            controller_start_interval,
            feature_gates: _, // Read by `gates`.
            explain,
            shutdown_timeout,
        } = controllers;
        // The names were validated when the flags were parsed.
        let selection = controllers
            .selection(&cloud.cloud_provider)
            .unwrap_or_default();
        let gates = controllers.gates();
        let CloudFlags {
            cloud_provider,
            cloud_config,
            cloud_config_change,
            cluster_name,
            adoptable_load_balancer_tag,
            allow_untagged_cloud,
            node_sync_period: _, // No effect in the Go program, either.
            external_cloud_volume_plugin: _, // CSI drivers manage volumes.
        } = cloud;
        let ApiFlags {
            kube_api_qps,
            kube_api_burst,
            kube_api_content_type: _, // Requests always use JSON.
            min_resync_period,
            use_service_account_credentials,
        } = api;
        let MiscFlags {
            kubeconfig,
            master,
            api_server_candidates,
            node_status_update_frequency,
        } = misc;
        let (lifecycle, guard) = lifecycle.options();
        let (route_options, route) = route.configuration(gates.route_mode());
        let (serving, plain) = secure_serving.options();
        let is_required = self.command_line.has("health-bind-address");
        let (webhooks, service_validation_action) = webhook.configuration(vendor_webhooks);
        Configuration {
            cloud: CloudConfiguration {
                provider: cloud_provider.clone(),
                config_file: cloud_config.to_path_buf(),
                on_config_change: *cloud_config_change,
                cluster_name: cluster_name.clone(),
                allow_untagged: *allow_untagged_cloud,
                adoptable_tag: adoptable_load_balancer_tag.0.clone(),
                user_agent: self.cloud_user_agent(),
                flags: self.cloud_flags(),
            },
            options: Options {
                node: node.options(node_status_update_frequency.to_std_or_zero()),
                lifecycle,
                service: service.options(guard, cloud_provider),
                route: route_options,
                explain: *explain,
            },
            controllers: selection,
            route,
            min_resync_period: min_resync_period.to_std().unwrap_or(MIN_RESYNC_PERIOD),
            controller_start_interval: controller_start_interval.to_std_or_zero(),
            shutdown_timeout: shutdown_timeout.to_std_or_zero(),
            client_options: ClientOptions {
                kubeconfig: kubeconfig.to_path_buf(),
                master: Some(master.clone()).filter(|url| !url.is_empty()),
                api_servers: ApiServers::new(api_server_candidates.clone()),
                user_agent: UserAgent {
                    binary: self.binary().to_owned(),
                    version: version.reported().to_owned(),
                    commit: env!("CCM_REVISION").to_owned(),
                },
                qps: *kube_api_qps,
                burst: u32::try_from(*kube_api_burst).unwrap_or(DEFAULT_BURST),
                ..ClientOptions::default()
            },
            use_service_account_credentials: *use_service_account_credentials,
            election: leader_election.settings(leader_migration, gates.release_lease()),
            serving,
            metrics_listener: plain.metrics,
            health_listener: plain.health.map(|address| HealthListener {
                address,
                is_required,
            }),
            plain_health: provider_flags::ALIBABA.contains(&&**cloud_provider),
            authentication: authentication.options(),
            authorization: authorization.options(),
            profiling: *profiling,
            webhooks,
            service_validation_action,
            webhook_serving: webhook_serving.options(),
            logging: logging.options(i32::from(*verbosity)),
            gates,
            configz: self.configz(),
        }
    }
}

impl Configuration {
    /// Returns the settings that the controllers start with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let settings = Settings {
            min_resync_period: self.min_resync_period,
            controllers: self.controllers.clone(),
            configure_cloud_routes: self.route.configure_cloud_routes,
            start_interval: self.controller_start_interval,
            allow_untagged_cloud: self.cloud.allow_untagged,
            ..Settings::new(
                self.options.clone(),
                Clients::Configured(Box::new(self.client_options.clone())),
            )
        };
        if !self.gates.enabled(GATE_NATIVE_HISTOGRAMS) {
            settings.metrics.disable_native_histograms();
        }
        settings
    }

    /// Returns `true` if webhooks are served: the gate is enabled, a webhook is selected and the port is not 0
    /// (APP-140, FLAG-25).
    #[must_use]
    pub fn serves_webhooks(&self) -> bool {
        self.gates.enabled(GATE_WEBHOOK)
            && !self.webhooks.is_empty()
            && self.webhook_serving.port != 0
    }
}

//! Flags that only this project has.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ::controllers::options::{Drift, NodeDeletion};

use super::*;
use crate::flags::{HealthListener, OnCloudConfigChange, ValidationAction};

/// Rows of all sections of `--help`.
pub(super) const OWN: [Row; 19] = [
    row(
        "adoptable-load-balancer-tag",
        "string",
        "",
        &["--adoptable-load-balancer-tag=team=web"],
        Opt(|config| {
            config
                .cloud
                .adoptable_tag
                .as_ref()
                .is_some_and(|tag| tag.to_string() == "team=web")
        }),
    ),
    row(
        "adopt-nodes",
        "bool",
        "false",
        &["--adopt-nodes"],
        Opt(|config| config.options.node.adopt),
    ),
    row(
        "api-server-candidates",
        "string",
        "https://127.0.0.1:6443,https://127.0.0.1:6444,https://127.0.0.1:7445,https://127.0.0.1:16443",
        &["--api-server-candidates=https://10.0.0.1:6443"],
        Opt(|config| format!("{:?}", config.client_options.api_servers).contains("10.0.0.1:6443")),
    ),
    row(
        "cloud-config-change",
        "string",
        "reload",
        &["--cloud-config-change=exit"],
        Opt(|config| config.cloud.on_config_change == OnCloudConfigChange::Exit),
    ),
    row(
        "default-load-balancer",
        "bool",
        "true",
        &["--default-load-balancer=false"],
        Opt(|config| !config.options.service.is_default),
    ),
    row(
        "exclude-nodes-without-network",
        "bool",
        "false",
        &["--exclude-nodes-without-network"],
        Opt(|config| config.options.service.exclude_without_network),
    ),
    row(
        "explain",
        "bool",
        "true",
        &["--explain=F"],
        Opt(|config| !config.options.explain),
    ),
    row(
        "health-bind-address",
        "address",
        "",
        &["--health-bind-address=127.0.0.1:8081"],
        Opt(|config| {
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);
            config.health_listener
                == Some(HealthListener {
                    address,
                    is_required: true,
                })
        }),
    ),
    row(
        "load-balancer-classes",
        "strings",
        "",
        &[
            "--load-balancer-classes=a,\"b,c\"",
            "--load-balancer-classes=d",
        ],
        Opt(|config| config.options.service.classes.iter().eq(["a", "b,c", "d"])),
    ),
    row(
        "load-balancer-drift",
        "string",
        "report",
        &["--load-balancer-drift=repair"],
        Opt(|config| config.options.service.drift == Drift::Repair),
    ),
    row(
        "load-balancer-drift-check-period",
        "duration",
        "0s",
        &["--load-balancer-drift-check-period=10m"],
        Opt(|config| config.options.service.drift_check_period == secs(600)),
    ),
    row(
        "metrics-bind-address",
        "address",
        "",
        &["--metrics-bind-address=127.0.0.1:8080"],
        Opt(|config| {
            config.metrics_listener == Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080))
        }),
    ),
    row(
        "node-deletion",
        "string",
        "on",
        &["--node-deletion=dry-run"],
        Opt(|config| config.options.lifecycle.deletion == NodeDeletion::DryRun),
    ),
    row(
        "node-deletion-guard",
        "bool",
        "true",
        &["--node-deletion-guard=false"],
        Opt(|config| {
            config.options.lifecycle.guard.is_none() && config.options.service.vanished.is_some()
        }),
    ),
    row(
        "node-deletion-guard-delay",
        "duration",
        "5m0s",
        &["--node-deletion-guard-delay=10s"],
        Opt(|config| {
            let options = &config.options;
            [options.lifecycle.guard, options.service.vanished]
                .iter()
                .all(|options| options.unwrap().delay == secs(10))
        }),
    ),
    row(
        "node-deletion-guard-share",
        "float64",
        "0.5",
        &["--node-deletion-guard-share=0.25"],
        Opt(|config| {
            let options = &config.options;
            [options.lifecycle.guard, options.service.vanished]
                .iter()
                .all(|options| options.unwrap().share == 0.25)
        }),
    ),
    row(
        "refresh-node-labels",
        "bool",
        "false",
        &["--refresh-node-labels=true"],
        Opt(|config| config.options.node.refresh_labels),
    ),
    row(
        "service-validation-action",
        "string",
        "Warn",
        &["--service-validation-action=Deny"],
        Opt(|config| config.service_validation_action == ValidationAction::Deny),
    ),
    row(
        "shutdown-timeout",
        "duration",
        "10s",
        &["--shutdown-timeout=1m"],
        Opt(|config| config.shutdown_timeout == secs(60)),
    ),
];

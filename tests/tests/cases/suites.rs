//! The suites: what each of them does with a case.

mod lifecycle;
mod node_address_change;
mod node_address_refresh;
mod node_addresses;
mod node_controller_options;
mod node_initialization;
mod node_label_reconcile;
mod node_metadata;
mod provider_id;
mod queue_and_retry;
mod route_cluster_cidr;
mod route_condition;
mod route_node_event;
mod route_reconcile;
mod route_responsibility;
mod service_helpers;
mod service_host_names;
mod service_needs_update;
mod service_node_eligibility;
mod service_node_set_equal;
mod service_node_sync;
mod service_patch;
mod service_should_sync_nodes;
mod service_sync;
mod service_wants_cleanup;
mod source_ranges;
mod taints;
mod volume_rounding;
mod zones;

use anyhow::Result;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::Value;

use super::comparison::Comparison;

/// Runs a case, given what is given and what is expected.
pub(crate) type Run = fn(Value, Value) -> LocalBoxFuture<'static, Result<Comparison>>;

/// Suites that are run, in this order.
pub(crate) const RUNNABLE: [(&str, Run); 29] = [
    ("node-initialization", |given, expect| {
        node_initialization::run(given, expect).boxed_local()
    }),
    ("node-metadata", |given, expect| {
        node_metadata::run(given, expect).boxed_local()
    }),
    ("node-label-reconcile", |given, expect| {
        node_label_reconcile::run(given, expect).boxed_local()
    }),
    ("node-address-refresh", |given, expect| {
        node_address_refresh::run(given, expect).boxed_local()
    }),
    ("node-address-change", |given, expect| {
        async move { node_address_change::run(&given, &expect) }.boxed_local()
    }),
    ("node-addresses", |given, expect| {
        async move { node_addresses::run(given, &expect) }.boxed_local()
    }),
    ("node-controller-options", |given, expect| {
        async move { node_controller_options::run(&given, &expect) }.boxed_local()
    }),
    ("taints", |given, expect| {
        taints::run(given, expect).boxed_local()
    }),
    ("provider-id", |given, expect| {
        provider_id::run(given, expect).boxed_local()
    }),
    ("lifecycle", |given, expect| {
        lifecycle::run(given, expect).boxed_local()
    }),
    ("queue-and-retry", |given, expect| {
        queue_and_retry::run(given, expect).boxed_local()
    }),
    ("route-reconcile", |given, expect| {
        route_reconcile::run(given, expect).boxed_local()
    }),
    ("route-responsibility", |given, expect| {
        async move { route_responsibility::run(&given, &expect) }.boxed_local()
    }),
    ("route-condition", |given, expect| {
        route_condition::run(given, expect).boxed_local()
    }),
    ("route-node-event", |given, expect| {
        async move { route_node_event::run(&given, &expect) }.boxed_local()
    }),
    ("route-cluster-cidr", |given, expect| {
        async move { route_cluster_cidr::run(&given, &expect) }.boxed_local()
    }),
    ("source-ranges", |given, expect| {
        async move { source_ranges::run(&given, &expect) }.boxed_local()
    }),
    ("zones", |given, expect| {
        async move { zones::run(given, &expect) }.boxed_local()
    }),
    ("volume-rounding", |given, expect| {
        async move { volume_rounding::run(&given, &expect) }.boxed_local()
    }),
    ("service-needs-update", |given, expect| {
        async move { service_needs_update::run(&given, &expect) }.boxed_local()
    }),
    ("service-wants-cleanup", |given, expect| {
        async move { service_wants_cleanup::run(&given, &expect) }.boxed_local()
    }),
    ("service-sync", |given, expect| {
        service_sync::run(given, expect).boxed_local()
    }),
    ("service-node-sync", |given, expect| {
        service_node_sync::run(given, expect).boxed_local()
    }),
    ("service-should-sync-nodes", |given, expect| {
        async move { service_should_sync_nodes::run(&given, &expect) }.boxed_local()
    }),
    ("service-node-eligibility", |given, expect| {
        async move { service_node_eligibility::run(&given, &expect) }.boxed_local()
    }),
    ("service-node-set-equal", |given, expect| {
        async move { service_node_set_equal::run(&given, &expect) }.boxed_local()
    }),
    ("service-host-names", |given, expect| {
        async move { service_host_names::run(&given, &expect) }.boxed_local()
    }),
    ("service-helpers", |given, expect| {
        async move { service_helpers::run(given, &expect) }.boxed_local()
    }),
    ("service-patch", |given, expect| {
        service_patch::run(given, expect).boxed_local()
    }),
];

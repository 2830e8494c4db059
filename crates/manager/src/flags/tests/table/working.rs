//! Flags of the process, the cloud and the controllers.

use super::*;

/// Section "Generic" of `--help`.
pub(super) const GENERIC: [Row; 14] = [
    row(
        "controllers",
        "strings",
        "*",
        &["--controllers=*,-service"],
        Both(
            "/Generic/Controllers",
            || json!(["*", "-service-lb-controller"]),
            |config| !config.settings().controllers.includes(SERVICE_CONTROLLER),
        ),
    ),
    row(
        "controller-start-interval",
        "duration",
        "0s",
        &["--controller-start-interval=1s"],
        Both(
            "/Generic/ControllerStartInterval",
            || json!("1s"),
            |config| config.settings().start_interval == secs(1),
        ),
    ),
    row(
        "min-resync-period",
        "duration",
        "12h0m0s",
        &["--min-resync-period=90m"],
        Both(
            "/Generic/MinResyncPeriod",
            || json!("1h30m0s"),
            |config| config.settings().min_resync_period == secs(5400),
        ),
    ),
    row(
        "kube-api-qps",
        "float32",
        "20",
        &["--kube-api-qps=7.5"],
        Both(
            "/Generic/ClientConnection/qps",
            || json!(7.5),
            |config| config.client_options.qps == Some(7.5),
        ),
    ),
    row(
        "kube-api-burst",
        "int32",
        "30",
        &["--kube-api-qps=1", "--kube-api-burst=0x10"],
        Both(
            "/Generic/ClientConnection/burst",
            || json!(16),
            |config| config.client_options.burst == 16,
        ),
    ),
    row(
        "kube-api-content-type",
        "string",
        "application/vnd.kubernetes.protobuf",
        &["--kube-api-content-type=application/json"],
        Configz("/Generic/ClientConnection/contentType", || {
            json!("application/json")
        }),
    ),
    row(
        "feature-gates",
        "map",
        "",
        &[
            "--feature-gates=CloudControllerManagerWebhook=true",
            "--webhooks=*",
        ],
        Opt(Configuration::serves_webhooks),
    ),
    row(
        "leader-elect",
        "bool",
        "true",
        &["--leader-elect=false"],
        Both(
            "/Generic/LeaderElection/leaderElect",
            || json!(false),
            |config| config.election.is_none(),
        ),
    ),
    row(
        "leader-elect-lease-duration",
        "duration",
        "15s",
        &["--leader-elect-lease-duration=1m"],
        Both(
            "/Generic/LeaderElection/leaseDuration",
            || json!("1m0s"),
            |config| config.election.as_ref().unwrap().lease_duration == secs(60),
        ),
    ),
    row(
        "leader-elect-renew-deadline",
        "duration",
        "10s",
        &["--leader-elect-renew-deadline=9s"],
        Both(
            "/Generic/LeaderElection/renewDeadline",
            || json!("9s"),
            |config| config.election.as_ref().unwrap().renew_deadline == secs(9),
        ),
    ),
    row(
        "leader-elect-retry-period",
        "duration",
        "2s",
        &["--leader-elect-retry-period=3s"],
        Configz("/Generic/LeaderElection/retryPeriod", || json!("3s")),
    ),
    // Only one value is valid, so a changed one shows in the error.
    row(
        "leader-elect-resource-lock",
        "string",
        "leases",
        &[
            "--leader-elect=false",
            "--leader-elect-resource-lock=endpoints",
        ],
        Configz("/Generic/LeaderElection/resourceLock", || {
            json!("endpoints")
        }),
    ),
    row(
        "leader-elect-resource-name",
        "string",
        "cloud-controller-manager",
        &["--leader-elect-resource-name=second"],
        Both(
            "/Generic/LeaderElection/resourceName",
            || json!("second"),
            |config| config.election.as_ref().unwrap().name == "second",
        ),
    ),
    row(
        "leader-elect-resource-namespace",
        "string",
        "kube-system",
        &["--leader-elect-resource-namespace=clouds"],
        Both(
            "/Generic/LeaderElection/resourceNamespace",
            || json!("clouds"),
            |config| config.election.as_ref().unwrap().namespace == "clouds",
        ),
    ),
];

/// Sections "Debugging" and "Leader-migration" of `--help`.
pub(super) const DEBUGGING: [Row; 4] = [
    row(
        "profiling",
        "bool",
        "true",
        &["--profiling=false"],
        Both(
            "/Generic/Debugging/enableProfiling",
            || json!(false),
            |config| !config.profiling,
        ),
    ),
    row(
        "contention-profiling",
        "bool",
        "false",
        &["--contention-profiling"],
        Configz("/Generic/Debugging/enableContentionProfiling", || {
            json!(true)
        }),
    ),
    row(
        "enable-leader-migration",
        "bool",
        "false",
        &["--enable-leader-migration"],
        Both(
            "/Generic/LeaderMigrationEnabled",
            || json!(true),
            |config| config.election.as_ref().unwrap().migration.is_some(),
        ),
    ),
    row(
        "leader-migration-config",
        "path",
        "",
        &["--enable-leader-migration", "--leader-migration-config=/a"],
        Opt(|config| {
            config
                .election
                .clone()
                .unwrap()
                .migration
                .unwrap()
                .file
                .unwrap()
                .as_os_str()
                == "/a"
        }),
    ),
];

/// Flags about the cloud, in section "Generic" of `--help`.
pub(super) const CLOUD: [Row; 12] = [
    row(
        "cloud-provider",
        "string",
        "",
        &["--cloud-provider=openstack"],
        Both(
            "/KubeCloudShared/CloudProvider/Name",
            || json!("openstack"),
            |config| config.cloud.provider == "openstack",
        ),
    ),
    row(
        "cloud-config",
        "path",
        "",
        &["--cloud-config=/a"],
        Both(
            "/KubeCloudShared/CloudProvider/CloudConfigFile",
            || json!("/a"),
            |config| config.cloud.config_file.as_deref() == Some("/a".as_ref()),
        ),
    ),
    row(
        "cluster-name",
        "string",
        "kubernetes",
        &["--cluster-name="],
        Both(
            "/KubeCloudShared/ClusterName",
            || json!(""),
            |config| config.cloud.cluster_name.is_empty(),
        ),
    ),
    row(
        "cluster-cidr",
        "string",
        "",
        &["--cluster-cidr= 10.244.3.4/16,fd00::/48 "],
        Both(
            "/KubeCloudShared/ClusterCIDR",
            || json!(" 10.244.3.4/16,fd00::/48 "),
            |config| {
                config
                    .options
                    .route
                    .cluster_cidrs
                    .iter()
                    .map(ToString::to_string)
                    .eq(["10.244.0.0/16", "fd00::/48"])
            },
        ),
    ),
    row(
        "allocate-node-cidrs",
        "bool",
        "false",
        &["--allocate-node-cidrs"],
        Warns,
    ),
    row(
        "cidr-allocator-type",
        "string",
        "RangeAllocator",
        &["--cidr-allocator-type=CloudAllocator"],
        Warns,
    ),
    row(
        "configure-cloud-routes",
        "bool",
        "true",
        &["--configure-cloud-routes=F"],
        Both(
            "/KubeCloudShared/ConfigureCloudRoutes",
            || json!(false),
            |config| !config.settings().configure_cloud_routes,
        ),
    ),
    row(
        "route-reconciliation-period",
        "duration",
        "10s",
        &["--route-reconciliation-period=30s"],
        Both(
            "/KubeCloudShared/RouteReconciliationPeriod",
            || json!("30s"),
            |config| config.options.route.reconciliation_period == secs(30),
        ),
    ),
    row(
        "use-service-account-credentials",
        "bool",
        "false",
        &["--use-service-account-credentials"],
        Both(
            "/KubeCloudShared/UseServiceAccountCredentials",
            || json!(true),
            |config| config.use_service_account_credentials,
        ),
    ),
    row(
        "allow-untagged-cloud",
        "bool",
        "false",
        &["--allow-untagged-cloud"],
        Both(
            "/KubeCloudShared/AllowUntaggedCloud",
            || json!(true),
            |config| config.cloud.allow_untagged,
        ),
    ),
    row(
        "node-sync-period",
        "duration",
        "0s",
        &["--node-sync-period=1m"],
        Warns,
    ),
    row(
        "external-cloud-volume-plugin",
        "string",
        "",
        &["--external-cloud-volume-plugin=openstack"],
        Warns,
    ),
];

/// Sections of the controllers in `--help`.
pub(super) const CONTROLLERS: [Row; 5] = [
    row(
        "concurrent-node-lifecycle-syncs",
        "int32",
        "1",
        &["--concurrent-node-lifecycle-syncs=3"],
        Both(
            "/NodeLifecycleController/ConcurrentNodeLifecycleSyncs",
            || json!(3),
            |config| config.options.lifecycle.concurrent_syncs == 3,
        ),
    ),
    row(
        "node-monitor-period",
        "duration",
        "5s",
        &["--node-monitor-period=500ms"],
        Both(
            "/NodeLifecycleController/NodeMonitorPeriod",
            || json!("500ms"),
            |config| config.options.lifecycle.monitor_period.as_millis() == 500,
        ),
    ),
    row(
        "concurrent-node-syncs",
        "int32",
        "1",
        &["--concurrent-node-syncs=0x3"],
        Both(
            "/NodeController/ConcurrentNodeSyncs",
            || json!(3),
            |config| config.options.node.concurrent_node_syncs == 3,
        ),
    ),
    row(
        "concurrent-node-status-updates",
        "int32",
        "0",
        &["--concurrent-node-status-updates=5"],
        Both(
            "/NodeController/ConcurrentNodeStatusUpdates",
            || json!(5),
            |config| config.options.node.concurrent_node_status_updates == 5,
        ),
    ),
    row(
        "concurrent-service-syncs",
        "int32",
        "1",
        &["--concurrent-service-syncs=3"],
        Both(
            "/ServiceController/ConcurrentServiceSyncs",
            || json!(3),
            |config| config.options.service.concurrent_syncs == 3,
        ),
    ),
];

//! The specification's tables of flags (§2 to §12), row by row, with the effect of one changed value.

use serde_json::{Value, json};

use crate::flags::Flags;

/// How much of a flag there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Must,
    Should,
    NoopAccept,
}

/// What a changed value changes.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// `/configz` at this pointer below the component's group.
    Configz(&'static str, fn() -> Value),
    /// An option of a part of the process.
    Option(fn(&Flags) -> bool),
    /// Nothing: it is said that it has none.
    Warns,
    /// It ends the program before there is a configuration; tests of their own.
    Says,
}

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// The reference's default.
    pub(super) reference: &'static str,
    /// Ours, where it differs (D-10).
    pub(super) ours: Option<&'static str>,
    pub(super) class: Class,
    pub(super) section: &'static str,
    /// Arguments with a changed value.
    pub(super) changed: &'static [&'static str],
    pub(super) effect: Effect,
}

const fn row(
    section: &'static str,
    (name, kind, reference, class): (&'static str, &'static str, &'static str, Class),
    changed: &'static [&'static str],
    effect: Effect,
) -> Row {
    Row { name, kind, reference, ours: None, class, section, changed, effect }
}

impl Row {
    /// With another default of ours.
    const fn ours(self, ours: &'static str) -> Self {
        Self { ours: Some(ours), ..self }
    }
}

use Class::{Must, NoopAccept, Should};
use Effect::{Configz, Option as Opt, Says, Warns};

const fn secs(seconds: u64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds)
}

/// §2: generic.
const GENERIC: [Row; 14] = [
    row(
        "Generic",
        ("controllers", "strings", "*", Must),
        &["--controllers=*,-service"],
        Configz("/Generic/Controllers", || json!(["*", "-service-lb-controller"])),
    ),
    row(
        "Generic",
        ("controller-start-interval", "duration", "0s", Should),
        &["--controller-start-interval=1s"],
        Configz("/Generic/ControllerStartInterval", || json!("1s")),
    ),
    row(
        "Generic",
        ("min-resync-period", "duration", "12h0m0s", Must),
        &["--min-resync-period=90m"],
        Configz("/Generic/MinResyncPeriod", || json!("1h30m0s")),
    ),
    row(
        "Generic",
        ("kube-api-qps", "float32", "20", Must),
        &["--kube-api-qps=7.5"],
        Configz("/Generic/ClientConnection/qps", || json!(7.5)),
    )
    .ours(""),
    row(
        "Generic",
        ("kube-api-burst", "int32", "30", Must),
        &["--kube-api-qps=1", "--kube-api-burst=0x10"],
        Configz("/Generic/ClientConnection/burst", || json!(16)),
    )
    .ours(""),
    row(
        "Generic",
        ("kube-api-content-type", "string", "application/vnd.kubernetes.protobuf", Must),
        &["--kube-api-content-type=application/json"],
        Configz("/Generic/ClientConnection/contentType", || json!("application/json")),
    ),
    row(
        "Generic",
        ("feature-gates", "map", "", Must),
        &["--feature-gates=CloudControllerManagerWebhook=true", "--webhooks=*"],
        Opt(Flags::serves_webhooks),
    ),
    row(
        "Generic",
        ("leader-elect", "bool", "true", Must),
        &["--leader-elect=false"],
        Configz("/Generic/LeaderElection/leaderElect", || json!(false)),
    ),
    row(
        "Generic",
        ("leader-elect-lease-duration", "duration", "15s", Must),
        &["--leader-elect-lease-duration=1m"],
        Configz("/Generic/LeaderElection/leaseDuration", || json!("1m0s")),
    ),
    row(
        "Generic",
        ("leader-elect-renew-deadline", "duration", "10s", Must),
        &["--leader-elect-renew-deadline=9s"],
        Configz("/Generic/LeaderElection/renewDeadline", || json!("9s")),
    ),
    row(
        "Generic",
        ("leader-elect-retry-period", "duration", "2s", Must),
        &["--leader-elect-retry-period=3s"],
        Configz("/Generic/LeaderElection/retryPeriod", || json!("3s")),
    ),
    // One value is legal, so a changed one has its effect in the error.
    row(
        "Generic",
        ("leader-elect-resource-lock", "string", "leases", Must),
        &["--leader-elect=false", "--leader-elect-resource-lock=endpoints"],
        Configz("/Generic/LeaderElection/resourceLock", || json!("endpoints")),
    ),
    row(
        "Generic",
        ("leader-elect-resource-name", "string", "cloud-controller-manager", Must),
        &["--leader-elect-resource-name=second"],
        Configz("/Generic/LeaderElection/resourceName", || json!("second")),
    ),
    row(
        "Generic",
        ("leader-elect-resource-namespace", "string", "kube-system", Must),
        &["--leader-elect-resource-namespace=clouds"],
        Configz("/Generic/LeaderElection/resourceNamespace", || json!("clouds")),
    ),
];

/// §3 and §4: debugging, leader migration.
const DEBUGGING: [Row; 4] = [
    row(
        "Debugging",
        ("profiling", "bool", "true", Must),
        &["--profiling=false"],
        Configz("/Generic/Debugging/enableProfiling", || json!(false)),
    ),
    row(
        "Debugging",
        ("contention-profiling", "bool", "false", Should),
        &["--contention-profiling"],
        Configz("/Generic/Debugging/enableContentionProfiling", || json!(true)),
    ),
    row(
        "Leader-migration",
        ("enable-leader-migration", "bool", "false", Should),
        &["--enable-leader-migration"],
        Configz("/Generic/LeaderMigrationEnabled", || json!(true)),
    ),
    row(
        "Leader-migration",
        ("leader-migration-config", "path", "", Should),
        &["--enable-leader-migration", "--leader-migration-config=/a"],
        Opt(|flags| flags.election().unwrap().migration.unwrap().file.unwrap().as_os_str() == "/a"),
    ),
];

/// §5: the cloud.
const CLOUD: [Row; 13] = [
    row(
        "Generic",
        ("cloud-provider", "string", "", Must),
        &["--cloud-provider=openstack"],
        Configz("/KubeCloudShared/CloudProvider/Name", || json!("openstack")),
    ),
    row(
        "Generic",
        ("cloud-config", "path", "", Must),
        &["--cloud-config=/a"],
        Configz("/KubeCloudShared/CloudProvider/CloudConfigFile", || json!("/a")),
    ),
    row(
        "Generic",
        ("cluster-name", "string", "kubernetes", Must),
        &["--cluster-name="],
        Configz("/KubeCloudShared/ClusterName", || json!("")),
    ),
    row(
        "Generic",
        ("cluster-cidr", "string", "", Must),
        &["--cluster-cidr=10.0.0.0/8"],
        Configz("/KubeCloudShared/ClusterCIDR", || json!("10.0.0.0/8")),
    ),
    row("Generic", ("allocate-node-cidrs", "bool", "false", Must), &["--allocate-node-cidrs"], Warns),
    row(
        "Generic",
        ("cidr-allocator-type", "string", "RangeAllocator", NoopAccept),
        &["--cidr-allocator-type=CloudAllocator"],
        Warns,
    ),
    row(
        "Generic",
        ("configure-cloud-routes", "bool", "true", Must),
        &["--configure-cloud-routes=F"],
        Configz("/KubeCloudShared/ConfigureCloudRoutes", || json!(false)),
    ),
    row(
        "Generic",
        ("route-reconciliation-period", "duration", "10s", Must),
        &["--route-reconciliation-period=30s"],
        Configz("/KubeCloudShared/RouteReconciliationPeriod", || json!("30s")),
    ),
    row(
        "Generic",
        ("node-monitor-period", "duration", "5s", Must),
        &["--node-monitor-period=1s"],
        Configz("/KubeCloudShared/NodeMonitorPeriod", || json!("1s")),
    ),
    row(
        "Generic",
        ("use-service-account-credentials", "bool", "false", Must),
        &["--use-service-account-credentials"],
        Configz("/KubeCloudShared/UseServiceAccountCredentials", || json!(true)),
    ),
    row(
        "Generic",
        ("allow-untagged-cloud", "bool", "false", Must),
        &["--allow-untagged-cloud"],
        Configz("/KubeCloudShared/AllowUntaggedCloud", || json!(true)),
    ),
    row("Generic", ("node-sync-period", "duration", "0s", NoopAccept), &["--node-sync-period=1m"], Warns),
    row(
        "Generic",
        ("external-cloud-volume-plugin", "string", "", NoopAccept),
        &["--external-cloud-volume-plugin=openstack"],
        Warns,
    ),
];

/// §6: controllers.
const CONTROLLERS: [Row; 3] = [
    row(
        "Cloud-node-controller",
        ("concurrent-node-syncs", "int32", "1", Must),
        &["--concurrent-node-syncs=1"],
        Configz("/NodeController/ConcurrentNodeSyncs", || json!(1)),
    )
    .ours("16"),
    row(
        "Cloud-node-controller",
        ("concurrent-node-status-updates", "int32", "0", Should),
        &["--concurrent-node-status-updates=5"],
        Configz("/NodeController/ConcurrentNodeStatusUpdates", || json!(5)),
    ),
    row(
        "Service-lb-controller",
        ("concurrent-service-syncs", "int32", "1", Must),
        &["--concurrent-service-syncs=3"],
        Configz("/ServiceController/ConcurrentServiceSyncs", || json!(3)),
    )
    .ours("16"),
];

/// §7: webhooks.
const WEBHOOKS: [Row; 11] = [
    row(
        "Webhook",
        ("webhooks", "strings", "", Should),
        &["--webhooks=pvlabel"],
        Configz("/Webhook/Webhooks", || json!(["pvlabel"])),
    ),
    row(
        "Webhook serving",
        ("webhook-bind-address", "ip", "0.0.0.0", Should),
        &["--webhook-bind-address=::1"],
        Opt(|flags| flags.webhook_serving().bind_address.is_loopback()),
    ),
    row(
        "Webhook serving",
        ("webhook-secure-port", "int", "10260", Must),
        &["--webhook-secure-port=0"],
        Opt(|flags| flags.webhook_serving().port == 0),
    ),
    row(
        "Webhook serving",
        ("webhook-cert-dir", "path", "", Should),
        &["--webhook-cert-dir=/a"],
        Opt(|flags| {
            let options = flags.webhook_serving();
            options.cert_dir.unwrap().as_os_str() == "/a" && options.pair_name == "cloud-controller-manager-webhook"
        }),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-cert-file", "path", "", Should),
        &["--webhook-tls-cert-file=/c", "--webhook-tls-private-key-file=/k"],
        Opt(|flags| flags.webhook_serving().certificate.unwrap().certificate.as_os_str() == "/c"),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-private-key-file", "path", "", Should),
        &["--webhook-tls-cert-file=/c", "--webhook-tls-private-key-file=/k"],
        Opt(|flags| flags.webhook_serving().certificate.unwrap().key.as_os_str() == "/k"),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-cipher-suites", "strings", "", Should),
        &["--webhook-tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        Opt(|flags| flags.webhook_serving().cipher_suites.len() == 1),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-curve-preferences", "int32 list", "", Should),
        &["--webhook-tls-curve-preferences=29"],
        Opt(|flags| flags.webhook_serving().curve_preferences == [29]),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-min-version", "string", "", Should),
        &["--webhook-tls-min-version=VersionTLS13"],
        Opt(|flags| flags.webhook_serving().min_version == serving::options::TlsVersion::V1_3),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-sni-cert-key", "pair", "", Should),
        &["--webhook-tls-sni-cert-key=/c,/k:a.example"],
        Opt(|flags| flags.webhook_serving().sni[0].names == ["a.example"]),
    ),
    row(
        "Webhook serving",
        ("webhook-disable-http2-serving", "bool", "false", Should),
        &["--webhook-disable-http2-serving"],
        Opt(|flags| flags.webhook_serving().disable_http2),
    ),
];

/// §8: secure serving.
const SERVING: [Row; 13] = [
    row(
        "Secure serving",
        ("bind-address", "ip", "0.0.0.0", Must),
        &["--bind-address=127.0.0.1"],
        Opt(|flags| flags.serving().bind_address.is_loopback()),
    ),
    row(
        "Secure serving",
        ("secure-port", "int", "10258", Must),
        &["--secure-port=10253"],
        Opt(|flags| flags.serving().port == 10253),
    ),
    row(
        "Secure serving",
        ("cert-dir", "path", "", Must),
        &["--cert-dir=/a"],
        Opt(|flags| flags.serving().cert_dir.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Secure serving",
        ("tls-cert-file", "path", "", Must),
        &["--tls-cert-file=/c", "--tls-private-key-file=/k"],
        Opt(|flags| flags.serving().certificate.unwrap().certificate.as_os_str() == "/c"),
    ),
    row(
        "Secure serving",
        ("tls-private-key-file", "path", "", Must),
        &["--tls-cert-file=/c", "--tls-private-key-file=/k"],
        Opt(|flags| flags.serving().certificate.unwrap().key.as_os_str() == "/k"),
    ),
    row(
        "Secure serving",
        ("tls-sni-cert-key", "pair", "", Should),
        &["--tls-sni-cert-key=/c,/k:*.a.example,b", "--tls-sni-cert-key=/d,/l"],
        Opt(|flags| {
            let sni = flags.serving().sni;
            sni.len() == 2
                && sni[0].names == ["*.a.example", "b"]
                && sni[1].files.key.as_os_str() == "/l"
                && sni[1].names.is_empty()
        }),
    ),
    row(
        "Secure serving",
        ("tls-cipher-suites", "strings", "", Should),
        &["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA"],
        Opt(|flags| flags.serving().cipher_suites.len() == 2),
    ),
    row(
        "Secure serving",
        ("tls-min-version", "string", "", Should),
        &["--tls-min-version=VersionTLS13"],
        Opt(|flags| flags.serving().min_version == serving::options::TlsVersion::V1_3),
    ),
    row(
        "Secure serving",
        ("tls-curve-preferences", "int32 list", "", Should),
        &["--tls-curve-preferences=29,23", "--tls-curve-preferences=24"],
        Opt(|flags| flags.serving().curve_preferences == [29, 23, 24]),
    ),
    row(
        "Secure serving",
        ("http2-max-streams-per-connection", "int", "0", Should),
        &["--http2-max-streams-per-connection=250"],
        Opt(|flags| flags.serving().http2_max_streams == 250),
    ),
    row(
        "Secure serving",
        ("disable-http2-serving", "bool", "false", Should),
        &["--disable-http2-serving"],
        Opt(|flags| flags.serving().disable_http2),
    ),
    row(
        "Secure serving",
        ("permit-port-sharing", "bool", "false", Should),
        &["--permit-port-sharing"],
        Opt(|flags| flags.serving().permit_port_sharing),
    ),
    row(
        "Secure serving",
        ("permit-address-sharing", "bool", "false", Should),
        &["--permit-address-sharing"],
        Opt(|flags| flags.serving().permit_address_sharing),
    ),
];

/// §9: authentication.
const AUTHENTICATION: [Row; 11] = [
    row(
        "Authentication",
        ("authentication-kubeconfig", "path", "", Must),
        &["--authentication-kubeconfig=/a"],
        Opt(|flags| flags.authentication().kubeconfig.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authentication",
        ("authentication-skip-lookup", "bool", "false", Must),
        &["--authentication-skip-lookup"],
        Opt(|flags| flags.authentication().skip_lookup),
    ),
    row(
        "Authentication",
        ("authentication-tolerate-lookup-failure", "bool", "false", Must),
        &["--authentication-tolerate-lookup-failure"],
        Opt(|flags| flags.authentication().tolerate_lookup_failure),
    ),
    row(
        "Authentication",
        ("authentication-token-webhook-cache-ttl", "duration", "10s", Should),
        &["--authentication-token-webhook-cache-ttl=-1s"],
        Opt(|flags| flags.authentication().token_cache_ttl.is_zero()),
    ),
    row(
        "Authentication",
        ("client-ca-file", "path", "", Should),
        &["--client-ca-file=/a"],
        Opt(|flags| flags.authentication().client_ca_file.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authentication",
        ("requestheader-client-ca-file", "path", "", Should),
        &["--requestheader-client-ca-file=/a"],
        Opt(|flags| flags.authentication().request_header.client_ca_file.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authentication",
        ("requestheader-allowed-names", "strings", "", Should),
        &["--requestheader-allowed-names=a,b"],
        Opt(|flags| flags.authentication().request_header.allowed_names == ["a", "b"]),
    ),
    row(
        "Authentication",
        ("requestheader-username-headers", "strings", "x-remote-user", Should),
        &["--requestheader-username-headers=x-user,x-remote-user"],
        Opt(|flags| flags.authentication().request_header.username_headers == ["x-user", "x-remote-user"]),
    ),
    row(
        "Authentication",
        ("requestheader-uid-headers", "strings", "", Should),
        &["--requestheader-uid-headers=x-remote-uid"],
        Opt(|flags| flags.authentication().request_header.uid_headers == ["x-remote-uid"]),
    ),
    row(
        "Authentication",
        ("requestheader-group-headers", "strings", "x-remote-group", Should),
        &["--requestheader-group-headers=a"],
        Opt(|flags| flags.authentication().request_header.group_headers == ["a"]),
    ),
    row(
        "Authentication",
        ("requestheader-extra-headers-prefix", "strings", "x-remote-extra-", Should),
        &["--requestheader-extra-headers-prefix=a-"],
        Opt(|flags| flags.authentication().request_header.extra_prefixes == ["a-"]),
    ),
];

/// §10 and §11: authorization, misc.
const AUTHORIZATION: [Row; 7] = [
    row(
        "Authorization",
        ("authorization-kubeconfig", "path", "", Must),
        &["--authorization-kubeconfig=/a"],
        Opt(|flags| flags.authorization().kubeconfig.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authorization",
        ("authorization-always-allow-paths", "strings", "/healthz,/readyz,/livez", Must),
        &["--authorization-always-allow-paths=\"/metrics\""],
        Opt(|flags| flags.authorization().always_allow_paths == ["/metrics"]),
    ),
    row(
        "Authorization",
        ("authorization-webhook-cache-authorized-ttl", "duration", "10s", Should),
        &["--authorization-webhook-cache-authorized-ttl=1m"],
        Opt(|flags| flags.authorization().allowed_ttl == secs(60)),
    ),
    row(
        "Authorization",
        ("authorization-webhook-cache-unauthorized-ttl", "duration", "10s", Should),
        &["--authorization-webhook-cache-unauthorized-ttl=1m"],
        Opt(|flags| flags.authorization().denied_ttl == secs(60)),
    ),
    row(
        "Misc",
        ("kubeconfig", "path", "", Must),
        &["--kubeconfig=/a"],
        Configz("/Generic/ClientConnection/kubeconfig", || json!("/a")),
    ),
    row(
        "Misc",
        ("master", "string", "", Must),
        &["--master=https://a"],
        Opt(|flags| flags.client_options().master.as_deref() == Some("https://a")),
    ),
    row(
        "Misc",
        ("node-status-update-frequency", "duration", "5m0s", Must),
        &["--node-status-update-frequency=10s"],
        Configz("/NodeStatusUpdateFrequency", || json!("10s")),
    ),
];

/// §12: global and logging.
const GLOBAL: [Row; 10] = [
    row("Global", ("help", "bool", "", Must), &["--help"], Says),
    row(
        "Global",
        ("version", "version", "false", Must),
        &["--version=v1.35.0-acme.1"],
        Opt(|flags| flags.client_options().user_agent.version == "v1.35.0-acme.1"),
    ),
    row("Global", ("v", "int32", "0", Must), &["-v", "4"], Opt(|flags| flags.logging().verbosity == 4)),
    row(
        "Global",
        ("vmodule", "string", "", Should),
        &["--vmodule=route*=4"],
        Opt(|flags| flags.logging().vmodule.iter().eq([("route*", 4)])),
    ),
    row(
        "Global",
        ("log-flush-frequency", "duration", "5s", Should),
        &["--log-flush-frequency=1s"],
        Opt(|flags| flags.logging().flush_frequency == secs(1)),
    ),
    row(
        "Global",
        ("logging-format", "string", "text", Must),
        &["--logging-format=json"],
        Opt(|flags| flags.logging().format == crate::logging::Format::Json),
    ),
    row(
        "Global",
        ("log-text-split-stream", "bool", "false", Should),
        &["--log-text-split-stream", "--feature-gates=LoggingAlphaOptions=true"],
        Opt(|flags| flags.logging().text.split),
    ),
    row(
        "Global",
        ("log-text-info-buffer-size", "quantity", "0", Should),
        &["--log-text-info-buffer-size=2Ki", "--feature-gates=LoggingAlphaOptions=true"],
        Opt(|flags| flags.logging().text.info_buffer_size == 2048),
    ),
    row(
        "Global",
        ("log-json-split-stream", "bool", "false", Should),
        &["--log-json-split-stream", "--feature-gates=AllAlpha=true"],
        Opt(|flags| flags.logging().json.split),
    ),
    row(
        "Global",
        ("log-json-info-buffer-size", "quantity", "0", Should),
        &["--log-json-info-buffer-size=1K", "--feature-gates=LoggingAlphaOptions=true"],
        Opt(|flags| flags.logging().json.info_buffer_size == 1000),
    ),
];

/// Every row.
pub(super) fn rows() -> Vec<Row> {
    let sections: [&[Row]; 9] =
        [&GENERIC, &DEBUGGING, &CLOUD, &CONTROLLERS, &WEBHOOKS, &SERVING, &AUTHENTICATION, &AUTHORIZATION, &GLOBAL];
    sections.concat()
}

/// This project's own flags, with type, default and section.
pub(super) const OWN: [(&str, &str, &str, &str); 11] = [
    ("default-load-balancer", "bool", "true", "Service-lb-controller"),
    ("explain", "bool", "true", "Generic"),
    ("load-balancer-classes", "strings", "", "Service-lb-controller"),
    ("load-balancer-drift", "string", "report", "Service-lb-controller"),
    ("load-balancer-drift-check-period", "duration", "0s", "Service-lb-controller"),
    ("metrics-bind-address", "address", "", "Secure serving"),
    ("node-deletion", "string", "on", "Cloud-node-lifecycle-controller"),
    ("node-deletion-guard", "bool", "true", "Cloud-node-lifecycle-controller"),
    ("node-deletion-guard-delay", "duration", "5m0s", "Cloud-node-lifecycle-controller"),
    ("node-deletion-guard-share", "float64", "0.5", "Cloud-node-lifecycle-controller"),
    ("shutdown-timeout", "duration", "10s", "Generic"),
];

/// §14: flags that are accepted for nothing, each with a value.
pub(super) const EXTRA: [&str; 17] = [
    "--logtostderr=true",
    "--alsologtostderr",
    "--log-dir=/var/log",
    "--log-file=/var/log/ccm.log",
    "--log-file-max-size=1800",
    "--stderrthreshold=2",
    "--skip-headers",
    "--skip-log-headers",
    "--add-dir-header",
    "--one-output",
    "--log-backtrace-at=main.go:10",
    "--port=0",
    "--address=127.0.0.1",
    "--show-hidden-metrics-for-version=1.34",
    "--disabled-metrics=a,b",
    "--allow-metric-labels=metric,label=value",
    "--allow-metric-labels-manifest=/a",
];

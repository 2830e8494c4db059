//! Tests of every flag, its default and its error messages.

mod documents;
mod manifests;
mod parsing;
mod rows;
mod table;
mod validation;

use super::*;
use std::time::Duration;

use ::controllers::Options;

use ::controllers::options::{
    Drift, GuardOptions, LifecycleOptions, NodeDeletion, NodeOptions, RouteMode, RouteOptions, ServiceOptions,
};
use cloud_provider::names::{NODE_CONTROLLER, SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER};

fn parse(arguments: &[&str]) -> Parsed {
    Flags::parse(std::iter::once(&COMMAND).chain(arguments).map(OsString::from))
}

fn flags(arguments: &[&str]) -> Flags {
    match parse(&[&["--cloud-provider=simulated"], arguments].concat()) {
        Parsed::Flags(flags) => *flags,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

fn wrong(arguments: &[&str]) -> String {
    match parse(&[&["--cloud-provider=simulated"], arguments].concat()) {
        Parsed::Wrong(text) => text,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

#[test]
fn without_flags_the_controllers_are_the_product() {
    assert_eq!(flags(&[]).configuration().options, Options::default());
}

#[test]
fn every_flag_reaches_its_option() {
    let options = flags(&[
        "--concurrent_node_syncs=0x3",
        "--concurrent-node-status-updates",
        "2",
        "--node-status-update-frequency=1m",
        "--adopt-nodes",
        "--refresh-node-labels=true",
        "--node-monitor-period=500ms",
        "--node-deletion=dry-run",
        "--node-deletion-guard-share=0.25",
        "--node-deletion-guard-delay=10s",
        "--explain=F",
        "--concurrent-service-syncs=3",
        "--load-balancer-classes=a,\"b,c\"",
        "--load-balancer-classes=d",
        "--default-load-balancer=false",
        "--load-balancer-drift-check-period=10m",
        "--load-balancer-drift=repair",
        "--exclude-nodes-without-network",
        "--cluster-cidr= 10.244.3.4/16,fd00::/48 ",
        "--route-reconciliation-period=30s",
        "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
    ])
    .configuration()
    .options;
    assert_eq!(
        options,
        Options {
            node: NodeOptions {
                concurrent_node_syncs: 3,
                concurrent_node_status_updates: 2,
                status_update_frequency: Duration::from_secs(60),
                adopt: true,
                refresh_labels: true,
            },
            lifecycle: LifecycleOptions {
                monitor_period: Duration::from_millis(500),
                deletion: NodeDeletion::DryRun,
                guard: Some(GuardOptions { share: 0.25, delay: Duration::from_secs(10) }),
            },
            service: ServiceOptions {
                concurrent_syncs: 3,
                classes: ["a", "b,c", "d"].map(str::to_owned).into(),
                is_default: false,
                drift_check_period: Duration::from_secs(600),
                drift: Drift::Repair,
                exclude_without_network: true,
                vanished: Some(GuardOptions { share: 0.25, delay: Duration::from_secs(10) }),
                ..ServiceOptions::default()
            },
            route: RouteOptions {
                cluster_cidrs: vec!["10.244.0.0/16".parse().unwrap(), "fd00::/48".parse().unwrap()],
                reconciliation_period: Duration::from_secs(30),
                mode: RouteMode::Watch,
                concurrency: 200,
            },
            explain: false,
        }
    );
    assert_eq!(flags(&["--node-deletion-guard=false"]).configuration().options.lifecycle.guard, None);
    assert!(flags(&["--allow-untagged-cloud"]).cloud.allow_untagged_cloud);
    assert_eq!(flags(&["-v4"]).verbosity, 4);
    assert_eq!(flags(&["--v=2", "-v=6"]).verbosity, 6, "the last one counts");
}

#[test]
fn what_cannot_be_used_is_named_with_what_to_do() {
    let table: [(&[&str], &str); 18] = [
        (
            &["--cloud-config-change=restart"],
            "invalid argument \"restart\" for \"--cloud-config-change\" flag: \"restart\" is not one of reload, exit, ignore",
        ),
        (
            &["--load-balancer-drift=fix"],
            "invalid argument \"fix\" for \"--load-balancer-drift\" flag: \"fix\" is not one of report, repair",
        ),
        (
            &["--load-balancer-drift-check-period=-1s"],
            "load-balancer-drift-check-period is -1s, it must not be negative",
        ),
        (&["--route-reconciliation-period=0s"], "route-reconciliation-period is 0s, it must be longer than 0s"),
        (&["--concurrent-service-syncs=-1"], "concurrent-service-syncs must be a positive number"),
        (
            &["--controllers=*,foo"],
            "\"foo\" is not in the list of known controllers; known are *, cloud-node-controller (cloud-node), \
             cloud-node-lifecycle-controller (cloud-node-lifecycle), node-route-controller (route), \
             service-lb-controller (service), persistent-volume-label-controller (pvlabel)",
        ),
        (
            &["--feature-gates=WatchList"],
            "invalid argument \"WatchList\" for \"--feature-gates\" flag: missing bool value for WatchList",
        ),
        (
            &["--controllers=a\"b"],
            "invalid argument \"a\\\"b\" for \"--controllers\" flag: parse error: bare \" in non-quoted field \"a\\\"b\"",
        ),
        (&["--node-monitor-period=0"], "node-monitor-period is 0s, it must be longer than 0s"),
        (
            &["--cloud-provder=x"],
            "unknown flag: --cloud-provder; did you mean --cloud-provider? see 'cloud-controller-manager --help'",
        ),
        (&["--zzz"], "unknown flag: --zzz; see 'cloud-controller-manager --help'"),
        (
            &["--explain=maybe"],
            "invalid argument \"maybe\" for \"--explain\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            &["--node-monitor-period=abc"],
            "invalid argument \"abc\" for \"--node-monitor-period\" flag: time: invalid duration \"abc\"",
        ),
        (
            &["--concurrent-node-syncs=9999999999"],
            "invalid argument \"9999999999\" for \"--concurrent-node-syncs\" flag: strconv.ParseInt: parsing \"9999999999\": value out of range",
        ),
        (
            &["--node-deletion=maybe"],
            "invalid argument \"maybe\" for \"--node-deletion\" flag: \"maybe\" is not one of on, dry-run, off",
        ),
        (&["--explain", "false"], "\"cloud-controller-manager\" does not take any arguments, got [\"false\"]"),
        (&["--concurrent-node-syncs=0"], "concurrent-node-syncs must be a positive number"),
        (
            &["--concurrent-node-syncs=0", "--node-deletion-guard-share=2"],
            "concurrent-node-syncs must be a positive number\nError: node-deletion-guard-share is 2, it must be between 0 and 1",
        ),
    ];
    for (arguments, text) in table {
        // The accepted values follow the text.
        assert!(wrong(arguments).starts_with(text), "{text}\n{}", wrong(arguments));
    }
    assert!(matches!(parse(&[]), Parsed::Wrong(text) if text == "--cloud-provider cannot be empty"));
}

#[test]
fn help_is_no_error() {
    let Parsed::Say(help) = parse(&["--help"]) else { panic!("no help") };
    let mut rest = &*help;
    for part in ["Joins a Kubernetes cluster", "Usage:", "\n  plan ", "--cluster-cidr", "Service-lb-controller:"] {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing, or too early, in:\n{help}")).1;
    }
    assert!(matches!(parse(&["--help"]), Parsed::Say(text) if text.contains("--node-deletion-guard-share")));
    assert!(matches!(parse(&["--version"]), Parsed::Say(text) if text == format!("Kubernetes {KUBERNETES_VERSION}\n")));
}

#[test]
fn version_and_help_are_subcommands_and_a_misspelt_one_gets_a_suggestion() {
    let Parsed::Say(version) = parse(&["version"]) else { panic!("no version") };
    assert!(
        version.starts_with(&format!("cloud-controller-manager v{} (commit ", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    assert!(version.ends_with(&format!("for Kubernetes {KUBERNETES_VERSION}\n")), "{version}");
    assert!(matches!(parse(&["help"]), Parsed::Say(text) if text.contains("--cluster-cidr")));
    assert!(matches!(parse(&["help", "version"]), Parsed::Say(text) if text.contains("print the versions")));
    for arguments in [&["dokter"][..], &["help", "dokter"]] {
        let Parsed::Wrong(text) = parse(arguments) else { panic!("{arguments:?}") };
        assert!(text.contains("did you mean \"doctor\"?"), "{text}");
    }
}

#[test]
fn the_settings_say_which_controllers_run() {
    let settings = flags(&[]).configuration().settings();
    assert!(settings.configure_cloud_routes);
    assert!(
        settings.controllers.includes(SERVICE_CONTROLLER) && !settings.controllers.includes(VOLUME_LABEL_CONTROLLER)
    );
    let settings = flags(&[
        "--controllers=pvlabel",
        "--controllers=\"cloud-node\"",
        "--configure-cloud-routes=false",
        "--allocate-node-cidrs",
    ])
    .configuration()
    .settings();
    assert!(!settings.configure_cloud_routes);
    assert!(settings.controllers.includes(NODE_CONTROLLER) && settings.controllers.includes(VOLUME_LABEL_CONTROLLER));
    assert!(!settings.controllers.includes(SERVICE_CONTROLLER), "the first occurrence replaces the default");
    assert!(!flags(&["--controllers="]).configuration().settings().controllers.includes(NODE_CONTROLLER), "APP-32");
}

#[test]
fn the_ranges_of_the_cluster_are_needed_only_where_there_are_routes() {
    for wrong in ["", "10.0.0.0", "10.0.0.0/8, fd00::/8", "10.0.0.0/8,10.1.0.0/16", "10.0.0.0/8,fd00::/8,fe00::/8"] {
        let flags = flags(&[&format!("--cluster-cidr={wrong}")]);
        let error = flags.configuration().route.cidr_error.unwrap();
        assert!(error.contains("--cluster-cidr=") && error.contains("--configure-cloud-routes=false"), "{error}");
    }
    assert!(flags(&[]).configuration().route.cidr_error.unwrap().starts_with("invalid CIDR[0]"));
}

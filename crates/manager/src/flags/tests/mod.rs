//! Tests of every flag, its default and its error messages.

mod documents;
mod go_manager;
mod manifests;
mod parsing;
mod programs;
mod rows;
mod table;
mod validation;
mod wrong_values;

use super::*;
use ::controllers::Options;
use ::controllers::options::RouteMode;
use cloud_provider::names::{NODE_CONTROLLER, SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER};

fn parse(arguments: &[&str]) -> Parsed {
    Flags::parse(
        std::iter::once(&COMMAND)
            .chain(arguments)
            .map(OsString::from),
    )
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
fn configuration_without_flags_has_the_default_options() {
    assert_eq!(flags(&[]).configuration().options, Options::default());
}

#[test]
fn gate_for_routes_selects_their_mode() {
    let gate = "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true";
    assert_eq!(
        flags(&[gate]).configuration().options.route.mode,
        RouteMode::Watch
    );
}

#[test]
fn gate_for_native_histograms_is_beta_and_enabled() {
    let table = [
        ("", true),
        ("AllAlpha=false", true),
        ("NativeHistograms=false", false),
        ("AllBeta=false", false),
        ("AllBeta=false,NativeHistograms=true", true),
    ];
    for (gates, expected) in table {
        let settings = flags(&[&format!("--feature-gates={gates}")])
            .configuration()
            .settings();
        assert_eq!(
            settings.metrics.has_native_histograms(),
            expected,
            "{gates}"
        );
    }
}

#[test]
fn help_and_version_end_the_program_without_an_error() {
    let Parsed::Say(help) = parse(&["--help"]) else {
        panic!("no help")
    };
    let mut rest = &*help;
    for part in [
        "Joins a Kubernetes cluster",
        "Usage:",
        "\n  plan ",
        "--cluster-cidr",
        "Service-lb-controller:",
    ] {
        rest = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("{part:?} is missing, or too early, in:\n{help}"))
            .1;
    }
    assert!(
        matches!(parse(&["--help"]), Parsed::Say(text) if text.contains("--node-deletion-guard-share"))
    );
    let Parsed::Say(version) = parse(&["--version"]) else {
        panic!("no version")
    };
    let lines: Vec<_> = version.lines().collect();
    let product = format!("ccm-rs v{} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(
        lines.len() == 2 && lines[0] == format!("Kubernetes {KUBERNETES_VERSION}"),
        "{version}"
    );
    assert!(lines[1].starts_with(&product), "{version}");
}

#[test]
fn version_and_help_are_subcommands_and_a_misspelt_one_gets_a_suggestion() {
    let Parsed::Say(version) = parse(&["version"]) else {
        panic!("no version")
    };
    assert!(
        version.starts_with(&format!("ccm-rs v{} (commit ", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    let end = format!("), run as cloud-controller-manager, for Kubernetes {KUBERNETES_VERSION}\n");
    assert!(version.ends_with(&end), "{version}");
    assert!(matches!(parse(&["help"]), Parsed::Say(text) if text.contains("--cluster-cidr")));
    assert!(
        matches!(parse(&["help", "version"]), Parsed::Say(text) if text.contains("print the versions"))
    );
    for arguments in [&["dokter"][..], &["help", "dokter"]] {
        let Parsed::Wrong(text) = parse(arguments) else {
            panic!("{arguments:?}")
        };
        assert!(text.contains("did you mean \"doctor\"?"), "{text}");
    }
}

#[test]
fn settings_select_the_controllers() {
    let settings = flags(&[]).configuration().settings();
    assert!(settings.configure_cloud_routes);
    assert!(
        settings.controllers.includes(SERVICE_CONTROLLER)
            && !settings.controllers.includes(VOLUME_LABEL_CONTROLLER)
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
    assert!(
        settings.controllers.includes(NODE_CONTROLLER)
            && settings.controllers.includes(VOLUME_LABEL_CONTROLLER)
    );
    assert!(
        !settings.controllers.includes(SERVICE_CONTROLLER),
        "the first occurrence replaces the default"
    );
    assert!(
        !flags(&["--controllers="])
            .configuration()
            .settings()
            .controllers
            .includes(NODE_CONTROLLER),
        "APP-32"
    );
}

#[test]
fn cluster_cidr_is_required_only_with_routes() {
    let families = "it must be one range, or one of IPv4 and one of IPv6";
    for (wrong, reason) in [
        ("", "a range is missing"),
        ("foo", "\"foo\" is not a range such as 10.244.0.0/16"),
        (
            "10.0.0.0",
            "\"10.0.0.0\" is not a range such as 10.244.0.0/16",
        ),
        ("10.0.0.0/8, fd00::/8", "\" fd00::/8\" has a space"),
        ("10.0.0.0/8,10.1.0.0/16", families),
        ("10.0.0.0/8,fd00::/8,fe00::/8", families),
    ] {
        let flags = flags(&[&format!("--cluster-cidr={wrong}")]);
        let error = flags.configuration().route.cidr_error.unwrap();
        assert!(
            error.starts_with("--cluster-cidr=")
                && error.contains("--configure-cloud-routes=false"),
            "{error}"
        );
        assert!(error.contains(&format!("for routes: {reason};")), "{error}");
    }
    assert!(
        flags(&[])
            .configuration()
            .route
            .cidr_error
            .unwrap()
            .starts_with("--cluster-cidr=\"\" is not usable")
    );
}

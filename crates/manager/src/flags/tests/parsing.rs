//! Parsing of arguments (FLAG-1 to FLAG-9, FLAG-60).

use super::{flags, parse, wrong};
use crate::flags::Parsed;

#[test]
fn booleans_take_gos_words_and_only_attached() {
    for word in ["1", "t", "T", "true", "True", "TRUE"] {
        assert!(!flags(&["--leader-elect=false", &format!("--explain={word}")]).leader_election.leader_elect);
    }
    for word in ["0", "f", "F", "false", "False", "FALSE"] {
        assert!(!flags(&[&format!("--leader-elect={word}")]).leader_election.leader_elect, "{word}");
    }
    assert!(wrong(&["--leader-elect", "false"]).contains("does not take any arguments, got [\"false\"]"));
    assert!(wrong(&["--leader-elect="]).starts_with("invalid argument \"\" for \"--leader-elect\" flag: "));
}

#[test]
fn names_may_have_underscores_and_short_ones_exist_for_two() {
    assert_eq!(flags(&["--cluster_name=a_b"]).cloud.cluster_name, "a_b");
    for arguments in [&["-v4"][..], &["-v=4"], &["-v", "4"], &["--v=4"], &["--v", "4"], &["-v", "0x4"]] {
        assert_eq!(flags(arguments).configuration().logging.verbosity, 4, "{arguments:?}");
    }
    assert!(matches!(parse(&["-h"]), Parsed::Say(_)));
    assert!(wrong(&["-cluster-name=a"]).contains("unknown flag"), "{}", wrong(&["-cluster-name=a"]));
}

#[test]
fn the_argument_after_a_flag_is_its_value_whatever_it_looks_like() {
    assert_eq!(flags(&["--cluster-name", "--leader-elect=false"]).cloud.cluster_name, "--leader-elect=false");
    assert_eq!(flags(&["--controllers", "-cloud-node,*"]).controllers.canonical(), ["-cloud-node-controller", "*"]);
    assert_eq!(flags(&["--cloud-config", ""]).cloud.cloud_config.as_deref(), None);
    assert_eq!(flags(&["--bind-address="]).configuration().serving.bind_address.to_string(), "0.0.0.0");
    assert!(wrong(&["--cluster-name"]).starts_with("flag needs an argument: --cluster-name"));
}

#[test]
fn lists_lose_quotes_append_and_replace_the_default() {
    let paths = |arguments: &[&str]| flags(arguments).configuration().authorization.always_allow_paths;
    assert_eq!(paths(&["--authorization-always-allow-paths=\"/metrics\""]), ["/metrics"]);
    assert_eq!(
        paths(&["--authorization-always-allow-paths=/a,\"/b,c\"", "--authorization-always-allow-paths=/d"]),
        ["/a", "/b,c", "/d"]
    );
    assert_eq!(paths(&["--authorization-always-allow-paths="]), [""; 0]);
}

#[test]
fn the_last_occurrence_of_a_single_value_counts() {
    assert_eq!(flags(&["--cluster-name=a", "--cluster-name=b"]).cloud.cluster_name, "b");
    assert!(flags(&["--leader-elect=false", "--leader-elect"]).configuration().election.is_some());
}

#[test]
fn empty_arguments_are_tolerated_and_others_are_none() {
    assert!(matches!(parse(&["--cloud-provider=x", "", ""]), Parsed::Flags(_)));
    assert!(
        wrong(&["x", "", "y"])
            .starts_with("\"cloud-controller-manager\" does not take any arguments, got [\"x\" \"y\"]")
    );
}

#[test]
fn the_stems_of_messages_are_those_that_scripts_know() {
    let table = [
        (
            "--leader-elect=maybe",
            "invalid argument \"maybe\" for \"--leader-elect\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            "--min-resync-period=abc",
            "invalid argument \"abc\" for \"--min-resync-period\" flag: time: invalid duration \"abc\"",
        ),
        (
            "--min-resync-period=10",
            "invalid argument \"10\" for \"--min-resync-period\" flag: time: missing unit in duration \"10\"",
        ),
        ("--bind-address=abc", "invalid argument \"abc\" for \"--bind-address\" flag: failed to parse IP: \"abc\""),
        (
            "--secure-port=99999999999999999999",
            "invalid argument \"99999999999999999999\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
        (
            "--kube-api-burst=2147483648",
            "invalid argument \"2147483648\" for \"--kube-api-burst\" flag: strconv.ParseInt: parsing \"2147483648\": value out of range",
        ),
        (
            "--kube-api-qps=many",
            "invalid argument \"many\" for \"--kube-api-qps\" flag: strconv.ParseFloat: parsing \"many\": invalid syntax",
        ),
        (
            "--kube-api-qps=1e50",
            "invalid argument \"1e50\" for \"--kube-api-qps\" flag: strconv.ParseFloat: parsing \"1e50\": value out of range",
        ),
        ("--port=abc", "invalid argument \"abc\" for \"--port\" flag: strconv.ParseInt"),
        ("--logtostderr=2", "invalid argument \"2\" for \"--logtostderr\" flag: strconv.ParseBool"),
        ("--address=x", "invalid argument \"x\" for \"--address\" flag: failed to parse IP"),
        (
            "--vmodule=foo",
            "invalid argument \"foo\" for \"--vmodule\" flag: \"foo\" does not have the pattern=N format",
        ),
        (
            "--tls-sni-cert-key=/c",
            "invalid argument \"/c\" for \"--tls-sni-cert-key\" flag: expected comma separated certificate and key file paths",
        ),
        (
            "--log-text-info-buffer-size=x",
            "invalid argument \"x\" for \"--log-text-info-buffer-size\" flag: quantities must match",
        ),
        (
            "--tls-curve-preferences=x",
            "invalid argument \"x\" for \"--tls-curve-preferences\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "--metrics-bind-address=8080",
            "invalid argument \"8080\" for \"--metrics-bind-address\" flag: \"8080\" is no address to listen on; write IP:PORT",
        ),
        (
            "--feature-gates=Foo=true",
            "invalid argument \"Foo=true\" for \"--feature-gates\" flag: unrecognized feature gate: Foo",
        ),
        (
            "--feature-gates=WatchList",
            "invalid argument \"WatchList\" for \"--feature-gates\" flag: missing bool value for WatchList",
        ),
        (
            "--feature-gates=WatchList=x",
            "invalid argument \"WatchList=x\" for \"--feature-gates\" flag: invalid value of WatchList=x, err: strconv.ParseBool",
        ),
        (
            "--feature-gates=DeclarativeValidation=false",
            "invalid argument \"DeclarativeValidation=false\" for \"--feature-gates\" flag: cannot set feature gate DeclarativeValidation to false, feature is locked to true",
        ),
        (
            "--version=v9.9.9",
            "invalid argument \"v9.9.9\" for \"--version\" flag: version \"v9.9.9\" must match major/minor/patch of default version \"v1.35.0\"",
        ),
        ("--version=v1.35.01", "invalid argument \"v1.35.01\" for \"--version\" flag: version \"v1.35.01\" must match"),
        ("--config=/a", "unknown flag: --config"),
        ("--emulated-version=1.34", "unknown flag: --emulated-version"),
        ("--node-eviction-rate=1", "unknown flag: --node-eviction-rate"),
        ("--dry-run", "unknown flag: --dry-run"),
    ];
    for (argument, stem) in table {
        let text = wrong(&[argument]);
        assert!(text.starts_with(stem), "{argument}: {text}");
        assert!(!text.contains("Usage"), "{text}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let text = wrong(&[
        "--leader-elect=maybe",
        "--nope=1",
        "--also-nope",
        "value",
        "--min-resync-period",
        "abc",
        "-vx",
        "--secure-port=-1",
        "--concurrent-node-syncs=0",
    ]);
    for part in [
        "\"--leader-elect\" flag",
        "unknown flag: --nope;",
        "unknown flag: --also-nope;",
        "\"abc\" for \"--min-resync-period\"",
        "invalid argument \"x\" for \"--v\" flag",
        "--secure-port -1 must be between 0 and 65535",
        "concurrent-node-syncs must be a positive number",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("does not take any arguments"), "{text}");
}

#[test]
fn versions_are_printed_and_end_the_program() {
    let said = |argument: &str| match parse(&[argument]) {
        Parsed::Say(text) => text,
        other => panic!("{argument}: {other:?}"),
    };
    assert_eq!(said("--version"), "Kubernetes v1.35.0\n");
    assert_eq!(said("--version=true"), "Kubernetes v1.35.0\n");
    let raw = said("--version=raw");
    assert!(raw.contains("GitVersion:\"v1.35.0\"") && raw.contains(env!("CARGO_PKG_VERSION")), "{raw}");
    assert_eq!(flags(&["--version=false"]).version.reported(), "v1.35.0");
    assert_eq!(flags(&["--version=v1.35.0+acme"]).version.reported(), "v1.35.0+acme");
}

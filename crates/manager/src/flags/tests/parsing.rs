//! Parsing of arguments (FLAG-1 to FLAG-9, FLAG-60).

use super::{flags, parse, wrong};
use crate::flags::Parsed;

#[test]
fn boolean_values_are_gos_words_and_follow_an_equals_sign() {
    for word in ["1", "t", "T", "true", "True", "TRUE"] {
        assert!(
            !flags(&["--leader-elect=false", &format!("--explain={word}")])
                .leader_election
                .leader_elect
        );
    }
    for word in ["0", "f", "F", "false", "False", "FALSE"] {
        assert!(
            !flags(&[&format!("--leader-elect={word}")])
                .leader_election
                .leader_elect,
            "{word}"
        );
    }
    assert!(
        wrong(&["--leader-elect", "false"])
            .contains("does not take any arguments, got [\"false\"]")
    );
    assert!(
        wrong(&["--leader-elect="])
            .starts_with("invalid argument \"\" for \"--leader-elect\" flag: ")
    );
}

#[test]
fn flag_names_may_have_underscores_and_two_have_a_short_form() {
    assert_eq!(flags(&["--cluster_name=a_b"]).cloud.cluster_name, "a_b");
    for arguments in [
        &["-v4"][..],
        &["-v=4"],
        &["-v", "4"],
        &["--v=4"],
        &["--v", "4"],
        &["-v", "0x4"],
    ] {
        assert_eq!(
            flags(arguments).configuration().logging.verbosity,
            4,
            "{arguments:?}"
        );
    }
    assert!(matches!(parse(&["-h"]), Parsed::Say(_)));
    assert!(
        wrong(&["-cluster-name=a"]).contains("unknown flag"),
        "{}",
        wrong(&["-cluster-name=a"])
    );
}

#[test]
fn argument_after_a_flag_is_its_value_even_if_it_looks_like_a_flag() {
    assert_eq!(
        flags(&["--cluster-name", "--leader-elect=false"])
            .cloud
            .cluster_name,
        "--leader-elect=false"
    );
    assert_eq!(
        flags(&["--controllers", "-cloud-node,*"])
            .controllers
            .canonical(),
        ["-cloud-node-controller", "*"]
    );
    assert_eq!(
        flags(&["--cloud-config", ""]).cloud.cloud_config.as_deref(),
        None
    );
    assert_eq!(
        flags(&["--bind-address="])
            .configuration()
            .serving
            .bind_address
            .to_string(),
        "0.0.0.0"
    );
    assert!(wrong(&["--cluster-name"]).starts_with("flag needs an argument: --cluster-name"));
}

#[test]
fn list_flags_are_unquoted_appended_and_replace_the_default() {
    let paths = |arguments: &[&str]| {
        flags(arguments)
            .configuration()
            .authorization
            .always_allow_paths
    };
    assert_eq!(
        paths(&["--authorization-always-allow-paths=\"/metrics\""]),
        ["/metrics"]
    );
    assert_eq!(
        paths(&[
            "--authorization-always-allow-paths=/a,\"/b,c\"",
            "--authorization-always-allow-paths=/d"
        ]),
        ["/a", "/b,c", "/d"]
    );
    assert_eq!(paths(&["--authorization-always-allow-paths="]), [""; 0]);
}

#[test]
fn last_occurrence_of_a_single_value_takes_precedence() {
    assert_eq!(
        flags(&["--cluster-name=a", "--cluster-name=b"])
            .cloud
            .cluster_name,
        "b"
    );
    assert!(
        flags(&["--leader-elect=false", "--leader-elect"])
            .configuration()
            .election
            .is_some()
    );
}

#[test]
fn empty_arguments_are_accepted_and_positional_ones_are_refused() {
    assert!(matches!(
        parse(&["--cloud-provider=x", "", ""]),
        Parsed::Flags(_)
    ));
    assert!(wrong(&["x", "", "y"]).starts_with(
        "\"cloud-controller-manager\" does not take any arguments, got [\"x\" \"y\"]"
    ));
}

#[test]
fn all_errors_are_reported_at_once() {
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
fn version_flag_prints_a_version_or_sets_the_reported_one() {
    let said = |argument: &str| match parse(&[argument]) {
        Parsed::Say(text) => text,
        other => panic!("{argument}: {other:?}"),
    };
    let text = said("--version");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0], "Kubernetes v1.37.0",
        "the line of the Go program is the first"
    );
    assert!(
        lines[1].starts_with(concat!("ccm-rs v", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    assert_eq!((lines.len(), said("--version=true")), (2, text));
    let raw = said("--version=raw");
    assert!(
        raw.contains("GitVersion:\"v1.37.0\"") && raw.contains(env!("CARGO_PKG_VERSION")),
        "{raw}"
    );
    assert_eq!(flags(&["--version=false"]).version.reported(), "v1.37.0");
    assert_eq!(
        flags(&["--version=v1.37.0+acme"]).version.reported(),
        "v1.37.0+acme"
    );
}

//! Wrong values of flags, each with its message (FLAG-9, FLAG-10).
//!
//! Rules: APP-3, FLAG-20, FLAG-25, FLAG-30 to FLAG-33, FLAG-40.

use super::{parse, wrong};
use crate::flags::Parsed;

/// Values that do not have the flag's type, and the problem that the message ends with. The beginning of each problem is
/// the Go program's.
const INVALID: &[(&str, &str)] = &[
    (
        "--cloud-config-change=restart",
        "\"restart\" is not one of reload, exit, ignore",
    ),
    (
        "--load-balancer-drift=fix",
        "\"fix\" is not one of report, repair",
    ),
    (
        "--feature-gates=WatchList",
        "missing bool value for WatchList",
    ),
    (
        "--controllers=a\"b",
        "parse error: bare \" in non-quoted field \"a\\\"b\"",
    ),
    (
        "--explain=maybe",
        "strconv.ParseBool: parsing \"maybe\": invalid syntax",
    ),
    (
        "--node-monitor-period=abc",
        "time: invalid duration \"abc\"",
    ),
    (
        "--concurrent-node-syncs=9999999999",
        "strconv.ParseInt: parsing \"9999999999\": value out of range",
    ),
    (
        "--node-deletion=maybe",
        "\"maybe\" is not one of on, dry-run, off",
    ),
    (
        "--leader-elect=maybe",
        "strconv.ParseBool: parsing \"maybe\": invalid syntax",
    ),
    ("--min-resync-period=abc", "time: invalid duration \"abc\""),
    (
        "--min-resync-period=10",
        "time: missing unit in duration \"10\"",
    ),
    ("--bind-address=abc", "failed to parse IP: \"abc\""),
    (
        "--secure-port=99999999999999999999",
        "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
    ),
    (
        "--kube-api-burst=2147483648",
        "strconv.ParseInt: parsing \"2147483648\": value out of range",
    ),
    (
        "--kube-api-qps=many",
        "strconv.ParseFloat: parsing \"many\": invalid syntax",
    ),
    (
        "--kube-api-qps=1e50",
        "strconv.ParseFloat: parsing \"1e50\": value out of range",
    ),
    ("--port=abc", "strconv.ParseInt"),
    ("--logtostderr=2", "strconv.ParseBool"),
    ("--address=x", "failed to parse IP"),
    (
        "--vmodule=foo",
        "\"foo\" does not have the pattern=N format",
    ),
    (
        "--tls-sni-cert-key=/c",
        "expected comma separated certificate and key file paths",
    ),
    ("--log-text-info-buffer-size=x", "quantities must match"),
    (
        "--tls-curve-preferences=x",
        "strconv.ParseInt: parsing \"x\": invalid syntax",
    ),
    (
        "--metrics-bind-address=8080",
        "\"8080\" is no address to listen on; write IP:PORT",
    ),
    (
        "--health-bind-address=localhost:1",
        "\"localhost:1\" is no address to listen on; write IP:PORT",
    ),
    ("--feature-gates=Foo=true", "unrecognized feature gate: Foo"),
    (
        "--feature-gates=WatchList=x",
        "invalid value of WatchList=x, err: strconv.ParseBool",
    ),
    (
        "--feature-gates=DeclarativeValidation=false",
        "cannot set feature gate DeclarativeValidation to false, feature is locked to true",
    ),
    (
        "--version=v9.9.9",
        "version \"v9.9.9\" must match major/minor/patch of default version \"v1.37.0\"",
    ),
    ("--version=v1.37.01", "version \"v1.37.01\" must match"),
];

/// Arguments that cannot be used, and the beginning of the message. Some messages continue with what is accepted.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["--load-balancer-drift-check-period=-1s"],
        "load-balancer-drift-check-period is -1s, it must not be negative",
    ),
    (
        &["--route-reconciliation-period=0s"],
        "route-reconciliation-period is 0s, it must be longer than 0s",
    ),
    (
        &["--concurrent-service-syncs=-1"],
        "concurrent-service-syncs must be a positive number",
    ),
    (
        &["--controllers=*,foo"],
        "\"foo\" is not in the list of known controllers; known are *, cloud-node-controller (cloud-node), cloud-node-lifecycle-controller (cloud-node-lifecycle), node-route-controller (route), service-lb-controller (service), persistent-volume-label-controller (pvlabel)",
    ),
    (
        &["--node-monitor-period=0"],
        "node-monitor-period is 0s, it must be longer than 0s",
    ),
    (
        &["--cloud-provder=x"],
        "unknown flag: --cloud-provder; did you mean --cloud-provider? see 'cloud-controller-manager --help'",
    ),
    (
        &["--zzz"],
        "unknown flag: --zzz; see 'cloud-controller-manager --help'",
    ),
    (
        &["--explain", "false"],
        "\"cloud-controller-manager\" does not take any arguments, got [\"false\"]",
    ),
    (
        &["--concurrent-node-syncs=0"],
        "concurrent-node-syncs must be a positive number",
    ),
    (
        &["--concurrent-node-lifecycle-syncs=0"],
        "concurrent-node-lifecycle-syncs must be at least 1, but got 0",
    ),
    (
        &["--concurrent-node-lifecycle-syncs=-3"],
        "concurrent-node-lifecycle-syncs must be at least 1, but got -3",
    ),
    (
        &["--concurrent-node-syncs=0", "--node-deletion-guard-share=2"],
        "concurrent-node-syncs must be a positive number\nError: node-deletion-guard-share is 2, it must be between 0 and 1",
    ),
    (&["--config=/a"], "unknown flag: --config"),
    (
        &["--emulated-version=1.34"],
        "unknown flag: --emulated-version",
    ),
    (
        &["--node-eviction-rate=1"],
        "unknown flag: --node-eviction-rate",
    ),
    (&["--dry-run"], "unknown flag: --dry-run"),
    (
        &["--controllers=foo"],
        "\"foo\" is not in the list of known controllers",
    ),
    (&["--cloud-provider="], "--cloud-provider cannot be empty"),
    (
        &["--leader-elect-resource-lock=endpoints"],
        "resourceLock value must be \"leases\"",
    ),
    (
        &["--leader-elect-resource-name="],
        "--leader-elect-resource-name must not be empty while electing",
    ),
    (
        &["--leader-elect-resource-namespace="],
        "--leader-elect-resource-namespace must not be empty while electing",
    ),
    (
        &["--leader-elect-lease-duration=10s"],
        "leaseDuration must be greater than renewDeadline",
    ),
    (
        &["--leader-elect-renew-deadline=2400ms"],
        "renewDeadline must be greater than retryPeriod*JitterFactor",
    ),
    (
        &["--leader-elect-retry-period=0"],
        "retryPeriod must be greater than zero",
    ),
    (
        &[
            "--leader-elect-lease-duration=-1s",
            "--leader-elect-renew-deadline=-2s",
            "--leader-elect-retry-period=-3s",
        ],
        "leaseDuration must be greater than zero",
    ),
    (
        &["--concurrent-node-status-updates=-1"],
        "concurrent-node-status-updates",
    ),
    (
        &["--concurrent-service-syncs=0"],
        "concurrent-service-syncs must be a positive number",
    ),
    (
        &["--webhooks=x"],
        "\"x\" is not in the list of known webhooks",
    ),
    (
        &["--webhook-secure-port=65536"],
        "--webhook-secure-port 65536 must be between 0 and 65535, inclusive. A value of 0 disables the webhook endpoint entirely.",
    ),
    (
        &["--secure-port=10260"],
        "--webhook-secure-port cannot be the same value as --secure-port",
    ),
    (
        &["--webhook-tls-cert-file=/c"],
        "missing filename for serving cert",
    ),
    (
        &["--webhook-tls-cipher-suites=X"],
        "Cipher suite X not supported or doesn't exist",
    ),
    (
        &["--webhook-tls-curve-preferences=0"],
        "curve preference 0 is out of range (must be 1-65535)",
    ),
    (
        &["--webhook-tls-min-version=x"],
        "unknown tls version \"x\"",
    ),
    (
        &["--secure-port=-1"],
        "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
    ),
    (
        &["--secure-port=65536"],
        "--secure-port 65536 must be between 0 and 65535, inclusive. 0 for turning off secure port",
    ),
    (
        &["--tls-private-key-file=/k"],
        "missing filename for serving cert",
    ),
    (
        &["--tls-cipher-suites=X"],
        "Cipher suite X not supported or doesn't exist",
    ),
    (
        &["--tls-min-version=VersionTLS14"],
        "unknown tls version \"VersionTLS14\"",
    ),
    (
        &["--tls-curve-preferences=29,29"],
        "duplicate curve preference 29",
    ),
    (
        &["--tls-curve-preferences=9999"],
        "curve preference 9999 is not supported by this build",
    ),
    (
        &["--requestheader-allowed-names=a, "],
        "empty value in \"requestheader-allowed-names\"",
    ),
    (
        &["--requestheader-username-headers=,"],
        "empty value in \"requestheader-username-headers\"",
    ),
    (
        &["--requestheader-group-headers=\" \""],
        "empty value in \"requestheader-group-headers\"",
    ),
    (
        &["--requestheader-extra-headers-prefix=\"\""],
        "empty value in \"requestheader-extra-headers-prefix\"",
    ),
    (
        &["--requestheader-uid-headers=x-uid"],
        "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work",
    ),
    (
        &[
            "--requestheader-uid-headers=x-remote-uid",
            "--feature-gates=RemoteRequestHeaderUID=false",
        ],
        "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled",
    ),
    (
        &["--authorization-always-allow-paths=/a*b"],
        "only trailing * allowed in \"a*b\"",
    ),
    (
        &["--logging-format=xml"],
        "format: Invalid value: \"xml\": Unsupported log format",
    ),
    (
        &["--logging-format=json", "--feature-gates=AllBeta=false"],
        "format: Forbidden: Feature LoggingBetaOptions is disabled",
    ),
    (
        &["--logging-format=json", "--vmodule=a=1"],
        "vmodule: Forbidden: Only supported for text log format",
    ),
    (
        &["--log-flush-frequency=0"],
        "flushFrequency: Invalid value: \"0s\": Must be greater than zero",
    ),
    (
        &["--log-text-split-stream"],
        "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
    ),
    (
        &["--log-text-info-buffer-size=1"],
        "options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
    ),
    (
        &["--log-json-split-stream"],
        "options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
    ),
    (
        &["--log-json-info-buffer-size=1Ki"],
        "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
    ),
    (
        &["--metrics-bind-address=127.0.0.1:10258"],
        "--metrics-bind-address cannot use the port of --secure-port",
    ),
    (
        &["--health-bind-address=:10258"],
        "--health-bind-address cannot use the port of --secure-port",
    ),
    (
        &[
            "--health-bind-address=:8080",
            "--metrics-bind-address=127.0.0.1:8080",
        ],
        "--health-bind-address cannot use the port of --metrics-bind-address",
    ),
    (
        &["--shutdown-timeout=-1s"],
        "shutdown-timeout is -1s, it must not be negative",
    ),
];

#[test]
fn value_of_another_type_is_an_error_that_names_value_and_flag() {
    for (argument, problem) in INVALID {
        let (flag, value) = argument.split_once('=').unwrap();
        let text = wrong(&[argument]);
        assert!(
            text.starts_with(&format!(
                "invalid argument {value:?} for \"{flag}\" flag: {problem}"
            )),
            "{text}"
        );
        assert!(!text.contains("Usage"), "{text}");
    }
}

#[test]
fn refused_argument_is_an_error_that_says_what_is_accepted() {
    for (arguments, text) in REFUSED {
        let said = wrong(arguments);
        assert!(said.starts_with(text), "{text}\n{said}");
        assert!(!said.contains("Usage"), "{said}");
    }
    assert!(
        matches!(parse(&[]), Parsed::Wrong(text) if text.starts_with("--cloud-provider cannot be empty"))
    );
}

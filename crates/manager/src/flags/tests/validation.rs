//! Validation errors of flags (FLAG-10).
//!
//! Rules: APP-3, FLAG-20, FLAG-25, FLAG-30 to FLAG-33, FLAG-40.

use super::{flags, wrong};

#[test]
fn what_the_tables_say_of_wrong_values_is_said() {
    let table: &[(&[&str], &str)] = &[
        (&["--controllers=foo"], "\"foo\" is not in the list of known controllers"),
        (&["--cloud-provider="], "--cloud-provider cannot be empty"),
        (&["--leader-elect-resource-lock=endpoints"], "resourceLock value must be \"leases\""),
        (&["--leader-elect-resource-name="], "--leader-elect-resource-name must not be empty while electing"),
        (&["--leader-elect-resource-namespace="], "--leader-elect-resource-namespace must not be empty while electing"),
        (&["--leader-elect-lease-duration=10s"], "leaseDuration must be greater than renewDeadline"),
        (&["--leader-elect-renew-deadline=2400ms"], "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (&["--leader-elect-retry-period=0"], "retryPeriod must be greater than zero"),
        (
            &[
                "--leader-elect-lease-duration=-1s",
                "--leader-elect-renew-deadline=-2s",
                "--leader-elect-retry-period=-3s",
            ],
            "leaseDuration must be greater than zero",
        ),
        (&["--concurrent-node-syncs=0"], "concurrent-node-syncs must be a positive number"),
        (&["--concurrent-node-status-updates=-1"], "concurrent-node-status-updates"),
        (&["--concurrent-service-syncs=0"], "concurrent-service-syncs must be a positive number"),
        (&["--webhooks=x"], "\"x\" is not in the list of known webhooks"),
        (
            &["--webhook-secure-port=65536"],
            "--webhook-secure-port 65536 must be between 0 and 65535, inclusive. A value of 0 disables the webhook endpoint entirely.",
        ),
        (&["--secure-port=10260"], "--webhook-secure-port cannot be the same value as --secure-port"),
        (&["--webhook-tls-cert-file=/c"], "missing filename for serving cert"),
        (&["--webhook-tls-cipher-suites=X"], "Cipher suite X not supported or doesn't exist"),
        (&["--webhook-tls-curve-preferences=0"], "curve preference 0 is out of range (must be 1-65535)"),
        (&["--webhook-tls-min-version=x"], "unknown tls version \"x\""),
        (
            &["--secure-port=-1"],
            "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        (
            &["--secure-port=65536"],
            "--secure-port 65536 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        (&["--tls-private-key-file=/k"], "missing filename for serving cert"),
        (&["--tls-cipher-suites=X"], "Cipher suite X not supported or doesn't exist"),
        (&["--tls-min-version=VersionTLS14"], "unknown tls version \"VersionTLS14\""),
        (&["--tls-curve-preferences=29,29"], "duplicate curve preference 29"),
        (&["--tls-curve-preferences=9999"], "curve preference 9999 is not supported by this build"),
        (&["--requestheader-allowed-names=a, "], "empty value in \"requestheader-allowed-names\""),
        (&["--requestheader-username-headers=,"], "empty value in \"requestheader-username-headers\""),
        (&["--requestheader-group-headers=\" \""], "empty value in \"requestheader-group-headers\""),
        (&["--requestheader-extra-headers-prefix=\"\""], "empty value in \"requestheader-extra-headers-prefix\""),
        (
            &["--requestheader-uid-headers=x-uid"],
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work",
        ),
        (
            &["--requestheader-uid-headers=x-remote-uid", "--feature-gates=RemoteRequestHeaderUID=false"],
            "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled",
        ),
        (&["--authorization-always-allow-paths=/a*b"], "only trailing * allowed in \"a*b\""),
        (&["--logging-format=xml"], "format: Invalid value: \"xml\": Unsupported log format"),
        (
            &["--logging-format=json", "--feature-gates=AllBeta=false"],
            "format: Forbidden: Feature LoggingBetaOptions is disabled",
        ),
        (&["--logging-format=json", "--vmodule=a=1"], "vmodule: Forbidden: Only supported for text log format"),
        (&["--log-flush-frequency=0"], "flushFrequency: Invalid value: \"0s\": Must be greater than zero"),
        (&["--log-text-split-stream"], "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (
            &["--log-text-info-buffer-size=1"],
            "options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (&["--log-json-split-stream"], "options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (
            &["--log-json-info-buffer-size=1Ki"],
            "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (&["--metrics-bind-address=127.0.0.1:10258"], "--metrics-bind-address cannot use the port of --secure-port"),
        (&["--shutdown-timeout=-1s"], "shutdown-timeout is -1s, it must not be negative"),
    ];
    for (arguments, text) in table {
        assert!(wrong(arguments).starts_with(text), "{arguments:?}: {}", wrong(arguments));
    }
}

#[test]
fn several_are_reported_together_and_each_once() {
    let text =
        wrong(&["--tls-cert-file=/c", "--secure-port=-1", "--controllers=x,x", "--leader-elect-retry-period=9s"]);
    assert!(
        text.starts_with("\"x\" is not in the list") && text.lines().skip(1).all(|line| line.starts_with("Error: ")),
        "{text}"
    );
    assert_eq!(text.matches("\"x\" is not in the list").count(), 1, "{text}");
    for part in
        ["renewDeadline must be greater than", "--secure-port -1", "missing filename for serving cert: --tls-cert-file"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_election_is_checked_only_where_there_is_one() {
    let off = [
        "--leader-elect=false",
        "--leader-elect-lease-duration=0",
        "--leader-elect-resource-name=",
        "--leader-elect-resource-lock=x",
    ];
    assert_eq!(flags(&off).configuration().election, None);
}

#[test]
fn what_this_build_cannot_do_is_left_out_with_a_word() {
    let flags = flags(&[
        "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA,TLS_AES_128_GCM_SHA256",
        "--webhook-tls-min-version=VersionTLS10",
        "--tls-curve-preferences=4588,29",
        "--requestheader-username-headers=x-user",
        "--authorization-always-allow-paths=/metrics",
        "--enable-leader-migration",
        "--leader-elect=false",
        "--controllers=*,tagging",
        "--feature-gates=WatchList=true,KMSv1=true,CloudControllerManagerWebhook=true",
    ]);
    let said: Vec<_> = flags.notices().into_iter().map(|notice| notice.text).collect();
    for part in [
        "--tls-cipher-suites: TLS_RSA_WITH_RC4_128_SHA is not available",
        "--webhook-tls-min-version: VersionTLS10 is not available",
        "--tls-curve-preferences: 4588 is not available",
        "--requestheader-username-headers is set without the standard x-remote-user",
        "--authorization-always-allow-paths=/metrics is without /healthz",
        "--enable-leader-migration has no effect without --leader-elect",
        "--controllers: this program has no controller tagging",
        "feature gate WatchList has no effect here",
        "feature gate KMSv1 has no effect here",
        "feature gate KMSv1 is deprecated",
    ] {
        assert_eq!(said.iter().filter(|text| text.contains(part)).count(), 1, "{part}: {said:#?}");
    }
    assert_eq!(said.len(), 10, "{said:#?}");
}

#[test]
fn paths_with_a_star_let_probes_through() {
    for paths in ["/health*", "*", "healthz", "/healthz,/metrics"] {
        assert!(flags(&[&format!("--authorization-always-allow-paths={paths}")]).notices().is_empty(), "{paths}");
    }
    // Without a server there are no paths to allow.
    assert!(flags(&["--authorization-always-allow-paths=", "--secure-port=0"]).notices().is_empty());
}

#[test]
fn without_flags_there_is_nothing_to_say() {
    assert!(flags(&[]).notices().is_empty() && flags(&[]).deprecations().is_empty());
    assert!(flags(&[]).configuration().gates.release_lease());
    let election = flags(&["--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=false"])
        .configuration()
        .election
        .unwrap();
    assert!(!election.release_on_stop);
    assert!(flags(&["--feature-gates=AllAlpha=false"]).configuration().gates.release_lease(), "only by its name");
}

#[test]
fn webhooks_need_gate_selection_and_port() {
    let serves = |arguments: &[&str]| flags(arguments).configuration().serves_webhooks();
    let gate = "--feature-gates=CloudControllerManagerWebhook=true";
    assert!(serves(&[gate, "--webhooks=*"]) && serves(&[gate, "--webhooks=pvlabel"]));
    assert!(!serves(&[gate]) && !serves(&["--webhooks=*"]) && !serves(&[gate, "--webhooks=*,-pvlabel,-lb-service"]));
    assert!(!serves(&[gate, "--webhooks=*", "--webhook-secure-port=0"]));
}

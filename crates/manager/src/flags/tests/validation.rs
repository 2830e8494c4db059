//! Validation across flags, and notices (FLAG-10).

use super::{flags, wrong};

#[test]
fn several_invalid_flags_are_reported_together_and_each_once() {
    let text = wrong(&[
        "--tls-cert-file=/c",
        "--secure-port=-1",
        "--controllers=x,x",
        "--leader-elect-retry-period=9s",
    ]);
    assert!(
        text.starts_with("\"x\" is not in the list")
            && text.lines().skip(1).all(|line| line.starts_with("Error: ")),
        "{text}"
    );
    assert_eq!(
        text.matches("\"x\" is not in the list").count(),
        1,
        "{text}"
    );
    for part in [
        "renewDeadline must be greater than",
        "--secure-port -1",
        "missing filename for serving cert: --tls-cert-file",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn election_flags_are_validated_only_with_leader_election() {
    let off = [
        "--leader-elect=false",
        "--leader-elect-lease-duration=0",
        "--leader-elect-resource-name=",
        "--leader-elect-resource-lock=x",
    ];
    assert_eq!(flags(&off).configuration().election, None);
}

#[test]
fn unavailable_features_are_left_out_with_a_notice() {
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
    let said: Vec<_> = flags
        .notices()
        .into_iter()
        .map(|notice| notice.text)
        .collect();
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
        assert_eq!(
            said.iter().filter(|text| text.contains(part)).count(),
            1,
            "{part}: {said:#?}"
        );
    }
    assert_eq!(said.len(), 10, "{said:#?}");
}

#[test]
fn always_allowed_paths_with_a_star_cover_the_probes() {
    for paths in ["/health*", "*", "healthz", "/healthz,/metrics"] {
        assert!(
            flags(&[&format!("--authorization-always-allow-paths={paths}")])
                .notices()
                .is_empty(),
            "{paths}"
        );
    }
    // Without a server there are no paths to allow.
    assert!(
        flags(&["--authorization-always-allow-paths=", "--secure-port=0"])
            .notices()
            .is_empty()
    );
}

#[test]
fn command_line_without_flags_has_no_notice() {
    assert!(flags(&[]).notices().is_empty() && flags(&[]).deprecations().is_empty());
    assert!(flags(&[]).configuration().gates.release_lease());
    let election =
        flags(&["--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=false"])
            .configuration()
            .election
            .unwrap();
    assert!(!election.release_on_stop);
    assert!(
        flags(&["--feature-gates=AllAlpha=false"])
            .configuration()
            .gates
            .release_lease(),
        "only by its name"
    );
}

#[test]
fn webhooks_are_served_only_with_gate_selection_and_port() {
    let serves = |arguments: &[&str]| flags(arguments).configuration().serves_webhooks();
    let gate = "--feature-gates=CloudControllerManagerWebhook=true";
    assert!(serves(&[gate, "--webhooks=*"]) && serves(&[gate, "--webhooks=pvlabel"]));
    assert!(
        !serves(&[gate])
            && !serves(&["--webhooks=*"])
            && !serves(&[gate, "--webhooks=*,-pvlabel,-lb-service"])
    );
    assert!(!serves(&[gate, "--webhooks=*", "--webhook-secure-port=0"]));
}

//! Findings that the provider reports to `doctor`.

use cloud_provider::Severity::{Failure, Ok as Well};
use cloud_provider::{Finding, Severity};
use provider_kit::transport::RetryPolicy;
use provider_simulated::cloud::Fault;

use super::*;

async fn findings(provider: &Simulated) -> Vec<(String, Severity)> {
    let findings = provider.diagnose().await;
    let unhelpful: Vec<&Finding> = findings
        .iter()
        .filter(|finding| {
            finding.severity != Well && finding.remedy.as_ref().is_none_or(String::is_empty)
        })
        .collect();
    assert!(unhelpful.is_empty(), "{unhelpful:?}");
    findings
        .into_iter()
        .map(|finding| (finding.check, finding.severity))
        .collect()
}

fn row(check: &str, severity: Severity) -> (String, Severity) {
    (check.to_owned(), severity)
}

#[tokio::test(start_paused = true)]
async fn each_thing_that_can_be_wrong_has_a_finding_of_its_own() {
    let cloud = Cloud::default();
    let well = [
        row("endpoint", Well),
        row("token", Well),
        row("permissions", Well),
    ];
    assert_eq!(findings(&provider(&cloud)).await, well);

    let other = Simulated::new(transport(&cloud), Some("production".into()));
    assert_eq!(findings(&other).await[2], row("project", Failure));
    let ours = Simulated::new(transport(&cloud), Some("demo".into()));
    assert_eq!(findings(&ours).await[2], row("project", Well));

    cloud.inject(Fault::status(403).on("GET /v1/routes"));
    assert_eq!(
        findings(&provider(&cloud)).await[2],
        row("permissions", Failure)
    );

    cloud.revoke_token(DEFAULT_TOKEN);
    assert_eq!(
        findings(&provider(&cloud)).await,
        [row("endpoint", Well), row("token", Failure)]
    );
    let text = format!("{:?}", provider(&cloud).diagnose().await);
    assert!(!text.contains(DEFAULT_TOKEN), "{text}");
}

/// Connects over the network: to a name that does not exist, and to a port without a listener.
#[tokio::test]
async fn an_endpoint_that_is_not_there_is_told_from_a_name_that_is_not() {
    for (base, remedy) in [
        ("http://cloud.invalid", "dnsPolicy"),
        ("http://127.0.0.1:1", "firewalls"),
    ] {
        let once = RetryPolicy {
            max_attempts: 1,
            ..RetryPolicy::default()
        };
        let provider = Simulated::new(
            Transport::builder(base).retry_policy(once).build().unwrap(),
            None,
        );
        let findings = provider.diagnose().await;
        assert_eq!(
            (findings.len(), &*findings[0].check, findings[0].severity),
            (1, "endpoint", Failure)
        );
        assert!(
            findings[0].remedy.as_ref().unwrap().contains(remedy),
            "{findings:?}"
        );
    }
}

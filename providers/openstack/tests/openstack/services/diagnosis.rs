//! Findings that the provider reports to `doctor`.

use axum::response::IntoResponse;
use cloud_provider::{CloudProvider, Finding, Setup, Severity};
use http::StatusCode;
use provider_kit::transport::in_process;
use provider_openstack::OpenStack;
use provider_openstack::services::Services;
use serde_json::{Value, json};

use super::cloud::{Cloud, GLOBAL, config};

const MORE: &str = "[LoadBalancer]\nlb-provider = amphora\nsubnet-id = s1\nfloating-network-id = ext\n\
    [LoadBalancerClass \"internal\"]\nnetwork-id = n1\n[Route]\nrouter-id = r1\n";

/// Responses of a healthy cloud.
fn well(path: &str) -> Option<Value> {
    let path = path.trim_start_matches("/public");
    let server = |id: &str, name: &str| json!({"id": id, "name": name});
    Some(match path {
        "/compute/v2.1/servers" => {
            json!({"servers": [server("1", "node-1"), server("2", "node-2.example")]})
        }
        "/lb/" => json!({"versions": [{"id": "v2.27"}]}),
        "/lb/v2.0/lbaas/providers" => json!({"providers": [{"name": "amphora"}, {"name": "ovn"}]}),
        "/network/v2.0/subnets/s1" => json!({"subnet": {"id": "s1", "name": "nodes"}}),
        "/network/v2.0/networks/n1" => {
            json!({"network": {"id": "n1", "name": "inside", "router:external": false}})
        }
        "/network/v2.0/networks/ext" => {
            json!({"network": {"id": "ext", "name": "public", "router:external": true}})
        }
        "/network/v2.0/networks?router%3Aexternal=true" => {
            json!({"networks": [{"name": "public"}]})
        }
        "/network/v2.0/routers/r1" => json!({"router": {"id": "r1", "name": "main"}}),
        "/network/v2.0/extensions" => {
            json!({"extensions": [{"alias": "extraroute"}, {"alias": "extraroute-atomic"}]})
        }
        _ => return None,
    })
}

/// Returns the findings about a cloud that answers `path` with something else.
async fn findings(path: &'static str, status: u16, answer: Value, more: &str) -> Vec<Finding> {
    let cloud = Cloud::answering(move |asked, _| {
        if asked.trim_start_matches("/public") == path {
            return Some(
                (StatusCode::from_u16(status).unwrap(), answer.to_string()).into_response(),
            );
        }
        Some(
            well(asked)
                .unwrap_or_else(|| panic!("{asked} was asked"))
                .to_string()
                .into_response(),
        )
    });
    findings_of(&cloud, more).await
}

async fn findings_of(cloud: &Cloud, more: &str) -> Vec<Finding> {
    findings_with(cloud, &format!("{GLOBAL}{more}")).await
}

async fn findings_with(cloud: &Cloud, global: &str) -> Vec<Finding> {
    let config = config(global);
    let setup = Setup::default();
    let services = Services::over(&config, &setup, in_process(cloud.router())).unwrap();
    OpenStack::over(config, services, &setup).diagnose().await
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_in_order_is_told_in_all_its_parts() {
    let findings = findings("/", 200, json!({}), MORE).await;
    let told: Vec<_> = findings
        .iter()
        .map(|finding| format!("{}: {}", finding.check, finding.text))
        .collect();
    assert!(
        findings
            .iter()
            .all(|finding| finding.severity == Severity::Ok),
        "{findings:?}"
    );
    let expected = [
        "keystone: http://cloud/identity gives a token for project p1",
        "roles: member, reader",
        "catalogue: compute is at http://cloud/public/compute/v2.1",
        "catalogue: network is at http://cloud/public/network/v2.0",
        "catalogue: load-balancer is at http://cloud/public/lb/v2.0",
        "servers: the project shows 2",
        "octavia: version 2.27, provider \"amphora\"",
        "subnet: subnet-id in [LoadBalancer]: \"nodes\" (s1)",
        "network: floating-network-id in [LoadBalancer]: \"public\" (ext)",
        "network: network-id in [LoadBalancerClass \"internal\"]: \"inside\" (n1)",
        "router: \"main\" (r1)",
    ];
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn each_thing_that_is_wrong_is_told_with_what_to_do() {
    use Severity::{Failure, Warning};
    let nothing = json!({"NeutronError": {"type": "SubnetNotFound", "message": "m", "detail": ""}});
    let refused = json!({"faultcode": "Client", "faultstring": "Policy does not allow this", "debuginfo": null});
    let servers = |names: &[&str]| {
        let one = |(id, name): (usize, &&str)| json!({"id": id.to_string(), "name": name});
        json!({"servers": names.iter().enumerate().map(one).collect::<Vec<_>>()})
    };
    let networks = json!({"networks": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]});
    let namesakes = json!({"networks": [{"id": "1", "name": "a"}, {"id": "2", "name": "a"}]});
    let unnamed = MORE.replace("floating-network-id = ext\n", "");
    let table: [(&'static str, u16, Value, &str, Severity, &str); 13] = [
        (
            "/compute/v2.1/servers",
            200,
            servers(&[]),
            MORE,
            Failure,
            "servers: the project shows none",
        ),
        (
            "/compute/v2.1/servers",
            200,
            servers(&["a", "b", "a"]),
            MORE,
            Warning,
            "several have the name \"a\"",
        ),
        (
            "/compute/v2.1/servers",
            200,
            servers(&["a", "Node_1"]),
            MORE,
            Warning,
            "no Node can have the name \"Node_1\"",
        ),
        (
            "/lb/v2.0/lbaas/providers",
            403,
            refused,
            MORE,
            Failure,
            "Policy does not allow this",
        ),
        (
            "/lb/v2.0/lbaas/providers",
            200,
            json!({"providers": [{"name": "ovn"}]}),
            MORE,
            Failure,
            "\"amphora\" is not enabled",
        ),
        (
            "/lb/",
            200,
            json!({"versions": [{"id": "v2.0"}]}),
            MORE,
            Warning,
            "2.0 has no tags",
        ),
        (
            "/network/v2.0/subnets/s1",
            404,
            nothing,
            MORE,
            Failure,
            "subnet-id in [LoadBalancer]: the project sees no subnet \"s1\"",
        ),
        (
            "/network/v2.0/networks/ext",
            200,
            json!({"network": {"name": "x", "router:external": false}}),
            MORE,
            Failure,
            "\"x\" is not external",
        ),
        (
            "/network/v2.0/networks?router%3Aexternal=true",
            200,
            json!({"networks": []}),
            &unnamed,
            Warning,
            "no Service gets a floating IP",
        ),
        (
            "/network/v2.0/networks?router%3Aexternal=true",
            200,
            networks,
            &unnamed,
            Warning,
            "there are several: a, b",
        ),
        (
            "/network/v2.0/networks?router%3Aexternal=true",
            200,
            namesakes,
            &unnamed,
            Warning,
            "there are several: a, a",
        ),
        (
            "/network/v2.0/extensions",
            200,
            json!({"extensions": []}),
            MORE,
            Failure,
            "Neutron has no extra routes",
        ),
        (
            "/network/v2.0/extensions",
            200,
            json!({"extensions": [{"alias": "extraroute"}]}),
            MORE,
            Warning,
            "one after the other",
        ),
    ];
    for (path, status, answer, more, severity, said) in table {
        let findings = findings(path, status, answer, more).await;
        let wrong: Vec<_> = findings
            .iter()
            .filter(|finding| finding.severity != Severity::Ok)
            .collect();
        assert_eq!(wrong.len(), 1, "{path}: {wrong:?}");
        let told = format!("{}: {}", wrong[0].check, wrong[0].text);
        assert!(
            told.contains(said) && wrong[0].severity == severity && wrong[0].remedy.is_some(),
            "{path}: {wrong:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_that_may_only_read_and_a_service_that_is_nowhere_are_told() {
    let cloud = Cloud::answering(|asked, _| {
        Some(well(asked).unwrap_or_default().to_string().into_response())
    });
    for (roles, said) in [
        (&["reader"][..], "roles: only reader: "),
        (&[], "roles: the token has none: "),
    ] {
        cloud.set_roles(roles);
        assert_eq!(
            wrong(&findings_of(&cloud, MORE).await),
            [format!(
                "{said}this may not be enough to change load balancers"
            )]
        );
    }
    cloud.set_roles(&["member"]);
    let nowhere = wrong(&findings_of(&cloud, &format!("os-endpoint-type = admin\n{MORE}")).await);
    for service in ["compute", "network", "load-balancer"] {
        let said = format!(
            "catalogue: Keystone's catalogue has no admin endpoint of {service} in region \"One\""
        );
        assert!(
            nowhere.iter().any(|told| told.starts_with(&said)),
            "{nowhere:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_regions_one_has_to_be_configured() {
    let cloud = Cloud::answering(|asked, _| {
        Some(well(asked).unwrap_or_default().to_string().into_response())
    });
    let unsaid = format!("{}{MORE}", GLOBAL.replace("region = One\n", ""));
    assert!(
        wrong(&findings_with(&cloud, &unsaid).await).is_empty(),
        "there is one only"
    );
    cloud.set_regions(&["Two", "One"]);
    let several = wrong(&findings_with(&cloud, &unsaid).await);
    assert_eq!(
        several,
        ["region: none is configured, and there are several: One, Two"]
    );
    assert!(wrong(&findings_of(&cloud, MORE).await).is_empty());
}

fn wrong(findings: &[Finding]) -> Vec<String> {
    let wrong = findings
        .iter()
        .filter(|finding| finding.severity != Severity::Ok);
    let wrong = wrong.inspect(|finding| assert!(finding.remedy.is_some(), "{finding:?}"));
    wrong
        .map(|finding| format!("{}: {}", finding.check, finding.text))
        .collect()
}

/// An unknown key is the likeliest cause of unexpected behaviour.
#[tokio::test(start_paused = true)]
async fn what_is_doubtful_in_the_configuration_is_told_first() {
    let cloud = Cloud::answering(|asked, _| {
        Some(well(asked).unwrap_or_default().to_string().into_response())
    });
    let findings = findings_of(&cloud, &format!("{MORE}[LoadBalancer]\nsubnet_id = s\n")).await;
    let told = [
        "configuration: cloud.conf:16: [LoadBalancer] subnet_id is not known: did you mean subnet-id?",
    ];
    assert_eq!(
        findings
            .iter()
            .filter(|finding| finding.severity != Severity::Ok)
            .count(),
        1,
        "{findings:?}"
    );
    assert_eq!(
        [format!("{}: {}", findings[0].check, findings[0].text)],
        told
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_token_there_is_one_finding_and_no_secret_in_it() {
    let cloud = Cloud::new();
    cloud.set_password("another");
    let findings = findings_of(&cloud, MORE).await;
    assert_eq!(
        (findings.len(), &*findings[0].check, findings[0].severity),
        (1, "keystone", Severity::Failure)
    );
    assert!(
        !findings[0].text.contains("right") && findings[0].remedy.is_some(),
        "{findings:?}"
    );
    cloud.stop_keystone(true);
    let down = findings_of(&cloud, MORE).await;
    assert!(
        down.len() == 1 && down[0].remedy.as_ref().unwrap().contains("check auth-url"),
        "{down:?}"
    );
}

use cloud_provider::{ConfigFile, Setup};
use serde_json::json;

use super::super::model::HealthCheck as Check;
use super::*;

/// A Service with these annotations, without their prefix, as `key=value` with blanks between them.
fn parsed(annotations: &str, spec: &Value) -> Parsed<Spec> {
    let pairs = annotations.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (format!("{PREFIX}{key}"), Value::from(value))
    });
    let annotations: serde_json::Map<_, _> = pairs.collect();
    let mut service = json!({"metadata": {"uid": "u", "annotations": annotations}, "spec": {
        "type": "LoadBalancer", "ports": [{"name": "web", "port": 443, "nodePort": 8080}]}});
    service["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let file = ConfigFile {
        path: "cloud.conf".to_owned(),
        text: "[Global]\nRegion = us-west-2\n".to_owned(),
    };
    Spec::of(
        &serde_json::from_value(service).unwrap(),
        &Config::read(&Setup::of(file)).unwrap(),
    )
}

#[test]
fn listeners_follow_certificate_and_backend_protocol() {
    let table = [
        ("", "TCP TCP -"),
        ("backend-protocol=http", "HTTP HTTP -"),
        ("backend-protocol=https", "TCP TCP -"),
        ("ssl-cert=arn", "SSL TCP arn"),
        ("ssl-cert=arn backend-protocol=https", "HTTPS HTTPS arn"),
        ("ssl-cert=arn backend-protocol=http", "HTTPS HTTP arn"),
        ("ssl-cert=arn backend-protocol=ssl", "SSL SSL arn"),
        ("ssl-cert=arn backend-protocol=tcp", "SSL TCP arn"),
        ("ssl-cert=arn ssl-ports=1234,5678", "TCP TCP -"),
        ("ssl-cert=arn ssl-ports=WEB", "SSL TCP arn"),
        ("type=nlb ssl-cert=arn", "TLS TCP arn"),
        ("type=nlb ssl-cert=arn backend-protocol=ssl", "TLS TLS arn"),
        ("type=nlb", "TCP TCP -"),
    ];
    for (annotations, expected) in table {
        let Spec { ports, .. } = parsed(annotations, &json!({})).spec;
        let Port {
            listener, target, ..
        } = &ports[0];
        let instance = listener.text("InstanceProtocol").unwrap_or(target);
        let of_network = listener
            .get("Certificates")
            .and_then(|certificates| certificates[0]["CertificateArn"].as_str());
        let certificate = listener
            .text("SSLCertificateId")
            .or(of_network)
            .unwrap_or("-");
        let protocol = listener.text("Protocol").unwrap();
        assert_eq!(
            format!("{protocol} {instance} {certificate}"),
            expected,
            "{annotations}"
        );
    }
}

#[test]
fn health_checks_follow_traffic_policy_and_annotations() {
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32213});
    let table = [
        ("", json!({}), "TCP:8080 10 5 2 6"),
        (
            "healthcheck-protocol=HTTPS healthcheck-path=/healthz healthcheck-port=31224",
            json!({}),
            "HTTPS:31224/healthz 10 5 2 6",
        ),
        (
            "healthcheck-protocol=ssl healthcheck-path=/healthz healthcheck-port=3124",
            json!({}),
            "SSL:3124 10 5 2 6",
        ),
        ("backend-protocol=ssl", json!({}), "SSL:8080 10 5 2 6"),
        ("", local.clone(), "HTTP:32213/healthz 10 5 2 6"),
        (
            "healthcheck-port=traffic-port",
            local.clone(),
            "HTTP:8080/healthz 10 5 2 6",
        ),
        ("type=nlb", json!({}), "TCP:traffic-port 30 0 3 3"),
        (
            "type=nlb healthcheck-interval=23",
            json!({}),
            "TCP:traffic-port 23 0 3 3",
        ),
        ("type=nlb", local, "HTTP:32213/healthz 10 0 2 2"),
    ];
    for (annotations, spec, expected) in table {
        let pools = parsed(annotations, &spec).spec.pools;
        let health_check = Check::from(pools.values().next().unwrap());
        let numbers = format!(
            "{} {} {} {}",
            health_check.interval,
            health_check.timeout,
            health_check.healthy_threshold,
            health_check.unhealthy_threshold
        );
        assert_eq!(
            format!("{} {numbers}", health_check.target),
            expected,
            "{annotations}"
        );
    }
}

#[test]
fn configuration_limits_the_security_groups_of_services() {
    let text = "[Global]\nRegion = us-west-2\nServiceSecurityGroups = sg-1, sg-2\n";
    let file = ConfigFile {
        path: "cloud.conf".to_owned(),
        text: text.to_owned(),
    };
    let config = Config::read(&Setup::of(file)).unwrap();
    for (key, groups, is_allowed) in [
        ("security-groups", "sg-2,sg-1", true),
        ("security-groups", "sg-1,sg-3", false),
        ("extra-security-groups", "sg-3", false),
        ("extra-security-groups", "sg-2", true),
    ] {
        let service = json!({"metadata": {"uid": "u", "annotations": {format!("{PREFIX}{key}"): groups}}, "spec": {
            "type": "LoadBalancer", "ports": [{"port": 443, "nodePort": 8080}]}});
        let checked = Spec::of(&serde_json::from_value(service).unwrap(), &config).check();
        assert_eq!(checked.is_ok(), is_allowed, "{key}: {groups}");
        let names =
            |error: cloud_provider::Error| error.to_string().contains("\"sg-3\" is not one of");
        assert!(checked.map_or_else(names, |()| true), "{key}: {groups}");
    }
}

#[test]
fn mistakes_are_found_without_a_request() {
    let udp = json!({"ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053}]});
    let shared = json!({"ports": [{"port": 53, "nodePort": 1}, {"port": 53, "protocol": "UDP", "nodePort": 2}]});
    let table = [
        (
            "ssl-cert=arn backend-protocol=bacon",
            json!({}),
            "backend-protocol",
        ),
        ("healthcheck-timeout=1", json!({}), "healthcheck-timeout"),
        (
            "internal=yes",
            json!({}),
            "is not one of true, 0.0.0.0/0, false",
        ),
        ("internal=False", json!({}), "aws-load-balancer-internal"),
        ("healthcheck-timeout=3.3", json!({}), "healthcheck-timeout"),
        ("proxy-protocol=yes", json!({}), "proxy-protocol"),
        (
            "type=nlb extra-security-groups",
            json!({}),
            "extra-security-groups",
        ),
        (
            "target-group-attributes=proxy_protocol_v2.enabled=true",
            json!({}),
            "target-group-attributes",
        ),
        (
            "type=nlb target-group-attributes=Preserve_client_ip.enabled=true",
            json!({}),
            "target-group-attributes",
        ),
        (
            "type=nlb target-group-attributes=preserve_client_ip.enabled=false",
            udp.clone(),
            "with UDP",
        ),
        (
            "type=nlb subnets=a,b eip-allocations=e",
            json!({}),
            "one for each",
        ),
        ("", udp, "\"UDP\" is not one of TCP"),
        ("type=nlb", shared, "the same nodePort"),
        (
            "",
            json!({"sessionAffinity": "ClientIP"}),
            "sessionAffinity",
        ),
        ("", json!({"loadBalancerIP": "192.0.2.1"}), "loadBalancerIP"),
        ("", json!({"ports": []}), "no ports"),
        ("", json!({"ipFamilies": ["IPv6"]}), "has no IPv6"),
    ];
    for (annotations, spec, expected) in table {
        let error = parsed(annotations, &spec).check().unwrap_err().to_string();
        assert!(error.contains(expected), "{annotations}: {error}");
    }
    let error = parsed("internal=yes", &json!({}))
        .check()
        .unwrap_err()
        .to_string();
    assert!(
        !error.contains("false, "),
        "no empty item at the end of the list: {error}"
    );
    for fine in [
        "type=external ssl-cert=arn proxy-protocol=yes",
        "type=nlb-ip extra-security-groups",
        "proxy-protocol=*",
    ] {
        parsed(fine, &json!({})).check().unwrap();
    }
}

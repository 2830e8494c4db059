//! Annotations of listeners and health checks.

use serde_json::json;

use crate::harness::{Harness, annotate, service, service_of};

#[tokio::test(start_paused = true)]
async fn limit_of_all_listeners_is_overridden_for_one_port_by_number_and_by_name() {
    let harness = Harness::new("[LoadBalancerDefaults]\nlistener-maxconn = 7\n").await;
    let mut service = service(&[("listener-maxqps", "100000")]);
    harness.ensure(&mut service).await.unwrap();
    for port in [80, 443] {
        let listener = harness.listener(port);
        assert_eq!(
            (&listener["max_qps"], &listener["max_connections"]),
            (&json!(100_000), &json!(7))
        );
    }
    harness.changes();
    annotate(&mut service, "listener-maxqps.443", "50000");
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(
        harness.changes(),
        ["PATCH /loadbalancers/{id}/listeners/{part}"]
    );
    annotate(&mut service, "listener-maxqps.http", "1");
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(
        [80, 443].map(|port| harness.listener(port)["max_qps"].clone()),
        [json!(1), json!(50_000)]
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_annotation_stops_the_sync_before_any_request_that_writes() {
    let harness = Harness::new("").await;
    for (key, value, wanted) in [
        (
            "listener-maxqps",
            "abc",
            "listener-maxqps: \"abc\" is not a whole number from 0 to 1000000",
        ),
        ("listener-maxqps", "-1", "\"-1\" is not"),
        (
            "listener-maxqps.443",
            "2000000",
            "port 443: annotation service.beta.kubernetes.io/dlb-listener-maxqps: \"2000000\"",
        ),
        (
            "listener-scheduler",
            "fast",
            "\"fast\" is not one of wrr, wlc, source-hash",
        ),
        (
            "listener-protocol.443",
            "https",
            "port 443: TLS needs annotation",
        ),
        ("listener-protocol", "udp", "\"udp\" does not run over TCP"),
        (
            "listener-sticky",
            "cookie-insert",
            "cookie-insert needs http or https",
        ),
        ("listener-redirect", "443", "only http redirects"),
        (
            "health-check-port",
            "node-health",
            "node-health needs externalTrafficPolicy: Local",
        ),
        ("bandwidth-mbps", "10", "network-type: internet"),
        (
            "tags",
            "kubernetes.io/service=x",
            "is not k=v with a key of your own",
        ),
        (
            "backend-selector",
            "blue",
            "is not annotated, all or labels k=v,k2=v2",
        ),
        ("adopt", "maybe", "\"maybe\" is not true or false"),
    ] {
        let error = harness
            .ensure(&mut service(&[(key, value)]))
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(wanted),
            "{key}: {error}"
        );
        assert_eq!(harness.changes(), [""; 0], "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn https_listener_has_its_certificate_and_the_settings_of_http() {
    let harness = Harness::new("").await;
    let mut service = service(&[
        ("listener-protocol.https", "https"),
        ("listener-cert-id.https", "crt-1,crt-2"),
        ("listener-sticky.https", "cookie-rewrite"),
        ("listener-cookie-name.https", "session"),
        ("listener-protocol.http", "http"),
        ("listener-redirect.http", "443"),
    ]);
    harness.ensure(&mut service).await.unwrap();
    let https = harness.listener(443);
    assert_eq!(
        (&https["certificate_ids"], &https["tls_policy"]),
        (&json!(["crt-1", "crt-2"]), &json!("tls-1-2"))
    );
    assert_eq!(
        https["sticky"],
        json!({"mode": "cookie-rewrite", "timeout": 1000, "cookie_name": "session"})
    );
    assert_eq!(
        (&https["idle_timeout"], &https["http2"], &https["xff"]),
        (&json!(60), &json!(true), &json!(true))
    );
    assert_eq!(
        (
            &harness.listener(80)["redirect_port"],
            &harness.listener(80)["http2"]
        ),
        (&json!(443), &json!(null))
    );
    harness.changes();
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn local_traffic_policy_checks_the_health_of_nodes() {
    let harness = Harness::new("").await;
    let check = |harness: &Harness| {
        let balancer = harness.load_balancer();
        let group =
            crate::profile::list(&balancer["groups"]).find(|group| group["name"] == "80-TCP");
        group
            .map(|group| group["health_check"].clone())
            .unwrap_or_default()
    };
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000, "sessionAffinity": "ClientIP"});
    let mut service = service_of(&[("health-check-interval", "10")], local);
    harness.ensure(&mut service).await.unwrap();
    let shown = check(&harness);
    assert_eq!(
        (&shown["protocol"], &shown["port"], &shown["path"]),
        (&json!("http"), &json!(32000), &json!("/healthz"))
    );
    assert_eq!(
        (&shown["interval"], &shown["codes"]),
        (&json!(10), &json!(["2xx", "3xx"]))
    );
    assert_eq!(harness.listener(80)["sticky"]["mode"], "source-ip");
    annotate(&mut service, "health-check-port", "traffic");
    annotate(&mut service, "health-check-protocol", "tcp");
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(check(&harness)["port"], 30080);
}

#[tokio::test(start_paused = true)]
async fn certificate_of_a_secret_is_uploaded_and_replaced_when_the_secret_changes() {
    let harness = Harness::new("").await;
    let mut service = service(&[
        ("listener-protocol.443", "https"),
        ("listener-cert-secret.443", "web"),
    ]);
    let error = harness.ensure(&mut service).await.unwrap_err().to_string();
    assert!(
        error.contains("dlb-listener-cert-secret: Secret default/web does not exist"),
        "{error}"
    );
    harness.set_secret("web", "AAEC");
    harness.ensure(&mut service).await.unwrap();
    let first = harness.load_balancer()["certificates"][0].clone();
    assert_eq!(
        (&first["owner"], &harness.listener(443)["certificate_ids"]),
        (&json!("k8s:prod"), &json!([first["id"]]))
    );
    harness.changes();
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0], "nothing has changed");
    harness.set_secret("web", "AAED");
    harness.ensure(&mut service).await.unwrap();
    let upload = "POST /certificates";
    let listener = "PATCH /loadbalancers/{id}/listeners/{part}";
    assert_eq!(
        harness.changes(),
        [upload, listener, "DELETE /certificates/{id}"]
    );
    let left = harness.load_balancer()["certificates"].clone();
    assert_eq!(
        harness.listener(443)["certificate_ids"],
        json!([left[0]["id"]])
    );
    annotate(&mut service, "listener-cert-id.443", "crt-1");
    let error = harness.ensure(&mut service).await.unwrap_err().to_string();
    assert!(error.contains("remove one of the two"), "{error}");
}

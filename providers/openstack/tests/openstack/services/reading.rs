//! Lists, refusals, and what the services can do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::response::IntoResponse;
use cloud_provider::Error;
use http::StatusCode;
use provider_kit::transport::Call;
use provider_openstack::services::is_immutable;
use serde::Deserialize;
use serde_json::json;

use super::cloud::{Cloud, GLOBAL, ports};

#[derive(Deserialize)]
struct Port {
    id: String,
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_by_its_links_until_there_is_none() {
    let cloud = Cloud::answering(|path, _| {
        let page = match path.split_once('?').unwrap().1 {
            "limit=2" => json!({"ports": [{"id": "a"}, {"id": "b"}], "ports_links": [
                {"rel": "next", "href": "http://10.0.0.1:9696/v2.0/ports?limit=2&marker=b"}]}),
            "limit=2&marker=b" => json!({"ports": [{"id": "c"}], "ports_links": [
                {"rel": "previous", "href": "http://10.0.0.1:9696/v2.0/ports?limit=2&marker=c&page_reverse=True"}]}),
            other => panic!("{other}"),
        };
        Some(page.to_string().into_response())
    });
    let services = cloud.services();
    let call = ports().query("limit", 2);
    let reading = services
        .list(
            &services.network,
            call,
            "ports",
            |port: Port| port.id,
            Clone::clone,
        )
        .await
        .unwrap();
    assert_eq!(
        (reading.items(), reading.pages()),
        (&["a".to_owned(), "b".to_owned(), "c".to_owned()][..], 2)
    );
    assert!(reading.complete().is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_proves_no_absence() {
    let cloud = Cloud::new();
    let services = cloud.services();
    let reading = services
        .list(
            &services.network,
            ports(),
            "ports",
            |port: Port| port.id,
            Clone::clone,
        )
        .await;
    assert!(
        reading
            .unwrap_err()
            .to_string()
            .contains("no field \"ports\"")
    );
}

type Check = fn(&Error) -> bool;

#[tokio::test(start_paused = true)]
async fn each_services_refusals_are_understood_and_their_message_is_kept() {
    let immutable = "Load Balancer 17 is immutable and cannot be updated.";
    let octavia = |said: &str| {
        json!({"faultcode": "Client", "faultstring": said, "debuginfo": null}).to_string()
    };
    let neutron = |word: &str, said: &str| {
        json!({"NeutronError": {"type": word, "message": said, "detail": ""}}).to_string()
    };
    let nova = |word: &str, said: &str| json!({word: {"code": 1, "message": said}}).to_string();
    let table: [(u16, String, Check, &str); 19] = [
        (404, octavia("Load Balancer 17 not found."), Error::is_not_found, "Load Balancer 17 not found."),
        (409, octavia(immutable), |error| error.is_conflict() && is_immutable(error), immutable),
        (409, octavia("port in use"), |error| error.is_conflict() && !is_immutable(error), "port in use"),
        (400, octavia("Invalid input"), Error::is_invalid, "Invalid input"),
        (403, octavia("Quota has been met for resources: Load Balancer"), Error::is_quota, "Quota has been met"),
        (404, neutron("PortNotFound", "Port 9 could not be found."), Error::is_not_found, "Port 9 could not be found."),
        (409, neutron("OverQuota", "Quota exceeded for resources: ['port']."), Error::is_quota, "['port']"),
        (409, neutron("IpAddressInUse", "in use"), Error::is_conflict, "in use"),
        (409, neutron("IpAddressGenerationFailure", "No more IP addresses"), Error::is_quota, "No more IP addresses"),
        (412, neutron("RevisionNumberConstraintFailed", "stale"), Error::is_conflict, "stale"),
        (403, neutron("PolicyNotAuthorized", "not allowed"), Error::is_unauthorized, "not allowed"),
        (404, nova("itemNotFound", "Instance 3 could not be found."), Error::is_not_found, "Instance 3"),
        (403, nova("forbidden", "Quota exceeded for cores"), Error::is_quota, "Quota exceeded"),
        (409, nova("conflictingRequest", "Cannot"), Error::is_conflict, "Cannot"),
        (
            404,
            json!({"code": 404, "title": "Not Found", "description": "no secret"}).to_string(),
            Error::is_not_found,
            "no secret",
        ),
        (404, "<html>proxy</html>".to_owned(), |error| !error.is_not_found(), "proxy"),
        (
            404,
            neutron("HTTPNotFound", "The resource could not be found."),
            |error| !error.is_not_found(),
            "could not be found",
        ),
        (404, octavia(""), |error| !error.is_not_found(), "is the endpoint right?"),
        (
            404,
            json!({"code": "404 Not Found", "title": "Not Found", "message": "There is nothing.<br /><br />\n\n"})
                .to_string(),
            |error| !error.is_not_found(),
            "404: There is nothing.",
        ),
    ];
    for (status, body, is_this_match, said) in table {
        let status = StatusCode::from_u16(status).unwrap();
        let cloud = Cloud::answering(move |_, _| Some((status, body.clone()).into_response()));
        let error = cloud
            .services()
            .network
            .send(Call::put("/ports/{id}", &["9"]))
            .await
            .unwrap_err();
        assert!(
            is_this_match(&error) && error.to_string().contains(said),
            "{status} {said}: {error:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nova_is_asked_for_flavor_names_until_it_says_that_it_has_none() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let old = Cloud::answering(move |path, headers| {
        assert!(path.starts_with("/public/compute"), "{path}");
        let wants = headers
            .get("openstack-api-version")
            .is_some_and(|header| header == "compute 2.47");
        counted.fetch_add(usize::from(wants), Ordering::SeqCst);
        wants.then(|| StatusCode::NOT_ACCEPTABLE.into_response())
    });
    let services = old.services();
    for _ in 0..3 {
        services
            .compute
            .send(Call::get("/servers/detail", &[]))
            .await
            .unwrap();
    }
    assert_eq!((asked.load(Ordering::SeqCst), old.seen().len()), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn what_services_can_do_is_asked_for_once_an_hour() {
    let cloud = Cloud::answering(|path, _| {
        Some(match path {
            "/public/lb/" => (
                StatusCode::MULTIPLE_CHOICES,
                json!({"versions": [{"id": "v2.0", "status": "SUPPORTED"}, {"id": "v2.13", "status": "CURRENT"}]})
                    .to_string(),
            )
                .into_response(),
            "/public/network/v2.0/extensions" => {
                json!({"extensions": [{"alias": "extraroute", "name": "x"}]}).to_string().into_response()
            }
            other => panic!("{other}"),
        })
    });
    let services = cloud.services();
    for _ in 0..3 {
        let features = services.octavia().await.unwrap();
        assert!(
            features.version == (2, 13) && features.allowed_cidrs && !features.availability_zones
        );
        assert!(services.has_extension("extraroute").await.unwrap());
        assert!(!services.has_extension("extraroute-atomic").await.unwrap());
    }
    assert_eq!(cloud.seen().len(), 2);
    tokio::time::advance(std::time::Duration::from_secs(3601)).await;
    services.octavia().await.unwrap();
    let ovn = cloud.services_of(&format!("{GLOBAL}[LoadBalancer]\nlb-provider = ovn\n"));
    assert!(!ovn.octavia().await.unwrap().allowed_cidrs);
    assert_eq!(cloud.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_the_catalogue_does_not_have_is_told_and_not_asked() {
    let cloud = Cloud::new();
    let services = cloud.services();
    let error = services
        .keys
        .send(Call::get("/secrets/{id}", &["s"]))
        .await
        .unwrap_err();
    assert!(
        error.is_invalid()
            && error
                .to_string()
                .contains("no public endpoint of key-manager"),
        "{error}"
    );
    let elsewhere = cloud.services_of(&GLOBAL.replace("region = One", "region = Two"));
    let error = elsewhere.network.send(ports()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("in region \"Two\": it has internal in One, public in One"),
        "{error}"
    );
    assert_eq!(cloud.seen().len(), 0);
    let inside = cloud.services_of(&format!("{GLOBAL}os-endpoint-type = internalURL\n"));
    inside.network.send(ports()).await.unwrap();
    assert!(cloud.seen()[0].starts_with("GET /internal/network/v2.0/ports"));
}

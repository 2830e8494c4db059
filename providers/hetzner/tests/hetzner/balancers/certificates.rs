//! Certificates: existing ones by id or name, and managed ones that the provider creates.

use hetzner_fake::Fault;

use super::*;

const MADE: &str = "POST /certificates";
const GONE: &str = "DELETE /certificates/{id}";

fn managed(scene: &mut Scene) {
    scene.ports(json!([{"port": 443, "nodePort": 30443}]));
    scene.annotate("protocol", "https");
    scene.annotate("certificate-type", "managed");
    scene.annotate(
        "http-managed-certificate-domains",
        "example.com,*.example.com",
    );
}

fn used(scene: &Scene) -> Vec<u64> {
    scene.balancer().services[0]
        .http
        .as_ref()
        .unwrap()
        .certificates
        .clone()
}

/// Certificates are referenced by ID and by name.
#[tokio::test(start_paused = true)]
async fn a_certificate_is_named_by_its_id_or_its_name() {
    let mut scene = Scene::new();
    let [one, two] = ["one", "two"].map(|name| scene.fake.add_certificate(name).id);
    scene.annotate("protocol", "https");
    scene.annotate("http-certificates", &one.to_string());
    scene.ensure().await;
    assert_eq!(
        (used(&scene), scene.fake.count("GET /certificates")),
        (vec![one], 0)
    );
    scene.annotate("http-certificates", "two");
    scene.ensure().await;
    assert_eq!(
        (used(&scene), scene.fake.certificates().len()),
        (vec![two], 2),
        "what was uploaded is nobody's to delete"
    );
    scene.fake.forget_requests();
    scene.ensure().await;
    assert_eq!(
        scene.fake.requests().len(),
        0,
        "names are looked up once in a while for all"
    );
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_does_not_exist_is_an_error_that_names_it() {
    let mut scene = Scene::new();
    scene.annotate("protocol", "https");
    scene.annotate("http-certificates", "missing");
    let err = scene.refused().await;
    assert!(
        err.is_invalid()
            && err
                .to_string()
                .contains("no certificate named \"missing\"; available: "),
        "{err}"
    );
    tokio::time::advance(Duration::from_millis(1)).await;
    scene
        .fake
        .fail(Fault::code("GET /certificates", "service_error"));
    let err = scene.refused().await;
    assert!(!err.is_invalid(), "{err}");
    assert_eq!(scene.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_managed_certificate_is_made_once_and_used() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.ensure().await;
    let name = format!("ccm-managed-certificate-{UID}");
    let body = json!({"name": name, "type": "managed", "domain_names": ["example.com", "*.example.com"], "labels": {LEGACY_OWNER_LABEL: UID}});
    assert_eq!(scene.sent(MADE), [body]);
    let made = scene.fake.certificates();
    assert_eq!((made.len(), used(&scene)), (1, vec![made[0].id]));
    assert_eq!(scene.changes(), [CREATE, MADE, &action("add_service")]);
    scene.ensure().await;
    tokio::time::advance(LONG).await;
    scene.ensure().await;
    scene.start().await;
    scene.ensure().await;
    assert_eq!((scene.changes(), scene.events()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_managed_certificate_has_the_name_that_is_asked_for_and_may_be_of_the_staging_authority()
{
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.annotate("http-managed-certificate-name", "mine");
    scene.annotate("http-managed-certificate-acme-staging", "true");
    scene.ensure().await;
    let sent = &scene.sent(MADE)[0];
    assert_eq!(
        (&sent["name"], &sent["labels"]["HC-Use-Staging-CA"]),
        (&json!("mine"), &json!("true"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_managed_certificate_without_domains_is_an_error() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.forget("http-managed-certificate-domains");
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("http-managed-certificate-domains"),
        "{err}"
    );
    assert_eq!(scene.changes(), [""; 0]);
}

/// The certificate exists, with the Service's owner tags or with those of another owner.
#[tokio::test(start_paused = true)]
async fn a_managed_certificate_of_that_name_is_used_if_it_is_the_services_and_refused_otherwise() {
    for is_ours in [true, false] {
        let mut scene = Scene::new();
        managed(&mut scene);
        scene.annotate("http-managed-certificate-name", "mine");
        scene.start().await;
        let certificate = scene.fake.add_certificate("mine");
        scene.fake.change_certificate("mine", |certificate| {
            certificate.is_managed = true;
            certificate.domain_names = vec!["*.example.com".to_owned(), "example.com".to_owned()];
            certificate
                .labels
                .extend(is_ours.then(|| (LEGACY_OWNER_LABEL.to_owned(), UID.to_owned())));
        });
        if is_ours {
            scene.ensure().await;
            assert_eq!(used(&scene), [certificate.id]);
            assert_eq!(scene.events(), [""; 0]);
        } else {
            let err = scene.refused().await;
            assert!(
                err.is_invalid() && err.to_string().contains("choose another name"),
                "{err}"
            );
            assert_eq!(scene.balancer().services.len(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_certificates_of_a_service_are_an_error_and_other_domains_are_told() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.ensure().await;
    scene.annotate("http-managed-certificate-domains", "example.org");
    scene.ensure().await;
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("web CertificateForOtherDomains: "),
        "{events:?}"
    );
    scene.fake.add_certificate("another");
    scene.fake.change_certificate("another", |certificate| {
        certificate.is_managed = true;
        certificate
            .labels
            .insert(LEGACY_OWNER_LABEL.to_owned(), UID.to_owned());
    });
    scene.start().await;
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("delete one of them"),
        "{err}"
    );
}

/// The Go cloud-controller-manager leaves the certificate behind.
#[tokio::test(start_paused = true)]
async fn a_managed_certificate_goes_with_its_load_balancer() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.fake.add_certificate("uploaded by somebody");
    scene.ensure().await;
    scene.changes();
    scene.try_delete().await.unwrap();
    assert_eq!(
        scene.changes(),
        [
            &action("delete_service"),
            GONE,
            "DELETE /load_balancers/{id}"
        ]
    );
    assert_eq!(
        (
            scene.fake.certificates().len(),
            scene.fake.load_balancers().len()
        ),
        (1, 0)
    );
}

/// Wherever a removal is broken off, the next one finds what is left.
#[tokio::test(start_paused = true)]
async fn a_removal_that_was_broken_off_leaves_no_certificate_behind() {
    for route in [
        &action("delete_service"),
        GONE,
        "DELETE /load_balancers/{id}",
    ] {
        let mut scene = Scene::new();
        managed(&mut scene);
        scene.ensure().await;
        scene.fake.fail(Fault::code(route, "service_error"));
        assert!(scene.try_delete().await.is_err(), "{route}");
        scene.fake.clear_faults();
        scene.start().await;
        scene.try_delete().await.unwrap();
        assert_eq!(
            (
                scene.fake.certificates().len(),
                scene.fake.load_balancers().len()
            ),
            (0, 0),
            "{route}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_managed_certificate_goes_when_an_uploaded_one_takes_its_place() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.ensure().await;
    let mine = scene.fake.add_certificate("mine").id;
    scene.annotate("certificate-type", "uploaded");
    scene.annotate("http-certificates", "mine");
    scene.changes();
    scene.ensure().await;
    assert_eq!(scene.changes(), [&action("update_service"), GONE]);
    assert_eq!(
        (used(&scene), scene.fake.certificates().len()),
        (vec![mine], 1)
    );
}

/// The certificate authority refuses the certificate.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_not_issued_is_an_error_in_the_words_of_the_api() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene
        .fake
        .fail(Fault::ends_in_error(MADE, "dns_zone_not_found").times(1));
    let err = scene.refused().await;
    assert!(err.to_string().contains("dns_zone_not_found"), "{err}");
}

/// INV-2: nothing would lead to it any more.
#[tokio::test(start_paused = true)]
async fn no_certificate_is_made_where_no_load_balancer_can_be_made() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene
        .fake
        .fail(Fault::code(CREATE, "resource_limit_exceeded"));
    assert!(scene.refused().await.is_quota());
    scene.fake.clear_faults();
    scene.env("LOCATION", "");
    scene.start().await;
    assert!(scene.refused().await.is_invalid());
    scene.try_delete().await.unwrap();
    assert_eq!(
        (
            scene.fake.certificates().len(),
            scene.fake.load_balancers().len()
        ),
        (0, 0)
    );
}

/// INV-7: its id in another Service's annotation.
#[tokio::test(start_paused = true)]
async fn a_managed_certificate_that_somebody_else_uses_stays_and_holds_up_nothing() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.ensure().await;
    let secured = scene.balancer().services[0].clone();
    scene.fake.add_load_balancer("other");
    scene.fake.change_load_balancer("other", |load_balancer| {
        load_balancer.services.push(secured);
    });
    scene.try_delete().await.unwrap();
    assert_eq!(
        (
            scene.balancer().name.as_str(),
            scene.fake.certificates().len()
        ),
        ("other", 1)
    );
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("web CertificateInUse: "),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn certificates_are_for_https_only() {
    let mut scene = Scene::new();
    managed(&mut scene);
    scene.annotate("protocol", "http");
    scene.ensure().await;
    assert_eq!(scene.changes(), [CREATE]);
    let events = scene.events();
    assert!(
        !events.is_empty()
            && events
                .iter()
                .all(|event| event.contains("has no effect unless")),
        "{events:?}"
    );
}

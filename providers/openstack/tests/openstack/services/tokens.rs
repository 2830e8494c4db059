//! Sharing and renewal of the token for all services.

use std::time::Duration;

use futures::future::join_all;
use provider_kit::transport::Call;
use serde_json::json;

use super::cloud::{Cloud, GLOBAL, config, ports};

async fn pass(minutes: u64) {
    tokio::time::advance(Duration::from_secs(minutes * 60)).await;
}

#[tokio::test(start_paused = true)]
async fn all_services_use_one_token_that_is_asked_for_once() {
    let cloud = Cloud::new();
    cloud.slow_keystone(Duration::from_secs(1));
    let services = cloud.services();
    let calls = (0..20).map(|_| async {
        services.network.send(ports()).await.unwrap();
        services
            .compute
            .send(Call::get("/servers/{id}", &["7"]))
            .await
            .unwrap();
        services
            .balancer
            .send(Call::get("/lbaas/loadbalancers", &[]))
            .await
            .unwrap();
    });
    join_all(calls).await;
    assert_eq!(cloud.tokens(), 1);
    let mut seen = cloud.seen();
    seen.sort();
    seen.dedup();
    let expected = [
        "GET /public/compute/v2.1/servers/7 t1",
        "GET /public/lb/v2.0/lbaas/loadbalancers t1",
        "GET /public/network/v2.0/ports t1",
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        (services.project_id().await.unwrap(), services.region()),
        ("p1".to_owned(), Some("One"))
    );
    assert_eq!(services.roles().await.unwrap(), ["member", "reader"]);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_minutes_before_its_end_by_one_of_its_users() {
    let cloud = Cloud::new();
    let services = cloud.services();
    services.network.send(ports()).await.unwrap();
    pass(14).await;
    services.network.send(ports()).await.unwrap();
    assert_eq!(cloud.tokens(), 1);
    pass(2).await;
    join_all((0..5).map(|_| services.network.send(ports())))
        .await
        .into_iter()
        .for_each(|answer| drop(answer.unwrap()));
    assert_eq!(cloud.tokens(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_short_lived_token_is_used_for_most_of_its_time() {
    let cloud = Cloud::new();
    cloud.set_lifetime(120);
    let services = cloud.services();
    for (seconds, tokens) in [(0, 1), (80, 1), (15, 2)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        services.network.send(ports()).await.unwrap();
        assert_eq!(cloud.tokens(), tokens, "after {seconds} s more");
    }
}

#[tokio::test(start_paused = true)]
async fn a_keystone_that_is_down_is_no_trouble_before_the_token_ends() {
    let cloud = Cloud::new();
    let services = cloud.services();
    services.network.send(ports()).await.unwrap();
    cloud.stop_keystone(true);
    pass(16).await;
    for _ in 0..3 {
        services.network.send(ports()).await.unwrap();
    }
    let tries = cloud.tokens();
    assert!(tries <= 5, "{tries} requests for one renewal");
    pass(5).await;
    let error = services.network.send(ports()).await.unwrap_err();
    assert!(
        error.to_string().starts_with(
            "Keystone (http://cloud/identity) gives no token: POST /v3/auth/tokens answered 502"
        ),
        "{error}"
    );
    cloud.stop_keystone(false);
    tokio::time::advance(Duration::from_secs(2)).await;
    services.network.send(ports()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_for_keystone_fail_with_it() {
    let cloud = Cloud::new();
    cloud.stop_keystone(true);
    cloud.slow_keystone(Duration::from_secs(5));
    let services = cloud.services();
    let answers = join_all((0..50).map(|_| services.network.send(ports()))).await;
    assert!(answers.iter().all(Result::is_err));
    assert!(
        cloud.tokens() <= 4,
        "one request, repeated: {}",
        cloud.tokens()
    );
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_renewed_once_for_all_who_were_refused() {
    let cloud = Cloud::new();
    let services = cloud.services();
    services.network.send(ports()).await.unwrap();
    cloud.revoke_all();
    cloud.slow_keystone(Duration::from_secs(1));
    let answers = join_all((0..10).map(|_| services.network.send(ports()))).await;
    answers.into_iter().for_each(|answer| drop(answer.unwrap()));
    services
        .compute
        .send(Call::get("/servers/{id}", &["7"]))
        .await
        .unwrap();
    assert_eq!(cloud.tokens(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_told_and_not_shown_again_soon() {
    let cloud = Cloud::new();
    cloud.set_password("another");
    let services = cloud.services();
    let error = services.network.send(ports()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        error.is_unauthorized()
            && text.contains("[redacted] is wrong")
            && text.contains("check user, password"),
        "{text}"
    );
    assert!(!text.contains("right"), "{text}");
    for _ in 0..20 {
        assert!(
            services
                .balancer
                .send(Call::get("/lbaas/loadbalancers", &[]))
                .await
                .unwrap_err()
                .is_unauthorized()
        );
    }
    assert_eq!((cloud.tokens(), cloud.seen().len()), (1, 0));
    cloud.set_password("right");
    tokio::time::advance(Duration::from_secs(31)).await;
    services.network.send(ports()).await.unwrap();
    assert_eq!(cloud.tokens(), 2);
}

#[tokio::test(start_paused = true)]
async fn another_credential_is_tried_before_it_is_used() {
    let cloud = Cloud::new();
    let services = cloud.services();
    services.network.send(ports()).await.unwrap();
    let wrong = config(&GLOBAL.replace("password = right", "password = wrong"));
    assert!(services.reload(&wrong).await.unwrap_err().is_unauthorized());
    services.network.send(ports()).await.unwrap();
    cloud.set_password("new");
    let right = config(&GLOBAL.replace("password = right", "password = new"));
    services.reload(&right).await.unwrap();
    cloud.revoke_all();
    services.network.send(ports()).await.unwrap();
    let passwords = cloud.asked().into_iter().map(|asked| {
        asked
            .pointer("/auth/identity/password/user/password")
            .cloned()
    });
    assert_eq!(
        passwords.flatten().collect::<Vec<_>>(),
        ["right", "wrong", "new", "new"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_credential_for_another_project_is_not_taken_over() {
    let cloud = Cloud::new();
    let services = cloud.services();
    services.network.send(ports()).await.unwrap();
    let other = config(&GLOBAL.replace("tenant-id = p1", "tenant-id = p2"));
    let error = services.reload(&other).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("is for project p2, and"),
        "{error}"
    );
    services.network.send(ports()).await.unwrap();
    assert!(cloud.seen().iter().all(|sent| sent.ends_with(" t1")));
    assert_eq!(services.project_id().await.unwrap(), "p1");
}

#[tokio::test(start_paused = true)]
async fn after_a_token_for_another_project_nothing_is_done_for_a_minute() {
    for is_renewed in [true, false] {
        let cloud = Cloud::new();
        let services = cloud.services_of("auth-url = http://cloud/identity\ntoken = given\n");
        services.network.send(ports()).await.unwrap();
        cloud.seen();
        cloud.move_to("p2");
        if is_renewed {
            pass(21).await;
        } else {
            cloud.revoke_all();
        }
        for _ in 0..3 {
            let error = services.network.send(ports()).await.unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("is for project p2 now, and was for project p1"),
                "{error}"
            );
            assert!(services.project_id().await.is_err());
            tokio::time::advance(Duration::from_secs(19)).await;
        }
        assert_eq!(
            (cloud.tokens(), cloud.seen().len()),
            (2, usize::from(!is_renewed)),
            "nothing but what was refused"
        );
        pass(1).await;
        services.network.send(ports()).await.unwrap();
        assert_eq!(services.project_id().await.unwrap(), "p2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_given_is_used_until_it_ends() {
    let cloud = Cloud::new();
    let services =
        cloud.services_of("auth-url = http://cloud/identity\ntoken = given\ntenant-id = p1\n");
    for _ in 0..2 {
        services.network.send(ports()).await.unwrap();
        pass(18).await;
    }
    assert_eq!(cloud.tokens(), 1);
    let body = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": "given"}}, "scope": {"project": {"id": "p1"}}}});
    assert_eq!(cloud.asked(), [body]);
}

#[tokio::test(start_paused = true)]
async fn keystone_is_asked_as_the_configuration_says() {
    let user = json!({"id": "u1", "password": "right"});
    let password =
        |user: &serde_json::Value| json!({"methods": ["password"], "password": {"user": user}});
    let table = [
        (
            "user-id = u1\npassword = right\ntenant-id = p1",
            password(&user),
            Some(json!({"project": {"id": "p1"}})),
        ),
        (
            "username = ccm\npassword = right\ntenant-name = prod\ndomain-name = Default",
            password(&json!({"name": "ccm", "domain": {"name": "Default"}, "password": "right"})),
            Some(json!({"project": {"name": "prod", "domain": {"name": "Default"}}})),
        ),
        (
            "user-id = u1\npassword = right\ndomain-id = d1",
            password(&user),
            Some(json!({"domain": {"id": "d1"}})),
        ),
        (
            "trust-id = tr\ntrustee-id = u1\ntrustee-password = right",
            password(&user),
            Some(json!({"OS-TRUST:trust": {"id": "tr"}})),
        ),
        (
            "application-credential-id = a1\napplication-credential-secret = s",
            json!({"methods": ["application_credential"], "application_credential": {"id": "a1", "secret": "s"}}),
            None,
        ),
        (
            "application-credential-name = a\napplication-credential-secret = s\nusername = ccm\ndomain-id = d1",
            json!({"methods": ["application_credential"], "application_credential":
                {"name": "a", "secret": "s", "user": {"name": "ccm", "domain": {"id": "d1"}}}}),
            None,
        ),
    ];
    for (keys, identity, scope) in table {
        let cloud = Cloud::new();
        cloud
            .services_of(&format!("auth-url = http://cloud/identity/\n{keys}\n"))
            .network
            .send(ports())
            .await
            .unwrap();
        let mut body = json!({"auth": {"identity": identity}});
        if let Some(scope) = scope {
            body["auth"]["scope"] = scope;
        }
        assert_eq!(cloud.asked(), [body], "{keys}");
    }
}

//! Credentials towards the services, and their reload from a changed file (P-39).

use axum::response::IntoResponse;
use cloud_provider::{CloudProvider, ConfigFile, Reload, Setup};
use provider_kit::transport::in_process;
use provider_openstack::OpenStack;
use provider_openstack::services::Services;

use super::cloud::{Cloud, GLOBAL, config, ports};

fn file(global: &str) -> ConfigFile {
    ConfigFile {
        path: "cloud.conf".into(),
        text: format!("[Global]\n{global}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_used_as_far_as_it_says_who_we_are() {
    let cloud = Cloud::new();
    let config = config(GLOBAL);
    let setup = Setup::of(file(GLOBAL));
    let services = Services::over(&config, &setup, in_process(cloud.router())).unwrap();
    let provider = OpenStack::over(config, services.clone(), &setup);
    services.network.send(ports()).await.unwrap();
    cloud.asked();
    // Another project, and another Keystone, are refused without a request.
    for other in [
        GLOBAL.replace("tenant-id = p1", "tenant-id = p2"),
        GLOBAL.replace("cloud/", "elsewhere/"),
    ] {
        assert_eq!(
            provider.reload(&file(&other)).await.unwrap(),
            Reload::NeedsRestart,
            "{other}"
        );
    }
    let error = provider.reload(&file("user-id = u1\n")).await.unwrap_err();
    assert!(error.is_invalid() && cloud.asked().is_empty(), "{error}");
    // Too early.
    let newer = GLOBAL.replace("password = right", "password = newer");
    assert!(
        provider
            .reload(&file(&newer))
            .await
            .unwrap_err()
            .is_unauthorized()
    );
    services.network.send(ports()).await.unwrap();
    // The new credential is used when the old token expires (P-39).
    cloud.set_password("newer");
    cloud.revoke_all();
    services.network.send(ports()).await.unwrap();
    assert_eq!(provider.reload(&file(&newer)).await.unwrap(), Reload::Done);
    // Other changes in the file wait for a restart, the credential does not.
    cloud.set_password("newest");
    let more = newer.replace("newer", "newest") + "[Networking]\nipv6-support-disabled = true\n";
    assert_eq!(
        provider.reload(&file(&more)).await.unwrap(),
        Reload::NeedsRestart
    );
    cloud.revoke_all();
    services.network.send(ports()).await.unwrap();
    let last = cloud.asked().pop().unwrap();
    assert_eq!(
        last.pointer("/auth/identity/password/user/password")
            .unwrap(),
        "newest"
    );
}

// The project of a trust or an application credential is only known from its token.
#[tokio::test(start_paused = true)]
async fn another_way_to_the_same_project_needs_no_restart() {
    let cloud = Cloud::new();
    let config = config(GLOBAL);
    let setup = Setup::of(file(GLOBAL));
    let services = Services::over(&config, &setup, in_process(cloud.router())).unwrap();
    let provider = OpenStack::over(config, services.clone(), &setup);
    services.network.send(ports()).await.unwrap();
    let by_trust = |id: &str| GLOBAL.replace("tenant-id = p1", &format!("trust-id = {id}"));
    let application = GLOBAL.replace("user-id = u1", "application-credential-id = a1");
    let application =
        application.replace("password = right", "application-credential-secret = right");
    for other in [&by_trust("t1"), &by_trust("t2"), &application, GLOBAL] {
        assert_eq!(
            provider.reload(&file(other)).await.unwrap(),
            Reload::Done,
            "{other}"
        );
    }
    cloud.move_to("p2");
    let error = provider.reload(&file(&by_trust("t3"))).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("project p2"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn other_endpoints_wait_for_a_restart_because_everything_would_seem_to_be_gone_there() {
    let cloud = Cloud::new();
    let config = config(GLOBAL);
    let setup = Setup::of(file(GLOBAL));
    let services = Services::over(&config, &setup, in_process(cloud.router())).unwrap();
    let provider = OpenStack::over(config, services.clone(), &setup);
    services.network.send(ports()).await.unwrap();
    for other in [
        GLOBAL.replace("region = One", "region = Two"),
        format!("{GLOBAL}os-endpoint-type = internal\n"),
    ] {
        assert_eq!(
            provider.reload(&file(&other)).await.unwrap(),
            Reload::NeedsRestart
        );
        cloud.seen();
        services.network.send(ports()).await.unwrap();
        assert!(
            cloud.seen()[0].starts_with("GET /public/network/"),
            "{other}"
        );
    }
    // The file is restored: its configuration is the one in use.
    assert_eq!(provider.reload(&file(GLOBAL)).await.unwrap(), Reload::Done);
}

#[tokio::test(start_paused = true)]
async fn what_the_flag_user_agent_says_stands_first_in_every_request() {
    let cloud = Cloud::answering(|_, headers| {
        let agent = headers["user-agent"].to_str().unwrap();
        assert!(agent.starts_with("prod east "), "{agent}");
        Some("{}".into_response())
    });
    let setup = Setup {
        user_agent: vec!["prod".into(), "east".into()],
        ..Setup::default()
    };
    let services = Services::over(&config(GLOBAL), &setup, in_process(cloud.router())).unwrap();
    services.network.send(ports()).await.unwrap();
    services.compute.send(ports()).await.unwrap();
    assert_eq!(cloud.seen().len(), 2);
}

//! Dedicated servers behind Nodes, and the few requests that Robot allows.

use std::time::Duration;

use cloud_provider::{InstanceState, LookupRequest};
use hetzner_fake::{Fault, ROBOT_PASSWORD, ROBOT_USER};
use provider_hetzner::config::AddressFamily;
use provider_kit::transport::{Credential, ValueOrFile};

use crate::machines::{FRESH, LATER, Machines, gone, new_node, node, with_internal_ips};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a harness with one dedicated server, `bm-1` with number 321, and one without a Node.
fn one() -> Machines {
    let machines = Machines::with_robot();
    machines.fake.add_robot_server(321, "bm-1");
    machines.fake.add_robot_server(400, "spare");
    machines.fake.change_robot_server(321, |server| {
        server.server_ip = Some("198.51.100.4".parse().unwrap());
        server.server_ipv6_net = Some("2a01:db8:1::".parse().unwrap());
    });
    machines
}

#[tokio::test(start_paused = true)]
async fn a_dedicated_server_exists_by_number_and_by_name_and_what_is_not_there_does_not() {
    let mut machines = one();
    machines.fake.add_server("worker-0");
    assert!(
        machines
            .exists(&node("bm-1", "hrobot://321"))
            .await
            .unwrap()
    );
    assert!(
        machines
            .exists(&node("bm-1", "hcloud://bm-321"))
            .await
            .unwrap()
    );
    assert!(machines.exists(&node("bm-1", "")).await.unwrap());
    assert!(machines.exists(&node("worker-0", "")).await.unwrap());
    assert!(
        !machines
            .exists(&node("bm-1", "hrobot://322"))
            .await
            .unwrap()
    );
    let answer = machines.state(&new_node("bm-2"), FRESH).await;
    assert!(
        gone(&answer)
            .unwrap()
            .contains("Robot has no server of this name either")
    );
}

#[tokio::test(start_paused = true)]
async fn node_that_was_never_initialised_and_that_nobody_knows_is_kept() {
    for (mut machines, advice) in [
        (one(), "set its provider id"),
        (Machines::of(1), "set ROBOT_ENABLED"),
    ] {
        for _ in 0..3 {
            let error = machines
                .state(&node("bm-of-others", ""), FRESH)
                .await
                .unwrap_err();
            assert!(error.to_string().contains("so it is kept"), "{error}");
        }
        let events = machines.events();
        assert!(
            events.len() == 1 && events[0].contains("bm-of-others InstanceLookupFailed"),
            "{events:?}"
        );
        assert!(events[0].contains(advice), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_both_products_have_is_an_error_and_an_event() {
    let mut machines = one();
    machines.fake.add_server("bm-1");
    let err = machines
        .state(&node("bm-1", ""), LookupRequest::METADATA)
        .await
        .unwrap_err();
    assert!(
        err.is_invalid()
            && err
                .to_string()
                .contains("dedicated server 321 are both named \"bm-1\""),
        "{err}"
    );
    let events = machines.events();
    assert!(
        events.len() == 1 && events[0].starts_with("bm-1 InstanceLookupFailed: cloud server"),
        "{events:?}"
    );
    assert!(
        machines
            .exists(&node("bm-1", "hrobot://321"))
            .await
            .unwrap(),
        "an id tells which"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dedicated_server_that_was_renamed_is_another_clusters_now() {
    let mut machines = one();
    let node = node("bm-1", "hrobot://321");
    assert!(machines.exists(&node).await.unwrap());
    machines
        .fake
        .change_robot_server(321, |server| "bm-7".clone_into(&mut server.server_name));
    assert!(
        machines.exists(&node).await.unwrap(),
        "the list is as old as it may be"
    );
    tokio::time::sleep(LATER).await;
    let answer = machines.state(&node, FRESH).await;
    assert!(
        gone(&answer)
            .unwrap()
            .contains("dedicated server 321 is named \"bm-7\" now"),
        "{answer:?}"
    );
    let events = machines.events();
    assert!(
        events[0].starts_with("bm-1 PossibleNodeDeletion: dedicated server 321 is named \"bm-7\""),
        "{events:?}"
    );
    // A list that is minutes old must not remove a Node.
    machines
        .fake
        .change_robot_server(321, |server| "bm-1".clone_into(&mut server.server_name));
    assert!(machines.exists(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dedicated_server_is_asked_each_time_whether_it_runs() {
    let mut machines = one();
    let node = node("bm-1", "hrobot://321");
    for (status, is_shut_down) in [
        ("running", false),
        ("shut off", true),
        ("not supported", false),
    ] {
        machines.fake.change_robot_server(321, |server| {
            status.clone_into(&mut server.operating_status);
        });
        assert_eq!(
            machines.is_shut_down(&node).await.unwrap(),
            is_shut_down,
            "{status}"
        );
    }
    assert_eq!(
        machines.requests(),
        ["3 × GET /reset/{number}", "1 × GET /server"]
    );
    assert!(machines.exists(&node).await.unwrap());
    assert!(
        machines.requests().is_empty(),
        "whether it runs was not asked"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_told_all_of_its_dedicated_server() {
    let mut machines = one();
    machines.config.instances.zone_label = false;
    machines.fake.change_robot_server(321, |server| {
        "Robot Server™ 1".clone_into(&mut server.product);
        "NBG1-DC1".clone_into(&mut server.dc);
    });
    let metadata = machines.metadata(&node("bm-1", "")).await;
    assert_eq!(
        (&*metadata.provider_id, &*metadata.instance_type),
        ("hrobot://321", "Robot-Server-1")
    );
    assert_eq!(
        (&*metadata.zone, &*metadata.region),
        ("nbg1-dc1", "nbg1"),
        "always set"
    );
    let label = (
        "instance.hetzner.cloud/provided-by".to_owned(),
        "robot".to_owned(),
    );
    assert_eq!(metadata.additional_labels, [label].into());
}

#[tokio::test(start_paused = true)]
async fn addresses_of_dedicated_servers_are_those_of_the_family_ipv6_first() {
    let v4 = "ExternalIP 198.51.100.4";
    let v6 = "ExternalIP 2a01:db8:1::1";
    let table: [(AddressFamily, &[&str]); 3] = [
        (AddressFamily::Ipv4, &[v4]),
        (AddressFamily::Ipv6, &[v6]),
        (AddressFamily::Dualstack, &[v6, v4]),
    ];
    for (family, expected) in table {
        let mut machines = one();
        machines.config.instances.address_family = family;
        let addresses = machines.addresses(&node("bm-1", "hrobot://321")).await;
        assert_eq!(addresses[0], "Hostname bm-1");
        assert_eq!(addresses[1..], *expected, "{family:?}");
    }
    let mut machines = one();
    machines.fake.change_robot_server(321, |server| {
        (server.server_ip, server.server_ipv6_net) = (None, None);
    });
    assert_eq!(
        machines.addresses(&node("bm-1", "hrobot://321")).await,
        ["Hostname bm-1"]
    );
}

/// `ROBOT_FORWARD_INTERNAL_IPS` keeps internal addresses.
#[tokio::test(start_paused = true)]
async fn internal_ips_of_the_kubelet_are_kept_unless_they_do_not_fit() {
    let plain = node("bm-1", "hrobot://321");
    let reported = with_internal_ips(&plain, &["10.0.0.7", "fd00::7", "198.51.100.4"]);
    let mut machines = one();
    let addresses = machines.addresses(&reported).await;
    assert_eq!(
        addresses,
        [
            "Hostname bm-1",
            "ExternalIP 198.51.100.4",
            "InternalIP 10.0.0.7"
        ]
    );
    let events = machines.events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events[0].starts_with(
            "bm-1 MisconfiguredInternalIP: InternalIP fd00::7 is not kept: it is IPv6"
        )
    );
    assert!(
        events[1].contains(
            "InternalIP 198.51.100.4 is not kept: it is one of the node's other addresses"
        )
    );
    machines.addresses(&reported).await;
    assert_eq!(machines.events().len(), 2, "each time");

    machines.config.instances.address_family = AddressFamily::Ipv6;
    machines.start().await;
    let addresses = machines.addresses(&reported).await;
    assert_eq!(
        addresses,
        [
            "Hostname bm-1",
            "ExternalIP 2a01:db8:1::1",
            "InternalIP fd00::7"
        ]
    );
    assert_eq!(machines.events().len(), 2);

    machines.config.instances.address_family = AddressFamily::Dualstack;
    machines.start().await;
    let addresses = machines.addresses(&reported).await;
    assert_eq!(
        addresses[3..],
        ["InternalIP 10.0.0.7", "InternalIP fd00::7"]
    );

    machines.robot().forward_internal_ips = false;
    machines.start().await;
    assert_eq!(machines.addresses(&reported).await.len(), 3);
}

/// Caches the list of dedicated servers for `ROBOT_CACHE_TIMEOUT`.
#[tokio::test(start_paused = true)]
async fn one_list_serves_all_for_as_long_as_it_may() {
    let mut machines = one();
    machines.robot().cache_timeout = 2 * MINUTE;
    let nodes = [
        node("bm-1", "hrobot://321"),
        node("spare", "hrobot://400"),
        node("bm-1", ""),
    ];
    machines.look_up(&nodes, LookupRequest::METADATA).await;
    tokio::time::sleep(2 * MINUTE).await;
    machines
        .look_up(&nodes, LookupRequest::EXISTENCE.fresh())
        .await;
    assert_eq!(
        machines.fake.count("GET /server"),
        1,
        "what is in it exists"
    );
    tokio::time::sleep(Duration::from_millis(1)).await;
    machines.look_up(&nodes, LookupRequest::ADDRESSES).await;
    assert_eq!(machines.fake.count("GET /server"), 2);
    // An absence is not taken from it.
    machines.fake.remove_robot_server(321);
    assert!(machines.exists(&nodes[0]).await.unwrap());
    assert!(
        !machines
            .exists(&node("bm-9", "hrobot://999"))
            .await
            .unwrap()
    );
    assert_eq!(machines.fake.count("GET /server"), 3);
}

#[tokio::test(start_paused = true)]
async fn an_account_without_servers_proves_nothing() {
    let mut machines = one();
    machines.fake.remove_robot_server(321);
    machines.fake.remove_robot_server(400);
    let err = machines
        .exists(&node("bm-1", "hrobot://321"))
        .await
        .unwrap_err();
    assert!(
        err.to_string().contains("the Robot account of ROBOT_USER"),
        "{err}"
    );
}

#[tokio::test(start_paused = true)]
async fn another_account_is_found_out_though_the_cloud_shows_its_servers() {
    let mut machines = one();
    machines.fake.add_server("worker-0");
    let worker = node(
        "worker-0",
        &format!("hcloud://{}", machines.fake.server("worker-0").unwrap().id),
    );
    let nodes = [
        node("bm-1", "hrobot://321"),
        node("spare", "hrobot://400"),
        worker,
    ];
    machines.cluster(&nodes);
    machines.start().await;
    machines.fake.remove_robot_server(321);
    machines.fake.remove_robot_server(400);
    machines.fake.add_robot_server(9, "somebody-elses");
    let err = machines.exists(&nodes[0]).await.unwrap_err();
    assert!(
        err.is_unauthorized()
            && err
                .to_string()
                .contains("ROBOT_USER shows no other dedicated server"),
        "{err}"
    );
    machines.fake.add_robot_server(400, "spare");
    assert!(!machines.exists(&nodes[0]).await.unwrap());
}

/// `ROBOT_RATE_LIMIT_WAIT_TIME` sets the pause.
#[tokio::test(start_paused = true)]
async fn after_a_refusal_for_too_many_requests_robot_is_left_alone_for_the_wait_time() {
    let mut machines = one();
    machines.robot().rate_limit_wait = 5 * MINUTE;
    let node = node("bm-1", "hrobot://321");
    machines.start().await;
    for fault in [
        Fault::code("GET /server", "RATE_LIMIT_EXCEEDED"),
        Fault::status("GET /server", 403),
    ] {
        tokio::time::sleep(LATER).await;
        machines.fake.forget_requests();
        machines.fake.fail(fault.times(1));
        assert!(machines.exists(&node).await.is_err());
        assert_eq!(machines.fake.count("GET"), 1);
        tokio::time::sleep(5 * MINUTE - Duration::from_secs(1)).await;
        for request in [FRESH, LookupRequest::METADATA, LookupRequest::ADDRESSES] {
            let err = machines.state(&node, request).await.unwrap_err();
            assert!(err.is_rate_limited(), "{err}");
        }
        assert_eq!(machines.fake.count("GET"), 1, "nothing at all is asked");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(machines.exists(&node).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_password_is_not_tried_a_second_time_in_a_row() {
    let mut machines = one();
    machines.robot().credential = Some(Credential::basic(ROBOT_USER, "wrong"));
    let nodes: Vec<_> = (0..20)
        .map(|n| node("bm-1", &format!("hrobot://{}", 321 + n)))
        .collect();
    machines.start().await;
    for _ in 0..10 {
        for answer in machines.look_up(&nodes, FRESH).await {
            let err = answer.unwrap_err();
            assert!(err.is_unauthorized(), "{err}");
            assert!(!err.to_string().contains("wrong"));
        }
        tokio::time::sleep(MINUTE).await;
    }
    assert_eq!(machines.requests(), ["1 × GET /server"]);
    tokio::time::sleep(6 * MINUTE).await;
    assert!(machines.exists(&nodes[0]).await.is_err());
    assert_eq!(
        machines.requests(),
        ["1 × GET /server"],
        "long after, once more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_password_that_was_corrected_is_tried_at_once() {
    let file = std::env::temp_dir().join(format!("hetzner-robot-password-{}", std::process::id()));
    std::fs::write(&file, "wrong\n").unwrap();
    let mut machines = one();
    let password = ValueOrFile::file(&file);
    machines.robot().credential =
        Some(Credential::basic_files(ValueOrFile::value(ROBOT_USER), password).unwrap());
    let node = node("bm-1", "hrobot://321");
    assert!(machines.exists(&node).await.unwrap_err().is_unauthorized());
    std::fs::write(&file, ROBOT_PASSWORD).unwrap();
    assert!(machines.exists(&node).await.unwrap());
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_robot_is_no_absence_and_does_not_touch_nodes_of_the_cloud() {
    let mut machines = one();
    let server = machines.fake.add_server("worker-0");
    machines.start().await;
    machines.fake.fail(Fault::status("GET /server", 503));
    let nodes = [
        node("bm-1", "hrobot://321"),
        node("worker-0", &format!("hcloud://{}", server.id)),
    ];
    let answers = machines.look_up(&nodes, FRESH).await;
    assert!(answers[0].is_err() && matches!(answers[1], Ok(InstanceState::Present { .. })));
    // A Node of either product is unknown until both have answered.
    assert!(machines.exists(&node("worker-0", "")).await.is_err());
}

/// Robot answers about 200 requests an hour.
#[tokio::test(start_paused = true)]
async fn cloud_servers_that_join_one_by_one_cost_robot_nothing() {
    let mut machines = one();
    machines.start().await;
    for n in 0..100 {
        machines.fake.add_server(&format!("worker-{n}"));
        machines.metadata(&node(&format!("worker-{n}"), "")).await;
        tokio::time::sleep(Duration::from_secs(18)).await;
    }
    // Half an hour, and a list is used for five minutes.
    assert!(
        machines.fake.count("GET /server") <= 7,
        "{:?}",
        machines.requests()
    );
    // A dedicated server that is newer than the list is found as well.
    machines.fake.add_robot_server(500, "bm-500");
    assert_eq!(
        machines.metadata(&node("bm-500", "")).await.provider_id,
        "hrobot://500"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dedicated_server_that_stays_away_does_not_use_up_robots_requests() {
    let mut machines = one();
    machines.start().await;
    let node = node("bm-9", "hrobot://999");
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert!(!machines.exists(&node).await.unwrap());
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "at first at once");
    let mut last = begun;
    while begun.elapsed() < 60 * MINUTE {
        assert!(!machines.exists(&node).await.unwrap());
        assert!(last.elapsed() <= MINUTE, "it is asked all the same");
        last = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(
        machines.fake.count("GET /server") <= 135,
        "{:?}",
        machines.requests()
    );
}

#[tokio::test(start_paused = true)]
async fn robot_is_asked_one_thing_at_a_time() {
    let mut machines = Machines::with_robot();
    let nodes: Vec<_> = (1..=30).map(|n| (n, format!("bm-{n}"))).collect();
    nodes
        .iter()
        .for_each(|(n, name)| drop(machines.fake.add_robot_server(*n, name)));
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(n, name)| node(name, &format!("hrobot://{n}")))
        .collect();
    machines.robot().rate_limit_wait = 5 * MINUTE;
    machines.start().await;
    machines.fake.limit_robot(Some(10));
    let answers = machines.look_up(&nodes, FRESH).await;
    assert_eq!(answers.iter().filter(|state| state.is_ok()).count(), 10);
    assert_eq!(
        machines.requests(),
        ["11 × GET /reset/{number}", "1 × GET /server"],
        "none after the refusal"
    );
}

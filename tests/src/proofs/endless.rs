//! What a cloud says is read up to a limit, whatever it says (P-3).

use std::time::Duration;

use fake_cloud::{Fault, FaultKind};
use provider_kit::transport::{MOST_OF_A_LIST, MOST_OF_A_REFUSAL};

use crate::faked_cloud::FakedCloud;
use crate::scene;

/// What is taken of a body beyond its limit: the part that shows that it is too long, and one that was ready.
const MORE: usize = 128 << 10;
/// The most requests of an hour in which nothing succeeds: each waits longer than the one before.
const REQUESTS: usize = 2_000;

/// Answers without an end are not read to it, are not asked for again and again, and nothing is concluded from them: when
/// the cloud is well again, everything converges.
///
/// # Panics
/// If it does not hold.
pub async fn endless_answers(cloud: &impl FakedCloud) {
    let stage = scene::on(cloud);
    scene::join(&stage, 1..=3).await;
    stage.user.create_service("web", &[80]).await;
    let program = stage.start().await.expect("a start");
    scene::settle(&stage).await;
    for (what, faults, limit) in [
        ("a refusal", &[Fault::refused("", 500), Fault::new("", FaultKind::EndlessAnswer)][..], MOST_OF_A_REFUSAL),
        ("an answer", &[Fault::new("", FaultKind::EndlessAnswer)], MOST_OF_A_LIST),
    ] {
        cloud.gate().forget_requests();
        faults.iter().for_each(|fault| cloud.gate().fail(fault.clone()));
        stage.user.set_ready("worker-2", false).await;
        stage.user.set_ports("web", if limit == MOST_OF_A_LIST { &[80, 443] } else { &[443] }).await;
        stage.user.create_service(if limit == MOST_OF_A_LIST { "mail" } else { "api" }, &[25]).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let (taken, requests) = (cloud.gate().longest_padding(), cloud.gate().requests().len());
        println!("{what} without an end: {requests} requests in an hour, at most {taken} bytes were read of one");
        assert!(taken > 0 && taken <= limit + MORE, "{what}: {taken} bytes were read");
        assert!(requests <= REQUESTS, "{what}: {requests} requests in an hour: {:?}", cloud.gate().counts());
        assert_eq!(stage.api.list("nodes").len(), 3, "{what}");
        cloud.gate().clear_faults();
        stage.user.set_ready("worker-2", true).await;
        scene::settle(&stage).await;
        assert_eq!(stage.violations(), [""; 0], "{what}");
    }
    assert_eq!(cloud.load_balancers().len(), 3);
    program.stop().await;
}

/// A list of empty pages, each of which names a next one, is given up after the first, and is no absence.
///
/// # Panics
/// If it does not hold.
pub async fn endless_lists<C: FakedCloud>(cloud: &C) {
    let stage = scene::on(cloud);
    scene::join(&stage, 1..=5).await;
    let program = stage.start().await.expect("a start");
    scene::settle(&stage).await;
    for number in 1..=5 {
        stage.user.set_ready(&format!("worker-{number}"), false).await;
    }
    cloud.gate().forget_requests();
    cloud.gate().fail(Fault::new(C::MACHINES, FaultKind::EmptyPages));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let (lists, requests) = (cloud.gate().count(C::MACHINES), cloud.gate().requests().len());
    println!("empty pages without an end: {lists} of {requests} requests of an hour were for a list of machines");
    assert!(lists > 0, "the list of machines was not asked for");
    assert!(requests <= REQUESTS, "{requests} requests in an hour: {:?}", cloud.gate().counts());
    assert_eq!(stage.api.list("nodes").len(), 5, "nothing follows from empty pages");
    program.stop().await;
}

//! INV-1: A Node is deleted only on an authoritative *gone*; an error, a partial page, an empty answer never deletes.

use std::time::Duration;

use provider_simulated::cloud::{DEFAULT_TOKEN, Fault, FaultKind, NewMachine};

use crate::scene;

/// Every way of being wrong at once is not more wrong than each by itself: one after the other, a long time each.
#[tokio::test(start_paused = true)]
async fn inv_1_a_node_is_deleted_only_when_its_machine_is_gone_for_certain() {
    let (stage, cloud) = scene::stage();
    scene::join(&stage, 60).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    for number in 2..=60 {
        stage.user.set_ready(&format!("worker-{number}"), false).await;
    }
    let faults = [
        Fault::status(500),
        Fault::status(404),
        Fault::status(429),
        Fault::new(FaultKind::EmptyList),
        Fault::new(FaultKind::MissingPage).without_total(),
        Fault::new(FaultKind::EarlyEnd).without_total(),
        Fault::new(FaultKind::LostAnswer),
        Fault::new(FaultKind::Hang),
        Fault::new(FaultKind::WrongCredentials),
    ];
    for fault in faults {
        cloud.inject(fault.clone());
        tokio::time::sleep(Duration::from_secs(400)).await;
        assert_eq!(stage.api.list("nodes").len(), 60, "{fault:?}");
        cloud.clear_faults();
    }
    // Not even if there are machines, all of them somebody else's.
    for number in 0..70 {
        let (name, project) = (format!("theirs-{number}"), "somebody-else".to_owned());
        cloud.add_machine(NewMachine { name, project, ..NewMachine::default() });
    }
    cloud.add_token(DEFAULT_TOKEN, "somebody-else");
    tokio::time::sleep(Duration::from_secs(900)).await;
    cloud.add_token(DEFAULT_TOKEN, "demo");
    assert_eq!(stage.api.list("nodes").len(), 60, "the credential was for another project");

    stage.cloud.terminate("worker-7");
    scene::settle(&stage).await;
    assert_eq!(stage.api.list("nodes").len(), 59, "gone for certain");
    assert!(stage.api.get("nodes", None, "worker-7").is_none());
    assert_eq!(stage.violations(), [""; 0]);
}

//! INV-1: A Node is deleted only on an authoritative *gone*; an error, a partial page, an empty answer never deletes.

use ccm_tests::proofs::inv_1_with;
use provider_simulated::cloud::{Fault, FaultKind};

use crate::scene;

#[tokio::test(start_paused = true)]
async fn inv_1_a_node_is_deleted_only_when_its_machine_is_gone_for_certain() {
    let (stage, cloud) = scene::stage();
    let faults = vec![
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
    inv_1_with(&stage, faults, |fault| cloud.inject(fault), || cloud.clear_faults()).await;
}

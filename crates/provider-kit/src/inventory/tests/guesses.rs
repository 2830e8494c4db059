//! Nodes that are identified by their firmware.

use cloud_provider::{AddressType, NodeAddress};

use super::*;

const UUID: &str = "7b9cf879-7146-417c-abfd-cb4272f0c935";
const SWAPPED: &str = "79F89C7B-4671-7C41-ABFD-CB4272F0C935";

/// Returns a Node named `n`, on the machine `vm` as the kubelet knows it.
fn node(system_uuid: &str, machine: &str) -> Arc<Node> {
    let addresses = [NodeAddress::new(AddressType::Hostname, machine)].into();
    Arc::new(Node {
        name: "n".into(),
        uid: "u".into(),
        system_uuid: system_uuid.into(),
        addresses,
        ..Node::default()
    })
}

fn acme_with(machines: usize) -> Inventory<Acme> {
    let inventory = acme(machines);
    inventory.change(|all| {
        all.push(Vm {
            id: UUID.into(),
            name: "vm".into(),
            is_stopped: false,
        });
    });
    inventory
}

#[tokio::test(start_paused = true)]
async fn a_node_with_another_name_than_its_machine_is_found_in_either_byte_order() {
    for (text, reads) in [(UUID, 1), (SWAPPED, 2)] {
        let inventory = acme_with(10);
        let answers = inventory
            .lookup(&[node(text, "vm")], LookupRequest::METADATA)
            .await;
        assert_eq!(id_of(&answers[0]), format!("acme://{UUID}"));
        assert_eq!(inventory.costs(), (0, 0, reads));
    }
}

#[tokio::test(start_paused = true)]
async fn list_answers_guesses_without_further_requests() {
    let inventory = acme_with(500);
    let mut nodes = joining(0..500);
    nodes.push(node(SWAPPED, "vm"));
    let answers = inventory.lookup(&nodes, LookupRequest::METADATA).await;
    assert_eq!(id_of(&answers[500]), format!("acme://{UUID}"));
    assert_eq!(inventory.costs(), (1, 11, 0));
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_guess_is_not_used() {
    let inventory = acme_with(10);
    let answers = inventory
        .lookup(&[node(UUID, "another")], LookupRequest::METADATA)
        .await;
    assert!(
        gone(&answers[0]).is_some_and(|why| why.contains("no instance named \"n\"")),
        "{answers:?}"
    );
    inventory.change(|all| {
        all.push(Vm {
            id: "i-n".into(),
            name: "n".into(),
            is_stopped: false,
        });
    });
    let answers = inventory
        .lookup(&[node(UUID, "another")], LookupRequest::METADATA)
        .await;
    assert_eq!(id_of(&answers[0]), "acme://i-n");
}

/// Rule P-10: otherwise, the Node would get the provider ID of a machine that is gone.
#[tokio::test(start_paused = true)]
async fn new_machine_of_a_used_name_replaces_the_listed_one() {
    let inventory = acme(100);
    inventory.change(|all| all[7].name = "n".into());
    inventory.snapshot(Priority::Refresh).await.unwrap();
    inventory.change(|all| all[7].id = UUID.into());
    let answers = inventory
        .lookup(&[node(UUID, "n")], LookupRequest::METADATA)
        .await;
    assert_eq!(id_of(&answers[0]), format!("acme://{UUID}"));
}

#[tokio::test(start_paused = true)]
async fn failed_read_of_a_guess_proves_no_absence() {
    let inventory = acme_with(10);
    inventory.source().fails.store(true, Ordering::SeqCst);
    let answers = inventory.lookup(&[node(UUID, "vm")], FRESH).await;
    assert!(answers[0].as_ref().is_err_and(Error::is_unauthorized));
}

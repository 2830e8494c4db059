//! Provider ids of Hetzner's Nodes, in every form that programs have written.

use cloud_provider::{CloudProvider, LookupRequest};

use crate::machines::{Machines, gone, node};

#[tokio::test(start_paused = true)]
async fn a_node_with_an_id_of_ours_in_any_form_is_owned_and_so_is_one_without() {
    let mut machines = Machines::of(0);
    let provider = machines.start().await;
    for (id, is_ours) in [
        ("", true),
        ("hcloud://1234", true),
        ("hrobot://321", true),
        ("hcloud://bm-321", true),
        ("hcloud://abc", true),
        ("foo://1", false),
        ("HCLOUD://1", false),
        ("1234", false),
    ] {
        assert_eq!(provider.owns_node(&node("worker", id)), is_ours, "{id:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_id_cannot_be_read_is_an_error_and_never_gone() {
    let mut machines = Machines::of(1);
    let ids = [
        "foo://1",
        "hcloud://",
        "hcloud://abc",
        "hcloud://0001000001",
        "hrobot://x",
        "hcloud://bm-",
    ];
    let nodes: Vec<_> = ids.iter().map(|id| node("worker-0", id)).collect();
    let answers = machines
        .look_up(&nodes, LookupRequest::EXISTENCE.fresh())
        .await;
    for (id, answer) in ids.iter().zip(&answers) {
        let err = answer.as_ref().unwrap_err();
        assert!(
            err.is_invalid() && err.to_string().contains("hcloud://<server id>"),
            "{err}"
        );
        assert!(err.to_string().contains(id) && gone(answer).is_none());
    }
    assert!(machines.requests().is_empty());
}

//! INV-3: In a steady state there is no mutating request, to the cloud or to Kubernetes.

use std::time::Duration;

use crate::scene;

#[tokio::test(start_paused = true)]
async fn inv_3_a_steady_cluster_hears_nothing_nor_does_a_restart_or_a_flapping_node() {
    let (stage, _) = scene::stage_with_routes();
    scene::join(&stage, 5).await;
    for name in ["web", "mail", "api"] {
        stage.user.create_service(name, &[80, 443]).await;
    }
    let program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    let (mutations, events, revision) = (stage.gate.mutations(), scene::event_reasons(&stage), stage.api.revision());
    let expect_silence = |when: &str| {
        assert_eq!(stage.gate.mutations(), mutations, "{when}: {:#?}", stage.gate.last(20));
        assert_eq!(scene::event_reasons(&stage), events, "{when}");
    };

    tokio::time::sleep(Duration::from_secs(26 * 3600)).await;
    expect_silence("in a day");
    assert_eq!(stage.api.revision(), revision);

    program.stop().await;
    let program = stage.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(900)).await;
    expect_silence("after a restart");

    for is_ready in [false, true, false] {
        stage.user.set_ready("worker-2", is_ready).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
    expect_silence("while a Node flaps");

    program.stop().await;
    let program = stage.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(900)).await;
    expect_silence("after a restart while a Node is not ready");
    program.stop().await;
    expect_silence("while it stops");
}

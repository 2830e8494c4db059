//! INV-1, INV-3, INV-4, INV-7.

use std::fmt::Debug;
use std::time::Duration;

use cloud_provider::Fence;
use fake_cloud::Fault;

use crate::faked_cloud::FakedCloud;
use crate::scene;
use crate::stage::Stage;

/// INV-1: a Node is deleted only when its machine is gone for certain. The list of 60 machines should have several pages.
///
/// # Panics
/// If it does not hold.
pub async fn inv_1<C: FakedCloud>(cloud: &C) {
    let faults = [Fault::of_list(C::MACHINES), cloud.own_faults()].concat();
    inv_1_with(&scene::on(cloud), faults, |fault| cloud.gate().fail(fault), || cloud.gate().clear_faults()).await;
}

/// The same on an empty stage whose cloud fails, and is mended, in ways of its own. Every way of being wrong at once is not
/// more wrong than each by itself: one after the other, a long time each.
///
/// # Panics
/// If it does not hold.
pub async fn inv_1_with<F: Clone + Debug>(stage: &Stage, faults: Vec<F>, fail: impl Fn(F), mend: impl Fn()) {
    scene::join(stage, 1..=60).await;
    let _program = stage.start().await.expect("a start");
    scene::settle(stage).await;
    for number in 2..=60 {
        stage.user.set_ready(&format!("worker-{number}"), false).await;
    }
    for fault in faults {
        fail(fault.clone());
        tokio::time::sleep(Duration::from_secs(400)).await;
        assert_eq!(stage.api.list("nodes").len(), 60, "{fault:?}");
        mend();
    }
    // Not even if the credential's project has machines, all of them somebody else's.
    for number in 0..70 {
        stage.cloud.add_machine_of_others(&format!("theirs-{number}"));
    }
    stage.cloud.confuse(true);
    tokio::time::sleep(Duration::from_secs(900)).await;
    stage.cloud.confuse(false);
    assert_eq!(stage.api.list("nodes").len(), 60, "the credential was for another project");
    tokio::time::sleep(Duration::from_secs(60)).await;

    stage.cloud.terminate("worker-7");
    scene::settle(stage).await;
    assert_eq!(stage.api.list("nodes").len(), 59, "gone for certain");
    assert!(stage.api.get("nodes", None, "worker-7").is_none());
    assert_eq!(stage.violations(), [""; 0]);
}

/// INV-3: a steady cluster hears nothing, nor does a restart or a flapping Node. The stage is empty.
///
/// # Panics
/// If it does not hold.
pub async fn inv_3(stage: &Stage) {
    scene::join(stage, 1..=5).await;
    for name in ["web", "mail", "api"] {
        stage.user.create_service(name, &[80, 443]).await;
    }
    let program = stage.start().await.expect("a start");
    scene::settle(stage).await;
    let (mutations, events, revision) = (stage.gate.mutations(), scene::event_reasons(stage), stage.api.revision());
    let expect_silence = |when: &str| {
        assert_eq!(stage.gate.mutations(), mutations, "{when}: {:#?}", stage.gate.last(20));
        assert_eq!(scene::event_reasons(stage), events, "{when}");
    };

    tokio::time::sleep(Duration::from_secs(26 * 3600)).await;
    expect_silence("in a day");
    assert_eq!(stage.api.revision(), revision);

    program.stop().await;
    let program = stage.start().await.expect("a start");
    tokio::time::sleep(Duration::from_secs(900)).await;
    expect_silence("after a restart");

    for is_ready in [false, true, false] {
        stage.user.set_ready("worker-2", is_ready).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
    expect_silence("while a Node flaps");

    program.stop().await;
    let program = stage.start().await.expect("a start");
    tokio::time::sleep(Duration::from_secs(900)).await;
    expect_silence("after a restart while a Node is not ready");
    program.stop().await;
    expect_silence("while it stops");
}

/// INV-4: who does not lead changes nothing. The stage is empty.
///
/// # Panics
/// If it does not hold.
pub async fn inv_4(mut stage: Stage) {
    stage.fence = Fence::new(|| false);
    scene::join(&stage, 1..=5).await;
    stage.user.create_service("web", &[80]).await;
    let _program = stage.start().await.expect("a start");
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(stage.gate.count() > 0, "it works, and asks");
    assert_eq!(stage.gate.mutations(), 0, "{:#?}", stage.gate.last(10));
}

/// INV-7: what is not ours stays as it is through a whole life.
///
/// # Panics
/// If it does not hold.
pub async fn inv_7(cloud: &impl FakedCloud) {
    let stage = scene::on_with_routes(cloud);
    scene::join(&stage, 1..=3).await;
    cloud.leave_things_of_others();
    let theirs = cloud.things_of_others();
    assert!(theirs.len() > 1, "{theirs:?}");

    let program = stage.start().await.expect("a start");
    stage.user.create_service("web", &[80, 443]).await;
    scene::settle(&stage).await;
    stage.user.set_ports("web", &[80]).await;
    scene::settle(&stage).await;
    assert_eq!(cloud.things_of_others(), theirs, "while a Service and Nodes are there");
    stage.user.delete_service("web").await;
    stage.user.delete_node("worker-3").await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    program.stop().await;
    assert_eq!(cloud.things_of_others(), theirs, "when they are gone");
}

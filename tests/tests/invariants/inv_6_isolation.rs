//! INV-6: One key's failure or slowness never delays another key; calls for one Service never overlap.

use std::time::Duration;

use ccm_tests::gate::Trouble;
use ccm_tests::stage::Stage;
use tokio::time::Instant;

use crate::scene;

fn uid(stage: &Stage, service: &str) -> String {
    let service = stage.api.get("services", Some("default"), service).unwrap();
    service["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn address(stage: &Stage, service: &str) -> Option<String> {
    let service = stage.api.get("services", Some("default"), service)?;
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().map(str::to_owned)
}

/// As many Services as there are workers hang or fail for ever.
#[tokio::test(start_paused = true)]
async fn inv_6_services_that_hang_or_fail_delay_nobody_and_never_overlap() {
    let (stage, _) = scene::stage();
    scene::join(&stage, 1..=2).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    for number in 0..12 {
        let (hanging, failing) = (format!("hanging-{number}"), format!("failing-{number}"));
        stage.user.create_service(&hanging, &[80]).await;
        stage.gate.single_out(&uid(&stage, &hanging), Trouble::Hang);
        stage.user.create_service(&failing, &[80]).await;
        stage.gate.single_out(&uid(&stage, &failing), Trouble::Status(500, None));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for name in ["one", "two", "three"] {
        let begun = Instant::now();
        stage.user.create_service(name, &[80]).await;
        while address(&stage, name).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(15), "Service {name} waits for others");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    // What a user or a Node does to a Service while a call for it hangs waits for the end of that call.
    stage.user.set_ports("hanging-3", &[443]).await;
    stage.cloud.add_machine("worker-3");
    stage.user.register_node("worker-3", &[]).await;
    stage.user.delete_service("hanging-4").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(stage.violations(), [""; 0]);

    stage.gate.pardon();
    scene::settle(&stage).await;
    assert_eq!(stage.violations(), [""; 0]);
}

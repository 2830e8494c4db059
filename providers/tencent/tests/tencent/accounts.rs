//! Credentials that are, or become, another account's.

use std::time::Duration;

use tencent_fake::{ACCOUNT, Fault, FaultKind};

use crate::harness::{Harness, service};

const OTHERS: &str = "100007654321";

#[tokio::test(start_paused = true)]
async fn load_balancer_created_in_another_account_is_deleted_at_once() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let slow = FaultKind::Latency(Duration::from_secs(2));
    harness
        .fake
        .fault_injector()
        .fail(Fault::new("POST /clb/CreateLoadBalancer", slow).times(1));
    let mut service = service(&[]);
    let switch = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        harness.fake.lock().account = OTHERS;
    };
    let (outcome, ()) = tokio::join!(harness.ensure(&provider, &mut service), switch);
    let error = outcome.unwrap_err();
    assert!(
        error.is_unauthorized() && error.to_string().contains("worker-1"),
        "{error}"
    );
    assert!(
        harness.fake.lock().all("balancer").is_empty(),
        "the other account keeps nothing"
    );
    harness.ensure(&provider, &mut service).await.unwrap_err();
    harness.fake.lock().account = ACCOUNT;
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.only("balancer");
}

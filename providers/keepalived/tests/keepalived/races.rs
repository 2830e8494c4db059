//! Two programs at once, and many Services at once.

use std::sync::atomic::Ordering;

use futures::future::join_all;

use crate::harness::Harness;

#[tokio::test(start_paused = true)]
async fn two_replicas_that_race_give_out_no_address_twice() {
    let harness = Harness::new("10.0.0.0/24");
    let one = harness.start(None).await;
    let two = harness.start(None).await;
    let services: Vec<_> = (0..60)
        .map(|number| harness.service(&format!("s{number}")))
        .collect();
    // A conflict that persists is answered as an error, which the controller tries again.
    let synced = async |service| {
        for _ in 0..20 {
            let outcomes = join_all([one.ensure(service), two.ensure(service)]).await;
            if outcomes
                .iter()
                .all(|outcome| outcome.as_ref().is_some_and(Result::is_ok))
            {
                return outcomes
                    .into_iter()
                    .map(|outcome| outcome.and_then(Result::ok))
                    .collect::<Vec<_>>();
            }
        }
        panic!("{:?} gets no address", service.metadata.name);
    };
    let given = join_all(services.iter().map(synced)).await;
    assert!(
        given.iter().all(|entry| entry[0] == entry[1]),
        "the replicas disagree: {given:?}"
    );
    assert_eq!(harness.addresses().len(), 60);
    join_all(services.iter().map(|service| one.delete(service))).await;
    assert_eq!(harness.addresses(), []);
}

#[tokio::test(start_paused = true)]
async fn hundred_services_at_once_need_few_writes() {
    let harness = Harness::new("10.0.0.0/24");
    let run = harness.start(None).await;
    let services: Vec<_> = (0..100)
        .map(|number| harness.service(&format!("s{number}")))
        .collect();
    let before = run.requests.load(Ordering::Relaxed);
    join_all(services.iter().map(|service| run.ensure(service))).await;
    assert_eq!(harness.addresses().len(), 100);
    let requests = run.requests.load(Ordering::Relaxed) - before;
    assert!(
        requests <= 100 + 10,
        "{requests} requests: one read for each Service, and few writes"
    );
}

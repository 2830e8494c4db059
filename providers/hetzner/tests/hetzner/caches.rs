//! How servers are remembered: §2.4, rows 65 and 66 of §8, `HCLOUD_SERVER_CACHE_MODE` and `…_MAX_AGE`.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Want};
use hetzner_fake::Fault;
use provider_hetzner::config::Cache;

use crate::machines::{Machines, gone, node, nodes_of};

const AGE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);

fn in_mode(cache: Cache) -> (Machines, Vec<Arc<Node>>) {
    let mut machines = Machines::of(120);
    machines.config.instances.cache = cache;
    let nodes = nodes_of(&machines.fake);
    (machines, nodes)
}

/// §8.65.
#[tokio::test(start_paused = true)]
async fn mode_all_hits_up_to_its_age_lists_again_after_it_and_for_each_unknown_id() {
    let (mut machines, nodes) = in_mode(Cache::All(AGE));
    for (wait, expected) in [(Duration::ZERO, 3), (AGE, 0), (MOMENT, 3)] {
        tokio::time::sleep(wait).await;
        assert!(machines.state(&nodes[0], Want::ADDRESSES).await.is_ok());
        assert_eq!(machines.fake.count("GET /servers"), expected, "pages");
        machines.fake.forget_requests();
    }
    for _ in 0..2 {
        let unknown = machines.state(&node("x", "hcloud://77"), Want::ADDRESSES).await;
        assert!(gone(&unknown).is_some());
        assert_eq!(machines.requests(), ["3 × GET /servers"]);
    }
    machines.state(&node("worker-7", ""), Want::METADATA).await.unwrap();
    assert!(machines.requests().is_empty(), "by name as well");
}

/// §8.66.
#[tokio::test(start_paused = true)]
async fn mode_off_asks_each_time_and_keeps_nothing() {
    let (mut machines, nodes) = in_mode(Cache::Off);
    for _ in 0..4 {
        machines.state(&nodes[0], Want::ADDRESSES).await.unwrap();
    }
    machines.state(&node("worker-7", ""), Want::METADATA).await.unwrap();
    assert_eq!(machines.requests(), ["1 × GET /servers", "4 × GET /servers/{id}"]);
}

#[tokio::test(start_paused = true)]
async fn mode_one_reads_one_server_and_forgets_it_when_it_is_not_found() {
    let (mut machines, nodes) = in_mode(Cache::One(AGE));
    machines.look_up(&nodes[..60], Want::ADDRESSES).await;
    assert_eq!(machines.requests(), ["60 × GET /servers/{id}"]);
    tokio::time::sleep(AGE).await;
    machines.look_up(&nodes[..60], Want::ADDRESSES).await;
    assert!(machines.requests().is_empty());
    tokio::time::sleep(MOMENT).await;
    machines.fake.terminate("worker-0");
    assert!(gone(&machines.state(&nodes[0], Want::ADDRESSES).await).is_some());
    assert!(gone(&machines.state(&nodes[0], Want::ADDRESSES).await).is_some());
    assert_eq!(machines.requests(), ["2 × GET /servers/{id}"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_told_and_not_remembered() {
    for cache in [Cache::Shared, Cache::All(AGE), Cache::One(AGE), Cache::Off] {
        let (mut machines, nodes) = in_mode(cache);
        machines.start().await;
        machines.fake.fail(Fault::code("GET /servers", "forbidden"));
        machines.fake.fail(Fault::code("GET /servers/{id}", "forbidden"));
        assert!(machines.state(&nodes[0], Want::ADDRESSES).await.unwrap_err().is_unauthorized(), "{cache:?}");
        machines.fake.clear_faults();
        assert!(machines.state(&nodes[0], Want::ADDRESSES).await.is_ok(), "{cache:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn look_ups_are_counted_as_hit_or_miss() {
    let names = [(Cache::Shared, "all"), (Cache::All(AGE), "all"), (Cache::One(AGE), "one"), (Cache::Off, "off")];
    for (cache, mode) in names {
        let (mut machines, nodes) = in_mode(cache);
        machines.look_up(&nodes[..50], Want::ADDRESSES).await;
        let miss = format!("instances_v2 {mode} miss");
        assert_eq!(machines.cache_results(), vec![miss.clone(); 50]);
        machines.state(&nodes[0], Want::ADDRESSES).await.unwrap();
        let again = if mode == "off" { miss } else { format!("instances_v2 {mode} hit") };
        assert_eq!(machines.cache_results(), [again]);
    }
}

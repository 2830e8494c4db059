//! The cache of servers: `HCLOUD_SERVER_CACHE_MODE` and `…_MAX_AGE`.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{LookupRequest, Node};
use provider_hetzner::config::CachePolicy;

use crate::machines::{Machines, nodes_of};

const AGE: Duration = Duration::from_secs(10);

fn in_mode(cache: CachePolicy) -> (Machines, Vec<Arc<Node>>) {
    let mut machines = Machines::of(120);
    machines.config.instances.cache = cache;
    let nodes = nodes_of(&machines.fake);
    (machines, nodes)
}

#[tokio::test(start_paused = true)]
async fn look_ups_are_counted_as_hit_or_miss() {
    let names = [
        (CachePolicy::Shared, "all"),
        (CachePolicy::All(AGE), "all"),
        (CachePolicy::One(AGE), "one"),
        (CachePolicy::Off, "off"),
    ];
    for (cache, mode) in names {
        let (mut machines, nodes) = in_mode(cache);
        machines
            .look_up(&nodes[..50], LookupRequest::ADDRESSES)
            .await;
        let miss = format!("instances_v2 {mode} miss");
        assert_eq!(machines.cache_results(), vec![miss.clone(); 50]);
        machines
            .state(&nodes[0], LookupRequest::ADDRESSES)
            .await
            .unwrap();
        let again = if mode == "off" {
            miss
        } else {
            format!("instances_v2 {mode} hit")
        };
        assert_eq!(machines.cache_results(), [again]);
    }
}

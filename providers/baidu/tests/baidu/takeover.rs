//! BLBs that the Go cloud controller manager left: `go.json` is a recording of version 1.0.14 on this fake.

use cloud_provider::{Node, Service};
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::profile::list;

fn shown(service: &Service) -> Value {
    json!(service.status)["loadBalancer"]["ingress"][0]["ip"].clone()
}

#[tokio::test(start_paused = true)]
async fn nothing_that_the_go_program_left_is_written() {
    let left: Value = serde_json::from_str(include_str!("go.json")).unwrap();
    let harness = Harness::new().set("ClusterId", "c-testbed");
    ["worker-1", "worker-2"].into_iter().for_each(|name| harness.cluster.remove_node(name));
    {
        let all = |key: &str| list(&left[key]).cloned().collect::<Vec<_>>();
        let mut cloud = harness.fake.lock();
        (cloud.instances, cloud.rules) = (all("instances"), all("rules"));
        (cloud.blbs, cloud.eips) = (all("blbs"), all("eips"));
    }
    for node in list(&left["nodes"]) {
        let text = |key: &str| node[key].as_str().unwrap().to_owned();
        let (name, provider_id) = (text("name").into(), text("providerID").into());
        harness.cluster.set_node(Node { name, provider_id, ..Node::default() });
    }
    let provider = harness.started().await;
    let mut count = 0;
    for service in list(&left["services"]) {
        let mut service: Service = serde_json::from_value(service.clone()).unwrap();
        let before = shown(&service);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "{service:#?}");
        assert_eq!(shown(&service), before, "the address stays");
        count += 1;
    }
    assert_eq!(count, 6);
}

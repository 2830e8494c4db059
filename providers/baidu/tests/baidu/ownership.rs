//! BLBs and EIPs that must not be taken or deleted.

use baidu_fake::ACCOUNT;
use cloud_provider::Service;
use serde_json::json;

use crate::harness::{Harness, service};
use crate::profile::text;

fn set_fixed(service: &mut Service, ip: &str) {
    service.spec.as_mut().unwrap().load_balancer_ip = Some(ip.to_owned());
}

#[tokio::test(start_paused = true)]
async fn created_eip_that_a_user_has_fixed_stays() {
    for is_blb_there in [true, false] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[]);
        harness.ensure(&provider, &mut service).await.unwrap();
        let ip = text(&harness.eips()[0]["eip"]);
        set_fixed(&mut service, &ip);
        harness.ensure(&provider, &mut service).await.unwrap();
        if !is_blb_there {
            let mut cloud = harness.fake.lock();
            cloud.blbs.clear();
            (cloud.eips[0]["instanceId"], cloud.eips[0]["status"]) = ("".into(), "available".into());
        }
        service.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-11-26T00:00:00Z")).unwrap());
        let provider = harness.started().await;
        harness.delete(&provider, &service).await.unwrap();
        let left = harness.eips();
        assert!(harness.fake.lock().blbs.is_empty());
        assert_eq!((left.len(), &left[0]["eip"], &left[0]["status"]), (1, &json!(ip), &json!("available")));
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_fixed_ip_does_not_cost_a_service_its_eip() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let own = text(&harness.eips()[0]["eip"]);
    let (other, theirs) = {
        let mut cloud = harness.fake.lock();
        (cloud.add_eip(ACCOUNT, "theirs"), cloud.add_blb(ACCOUNT, "theirs", "theirs"))
    };
    harness.fake.lock().bind(&other, &theirs);
    for (ip, expected) in [("198.51.100.99", "there is no EIP 198.51.100.99"), (&*other, "is bound to lb-")] {
        set_fixed(&mut service, ip);
        let error = harness.ensure(&provider, &mut service).await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(expected), "{error}");
        let eips = harness.eips();
        assert_eq!((&eips[0]["eip"], &eips[0]["status"]), (&json!(own), &json!("binded")), "{ip}");
        assert_eq!(harness.fake.lock().blbs[0]["publicIp"], own);
    }
}

//! The EIP API of the fake.

use std::time::Duration;

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::{
    Answer, ApiRequest, Baidu, conflict, done, find, not_found, only, page, refuse, required,
};

const WORK: Duration = Duration::from_millis(800);

impl Baidu {
    /// Adds an EIP as its owner creates it by hand, and returns its address.
    pub fn add_eip(&mut self, account: &str, name: &str) -> String {
        let number = self.number();
        let [high, low] = u16::try_from(number).unwrap_or_default().to_be_bytes();
        let ip = format!("198.51.{high}.{low}");
        self.eips.push(json!({
            "eip": ip, "eipId": format!("ip-{number:08x}"), "account": account, "name": name, "status": "available", "instanceType": "",
            "instanceId": "", "shareGroupId": "", "bandwidthInMbps": 100, "paymentTiming": "Postpaid", "billingMethod": "ByTraffic",
            "tags": [], "deleteProtect": false,
        }));
        ip
    }

    /// Binds an EIP at once, as its owner does by hand.
    pub fn bind(&mut self, ip: &str, blb: &str) {
        for eip in self.eips.iter_mut().filter(|eip| eip["eip"] == ip) {
            (eip["instanceId"], eip["instanceType"], eip["status"]) =
                (blb.into(), "BLB".into(), "binding".into());
        }
        self.finish_eip(ip);
    }

    pub(crate) fn finish_eip(&mut self, ip: &str) {
        let Some(eip) = self.eips.iter_mut().find(|eip| eip["eip"] == ip) else {
            return;
        };
        let blb = eip["instanceId"].clone();
        let is_bound = eip["status"] == "binding" || eip["status"] == "updating" && blb != "";
        if eip["status"] == "unbinding" {
            (eip["instanceId"], eip["instanceType"]) = ("".into(), "".into());
        }
        eip["status"] = if is_bound { "binded" } else { "available" }.into();
        for blb in self
            .blbs
            .iter_mut()
            .filter(|other_blb| other_blb["blbId"] == blb)
        {
            blb["publicIp"] = if is_bound { ip } else { "" }.into();
        }
    }
}

pub(crate) fn list(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let fits = |object: &&Value| {
        ["eip", "name", "instanceType", "instanceId", "status"]
            .iter()
            .all(|key| {
                request
                    .query(key)
                    .filter(|query| !query.is_empty())
                    .is_none_or(|wanted| object[key] == wanted)
            })
    };
    page(
        request,
        cloud.has_more,
        "eipList",
        cloud.eips.iter().filter(fits).cloned(),
    )
}

fn check_billing(billing: &Value) -> Result<(), Refused> {
    let is_prepaid = billing["paymentTiming"] == "Prepaid";
    let has_method = ["ByTraffic", "ByBandwidth"]
        .iter()
        .any(|bandwidth| billing["billingMethod"] == **bandwidth);
    let has_length = billing["reservation"]["reservationLength"].is_u64();
    if is_prepaid && has_length && billing["billingMethod"].is_null()
        || billing["paymentTiming"] == "Postpaid" && has_method
    {
        return Ok(());
    }
    Err(refuse("InappropriateJSON", "billing"))
}

pub(crate) fn create(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let body = &request.body;
    only(body, &["name", "bandwidthInMbps", "billing", "tags"])?;
    check_billing(&body["billing"])?;
    let most = if body["billing"]["billingMethod"] == "ByTraffic" {
        1000
    } else {
        200
    };
    if body["bandwidthInMbps"]
        .as_u64()
        .is_none_or(|bandwidth_in_mbps| !(1..=most).contains(&bandwidth_in_mbps))
        || required(body, "name")?.len() > 65
    {
        return Err(refuse("InappropriateJSON", "bandwidthInMbps or name"));
    }
    cloud.once(request, |cloud| {
        let ip = cloud.add_eip(&request.project, required(body, "name")?);
        let eip = cloud.eips.last_mut().ok_or_else(|| not_found("EIP"))?;
        eip["status"] = "creating".into();
        for key in ["bandwidthInMbps", "tags"] {
            eip[key] = body[key].clone();
        }
        eip["paymentTiming"] = body["billing"]["paymentTiming"].clone();
        eip["billingMethod"] = body["billing"]["billingMethod"]
            .as_str()
            .unwrap_or_default()
            .into();
        cloud.work.begin(&ip, WORK, &request.effects);
        Ok(json!({"eip": ip}))
    })
}

pub(crate) fn change(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let ip = request.id().to_owned();
    let body = &request.body;
    let has = |key: &str| request.query(key).is_some();
    let (status, bound) = {
        let eip = find(&mut cloud.eips, "eip", &ip, request)?;
        (
            eip["status"].as_str().unwrap_or_default().to_owned(),
            eip["instanceId"].clone(),
        )
    };
    let next = if has("bind") {
        let blb = find(
            &mut cloud.blbs,
            "blbId",
            required(body, "instanceId")?,
            request,
        )?["blbId"]
            .clone();
        let is_taken = cloud.eips.iter().any(|eip| eip["instanceId"] == blb);
        if status != "available" || is_taken || required(body, "instanceType")? != "BLB" {
            return Err(conflict("The EIP cannot be bound."));
        }
        let eip = find(&mut cloud.eips, "eip", &ip, request)?;
        (eip["instanceId"], eip["instanceType"]) = (blb, "BLB".into());
        "binding"
    } else if has("unbind") {
        if status != "binded" || bound == "" {
            return Err(conflict("The EIP is not bound."));
        }
        "unbinding"
    } else if has("resize") {
        let most = 1000;
        let bandwidth = body["newBandwidthInMbps"]
            .as_u64()
            .filter(|bandwidth_in_mbp| (1..=most).contains(bandwidth_in_mbp));
        let Some(bandwidth) = bandwidth else {
            return Err(refuse("InappropriateJSON", "newBandwidthInMbps"));
        };
        let eip = find(&mut cloud.eips, "eip", &ip, request)?;
        if !["available", "binded"].contains(&&*status) || eip["shareGroupId"] != "" {
            return Err(conflict("The EIP cannot be resized."));
        }
        eip["bandwidthInMbps"] = bandwidth.into();
        "updating"
    } else {
        return Err(refuse("InvalidHTTPRequest", "bind, unbind or resize"));
    };
    find(&mut cloud.eips, "eip", &ip, request)?["status"] = next.into();
    cloud.work.begin(&ip, WORK, &request.effects);
    done()
}

pub(crate) fn delete(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let eip = find(&mut cloud.eips, "eip", request.id(), request)?;
    if eip["status"] != "available"
        || eip["paymentTiming"] == "Prepaid"
        || eip["deleteProtect"] == true
    {
        return Err(conflict("The EIP cannot be released."));
    }
    let ip = eip["eip"].clone();
    cloud.eips.retain(|eip| eip["eip"] != ip);
    done()
}

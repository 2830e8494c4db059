//! The metadata service of the machine that the program runs on.

use fake_cloud::Reply;

use crate::model::Model;
use crate::refusal::Answer;
use crate::routes::ApiRequest;

/// Returns YAML: a list of the networks that the machine is attached to.
pub(crate) fn private_networks(model: &mut Model, _: &ApiRequest) -> Answer {
    let mut text = String::new();
    for network in &model.attached_to {
        text += &format!(
            "- ip: 10.0.0.250\n  alias_ips: []\n  interface_num: 1\n  mac_address: 86:00:00:2a:7d:e0\n  network_id: {network}\n  \
             network_name: kubernetes\n"
        );
    }
    if text.is_empty() {
        text.push_str("[]\n");
    }
    Ok(Reply::text(200, "text/plain", text))
}

//! The metadata service of the machine that the program runs on.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::Fake;

/// YAML: a list of the networks that the machine is attached to.
pub(crate) async fn private_networks(State(fake): State<Fake>) -> Response {
    let model = fake.model();
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
    text.into_response()
}

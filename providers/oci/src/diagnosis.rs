//! Checks of `doctor`: the lists that the principal may read, and the policy statements that it lacks.

use cloud_provider::Finding;
use provider_kit::transport::{Call, Transport};
use serde_json::Value;

use crate::api::Api;

/// A list, and the statement that permits what the program does with its objects.
struct Permission {
    what: &'static str,
    path: &'static str,
    /// The end of the statement, such as `manage load-balancers`.
    right: &'static str,
    /// The Services without which the statement is not needed; empty if it is needed in any case.
    only_for: &'static str,
}

const PERMISSIONS: [Permission; 7] = [
    Permission {
        what: "instances",
        path: "/20160918/instances",
        right: "read instance-family",
        only_for: "",
    },
    Permission {
        what: "VNIC attachments",
        path: "/20160918/vnicAttachments",
        right: "read instance-family",
        only_for: "",
    },
    Permission {
        what: "subnets",
        path: "/20160918/subnets",
        right: "use virtual-network-family",
        only_for: "",
    },
    Permission {
        what: "security lists",
        path: "/20160918/securityLists",
        right: "manage security-lists",
        only_for: "of the modes SL-All and SL-Frontend",
    },
    Permission {
        what: "network security groups",
        path: "/20160918/networkSecurityGroups",
        right: "manage network-security-groups",
        only_for: "of the mode NSG",
    },
    Permission {
        what: "load balancers",
        path: "/20170115/loadBalancers",
        right: "manage load-balancers",
        only_for: "of type lb",
    },
    Permission {
        what: NETWORK_LOAD_BALANCERS,
        path: "/20200501/networkLoadBalancers",
        right: "manage network-load-balancers",
        only_for: "of type nlb",
    },
];
const NETWORK_LOAD_BALANCERS: &str = "network load balancers";

/// Checks that each list of a compartment may be read. The cloud answers 404 to a list that no policy permits.
pub(crate) async fn permissions(api: &Api, compartment: &str) -> Vec<Finding> {
    let mut readable = Vec::new();
    let mut findings = Vec::new();
    for permission in &PERMISSIONS {
        let Permission {
            what,
            path,
            right,
            only_for,
        } = permission;
        let http: &Transport = if *what == NETWORK_LOAD_BALANCERS {
            &api.network
        } else {
            &api.iaas
        };
        let call = Call::get(path, &[])
            .query("compartmentId", compartment)
            .query("limit", 1);
        let Err(error) = http.read::<Value>(call).await else {
            readable.push(*what);
            continue;
        };
        let text = format!("cannot list {what}: {error}");
        let statement =
            format!("Allow dynamic-group GROUP to {right} in compartment id {compartment}");
        findings.push(
            match (
                error.is_not_found() || error.is_unauthorized(),
                only_for.is_empty(),
            ) {
                (true, true) => Finding::failure(
                    "permissions",
                    text,
                    format!("add the policy statement `{statement}`"),
                ),
                (true, false) => {
                    let remedy = format!(
                        "add the policy statement `{statement}`, unless no Service is {only_for}"
                    );
                    Finding::warning("permissions", text, remedy)
                }
                (false, _) => Finding::failure(
                    "permissions",
                    text,
                    "try again; if it stays so, ask the cloud's operators",
                ),
            },
        );
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "permissions",
            format!("may list {}", readable.join(", ")),
        ));
    }
    findings
}

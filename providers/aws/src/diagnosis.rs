//! Checks of `doctor`: endpoint, credential, cluster, network and permissions. All requests are reads.

use aws_protocol::Query;
use cloud_provider::{Error, Finding};
use provider_kit::checks::reached;
use serde::de::IgnoredAny;

use crate::api::{Api, Tag, wire};
use crate::permissions::controllers_of;

const CREDENTIAL: &str = "check the credential: the variables of the environment, the role of the Pod, or the role of the instance";

wire! { "camelCase";
    Subnets { subnet_set: Vec<Subnet> }
    Subnet { tag_set: Vec<Tag> }
}

/// Returns the findings about the configuration and the account.
pub(crate) async fn diagnose(api: &Api) -> Vec<Finding> {
    let warning = |text: &String| {
        Finding::warning(
            "configuration",
            text.clone(),
            "correct the file of --cloud-config",
        )
    };
    let mut findings: Vec<_> = api.config.warnings.iter().map(warning).collect();
    let region = match api.aws.region().await {
        Ok(region) => region,
        Err(error) => {
            let remedy = "set Region in [Global], or AWS_REGION";
            findings.push(Finding::failure("region", error.to_string(), remedy));
            return findings;
        }
    };
    let base = format!("EC2 in region {region}");
    let zones = api.zones.list().await;
    let may_not = zones
        .as_ref()
        .err()
        .filter(|error| error.code() == "UnauthorizedOperation")
        .cloned();
    let answer = if may_not.is_some() {
        Ok(())
    } else {
        zones.map(drop)
    };
    if reached(
        &base,
        "Region in [Global], [ServiceOverride] and AWS_ENDPOINT_URL",
        CREDENTIAL,
        answer,
        &mut findings,
    )
    .is_none()
    {
        return findings;
    }
    findings.extend(may_not.map(|error| forbidden("ec2:DescribeAvailabilityZones", &error)));
    findings.extend(permissions(api).await);
    findings.extend(cluster(api).await);
    findings
}

fn forbidden(action: &str, error: &Error) -> Finding {
    let remedy = format!(
        "allow {action} in the policy of the role; {} need it",
        controllers_of(action)
    );
    match action {
        "ec2:DescribeInstanceTopology" => {
            Finding::warning("permissions", error.to_string(), remedy)
        }
        _ => Finding::failure("permissions", error.to_string(), remedy),
    }
}

/// Checks each permission to read with one request.
async fn permissions(api: &Api) -> Vec<Finding> {
    let ec2 = (&api.aws.ec2, "ec2", 5);
    let elbv2 = (&api.aws.elbv2, "elasticloadbalancing", 1);
    let reads = [
        (ec2, "DescribeInstances"),
        (ec2, "DescribeInstanceTopology"),
        (ec2, "DescribeNetworkInterfaces"),
        (ec2, "DescribeRouteTables"),
        (ec2, "DescribeSecurityGroups"),
        (ec2, "DescribeSubnets"),
        (elbv2, "DescribeLoadBalancers"),
        (elbv2, "DescribeTargetGroups"),
    ];
    let mut allowed = Vec::new();
    let mut findings = Vec::new();
    for ((client, service, size), action) in reads {
        let permission = format!("{service}:{action}");
        match client
            .read::<IgnoredAny>(Query::new(action).page(size))
            .await
        {
            Ok(_) => allowed.push(permission),
            Err(error) if error.is_unauthorized() => findings.push(forbidden(&permission, &error)),
            Err(error) if error.code() == "UnsupportedOperation" => {}
            Err(error) => findings.push(Finding::warning(
                "permissions",
                error.to_string(),
                "try again",
            )),
        }
    }
    findings.push(Finding::ok(
        "permissions",
        format!("may call {}", allowed.join(", ")),
    ));
    findings
}

/// Checks that the cluster is known, and that load balancers find subnets.
async fn cluster(api: &Api) -> Vec<Finding> {
    let identity = match api.identity().await {
        Ok(identity) => identity,
        Err(error) => {
            let remedy = "run with the host's network on an instance of the cluster, or give the instance the hop limit 2, or set \
                          VPC, KubernetesClusterID and SubnetID or RoleARN in [Global]";
            return vec![Finding::failure("cluster", error.to_string(), remedy)];
        }
    };
    let mut findings = vec![match &identity.cluster {
        Some(id) => Finding::ok("cluster", format!("ID {id:?}, VPC {}", identity.vpc)),
        // Whether the program starts without an ID is for `--allow-untagged-cloud` to say.
        None => Finding::warning(
            "cluster",
            format!(
                "no ID: the instance has no tag kubernetes.io/cluster/<ID>; VPC {}",
                identity.vpc
            ),
            "tag the instance, or set KubernetesClusterID in [Global]",
        ),
    }];
    let query = Query::new("DescribeSubnets").filter("vpc-id", [&identity.vpc]);
    let Ok(Subnets { subnet_set }) = api.aws.ec2.read(query).await else {
        return findings;
    };
    let has_role = |role: &str| {
        subnet_set
            .iter()
            .any(|subnet| subnet.tag_set.iter().any(|tag| tag.key == role))
    };
    let usable = subnet_set
        .iter()
        .filter(|subnet| identity.has(&subnet.tag_set))
        .count();
    let missing = ["kubernetes.io/role/elb", "kubernetes.io/role/internal-elb"]
        .into_iter()
        .filter(|text| !has_role(text));
    let missing: Vec<_> = missing.collect();
    findings.push(match missing[..] {
        [] => Finding::ok("subnets", format!("{usable} of {} have the cluster's tag", subnet_set.len())),
        _ => Finding::warning(
            "subnets",
            format!("no subnet of VPC {} has the tag {}", identity.vpc, missing.join(" or ")),
            "tag the subnets of load balancers, so that the choice does not depend on the order of their IDs",
        ),
    });
    findings
}

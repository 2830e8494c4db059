//! The permissions that each controller needs: one table for the IAM policy and for `doctor`.

use serde_json::{Value, json};

/// The permissions of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Permissions {
    /// The controller, as `--controllers` names it; empty for all.
    pub controller: &'static str,
    /// Name of the statement in the policy.
    pub statement: &'static str,
    /// The resources that the actions concern.
    pub resources: &'static str,
    /// Services, each with a colon and its actions after it, between blanks.
    actions: &'static str,
}

const fn of(
    controller: &'static str,
    statement: &'static str,
    resources: &'static str,
    actions: &'static str,
) -> Permissions {
    Permissions {
        controller,
        statement,
        resources,
        actions,
    }
}

/// The permissions of all controllers.
pub const PERMISSIONS: &[Permissions] = &[
    of(
        "",
        "CloudControllerManagerInstances",
        "*",
        "ec2: DescribeInstances DescribeInstanceTopology DescribeAvailabilityZones DescribeNetworkInterfaces",
    ),
    of(
        "node-route-controller",
        "CloudControllerManagerRoutes",
        "*",
        "ec2: DescribeRouteTables CreateRoute ReplaceRoute DeleteRoute ModifyInstanceAttribute",
    ),
    of(
        "service-lb-controller",
        "CloudControllerManagerSecurityGroups",
        "*",
        "ec2: DescribeRouteTables DescribeSecurityGroups DescribeSubnets CreateSecurityGroup DeleteSecurityGroup \
         AuthorizeSecurityGroupIngress RevokeSecurityGroupIngress CreateTags DeleteTags \
         iam: CreateServiceLinkedRole",
    ),
    of(
        "service-lb-controller",
        "CloudControllerManagerLoadBalancers",
        "*",
        "elasticloadbalancing: AddTags RemoveTags DescribeTags CreateLoadBalancer DescribeLoadBalancers DeleteLoadBalancer \
         DescribeLoadBalancerAttributes ModifyLoadBalancerAttributes RegisterInstancesWithLoadBalancer \
         DeregisterInstancesFromLoadBalancer CreateLoadBalancerPolicy SetLoadBalancerPoliciesForBackendServer \
         SetLoadBalancerPoliciesOfListener AttachLoadBalancerToSubnets DetachLoadBalancerFromSubnets \
         CreateLoadBalancerListeners DeleteLoadBalancerListeners ApplySecurityGroupsToLoadBalancer ConfigureHealthCheck \
         SetSecurityGroups SetSubnets SetIpAddressType CreateTargetGroup DescribeTargetGroups ModifyTargetGroup \
         DeleteTargetGroup DescribeTargetHealth DescribeTargetGroupAttributes ModifyTargetGroupAttributes RegisterTargets \
         DeregisterTargets CreateListener DescribeListeners ModifyListener DeleteListener",
    ),
    of(
        "tagging",
        "CloudControllerManagerTags",
        "arn:*:ec2:*:*:instance/*",
        "ec2: CreateTags DeleteTags",
    ),
];

impl Permissions {
    /// Returns the actions one by one, with the service before them: `ec2:DescribeInstances`.
    pub fn actions(&self) -> impl Iterator<Item = String> {
        let action = |service: &mut &'static str, word: &'static str| {
            *service = word.strip_suffix(':').unwrap_or(service);
            Some((!word.ends_with(':')).then(|| format!("{service}:{word}")))
        };
        self.actions.split_whitespace().scan("", action).flatten()
    }
}

/// Returns the IAM policy of these controllers, in JSON. The permissions to read instances are always part of it.
#[must_use]
pub fn policy(controllers: &[&str]) -> Value {
    let is_needed = |permissions: &&Permissions| {
        permissions.controller.is_empty() || controllers.contains(&permissions.controller)
    };
    let statement = |permissions: &Permissions| {
        let actions: Vec<_> = permissions.actions().collect();
        json!({"Sid": permissions.statement, "Effect": "Allow", "Action": actions, "Resource": permissions.resources})
    };
    let statements: Vec<_> = PERMISSIONS
        .iter()
        .filter(is_needed)
        .map(statement)
        .collect();
    json!({"Version": "2012-10-17", "Statement": statements})
}

/// Returns the controller that needs this action, for messages.
pub(crate) fn controllers_of(action: &str) -> String {
    let needs = PERMISSIONS.iter().filter(|permissions| {
        permissions
            .actions()
            .any(|other_action| other_action == action)
    });
    let mut names: Vec<_> = needs
        .map(|permissions| {
            if permissions.controller.is_empty() {
                "the node controllers"
            } else {
                permissions.controller
            }
        })
        .collect();
    names.dedup();
    names.join(", ")
}

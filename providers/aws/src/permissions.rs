//! The permissions that each controller needs: one table for the IAM policy and for `doctor`.

use serde_json::{Value, json};

/// The permissions of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Permissions {
    /// The controller, as `--controllers` names it; empty for all.
    pub controller: &'static str,
    /// Name of the statement in the policy.
    pub statement: &'static str,
    /// Actions with the service before them, between blanks.
    pub actions: &'static str,
    /// If set, the actions concern only instances.
    pub is_for_instances: bool,
}

/// The permissions of all controllers.
pub const PERMISSIONS: &[Permissions] = &[
    Permissions {
        controller: "",
        statement: "CloudControllerManagerInstances",
        actions: "ec2:DescribeInstances ec2:DescribeInstanceTopology ec2:DescribeAvailabilityZones \
                  ec2:DescribeNetworkInterfaces",
        is_for_instances: false,
    },
    Permissions {
        controller: "node-route-controller",
        statement: "CloudControllerManagerRoutes",
        actions: "ec2:DescribeRouteTables ec2:CreateRoute ec2:ReplaceRoute ec2:DeleteRoute ec2:ModifyInstanceAttribute",
        is_for_instances: false,
    },
    Permissions {
        controller: "service-lb-controller",
        statement: "CloudControllerManagerSecurityGroups",
        actions: "ec2:DescribeRouteTables ec2:DescribeSecurityGroups ec2:DescribeSubnets ec2:CreateSecurityGroup \
                  ec2:DeleteSecurityGroup ec2:AuthorizeSecurityGroupIngress ec2:RevokeSecurityGroupIngress \
                  ec2:CreateTags iam:CreateServiceLinkedRole",
        is_for_instances: false,
    },
    Permissions {
        controller: "service-lb-controller",
        statement: "CloudControllerManagerLoadBalancers",
        actions: "elasticloadbalancing:AddTags elasticloadbalancing:DescribeTags \
                  elasticloadbalancing:CreateLoadBalancer elasticloadbalancing:DescribeLoadBalancers \
                  elasticloadbalancing:DeleteLoadBalancer elasticloadbalancing:DescribeLoadBalancerAttributes \
                  elasticloadbalancing:ModifyLoadBalancerAttributes \
                  elasticloadbalancing:RegisterInstancesWithLoadBalancer \
                  elasticloadbalancing:DeregisterInstancesFromLoadBalancer \
                  elasticloadbalancing:CreateLoadBalancerPolicy \
                  elasticloadbalancing:SetLoadBalancerPoliciesForBackendServer \
                  elasticloadbalancing:SetLoadBalancerPoliciesOfListener \
                  elasticloadbalancing:AttachLoadBalancerToSubnets elasticloadbalancing:DetachLoadBalancerFromSubnets \
                  elasticloadbalancing:CreateLoadBalancerListeners elasticloadbalancing:DeleteLoadBalancerListeners \
                  elasticloadbalancing:ApplySecurityGroupsToLoadBalancer elasticloadbalancing:ConfigureHealthCheck \
                  elasticloadbalancing:SetSecurityGroups elasticloadbalancing:SetSubnets elasticloadbalancing:SetIpAddressType \
                  elasticloadbalancing:CreateTargetGroup elasticloadbalancing:DescribeTargetGroups \
                  elasticloadbalancing:ModifyTargetGroup elasticloadbalancing:DeleteTargetGroup \
                  elasticloadbalancing:DescribeTargetHealth elasticloadbalancing:DescribeTargetGroupAttributes \
                  elasticloadbalancing:ModifyTargetGroupAttributes elasticloadbalancing:RegisterTargets \
                  elasticloadbalancing:DeregisterTargets elasticloadbalancing:CreateListener \
                  elasticloadbalancing:DescribeListeners elasticloadbalancing:ModifyListener \
                  elasticloadbalancing:DeleteListener",
        is_for_instances: false,
    },
    Permissions {
        controller: "tagging",
        statement: "CloudControllerManagerTags",
        actions: "ec2:CreateTags ec2:DeleteTags",
        is_for_instances: true,
    },
];

impl Permissions {
    /// Returns the actions one by one.
    pub fn actions(&self) -> impl Iterator<Item = &'static str> {
        self.actions.split_whitespace()
    }
}

/// Returns the IAM policy of these controllers, in JSON. The permissions to read instances are always part of it.
#[must_use]
pub fn policy(controllers: &[&str]) -> Value {
    let is_needed = |it: &&Permissions| it.controller.is_empty() || controllers.contains(&it.controller);
    let statement = |it: &Permissions| {
        let resource = if it.is_for_instances { "arn:*:ec2:*:*:instance/*" } else { "*" };
        json!({"Sid": it.statement, "Effect": "Allow", "Action": it.actions().collect::<Vec<_>>(), "Resource": resource})
    };
    let statements: Vec<_> = PERMISSIONS.iter().filter(is_needed).map(statement).collect();
    json!({"Version": "2012-10-17", "Statement": statements})
}

/// Returns the controller that needs this action, for messages.
pub(crate) fn controllers_of(action: &str) -> String {
    let needs = PERMISSIONS.iter().filter(|it| it.actions().any(|it| it == action));
    let mut names: Vec<_> =
        needs.map(|it| if it.controller.is_empty() { "the node controllers" } else { it.controller }).collect();
    names.dedup();
    names.join(", ")
}

//! The protocol against moto, an emulation of AWS that verifies signatures.

use aws_protocol::{Aws, Query, Settings};
use cloud_provider::{Environment, Result, Setup};
use provider_kit::inventory::SharedPriority;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Group {
    group_id: String,
    group_name: String,
    ip_permissions: Vec<Permission>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Permission {
    from_port: Option<u16>,
}

fn aws(environment: Environment) -> Aws {
    Aws::new(
        &Setup {
            environment,
            ..Setup::default()
        },
        Settings::default(),
        |http| http,
    )
    .unwrap()
}

async fn groups(aws: &Aws, query: Query) -> Result<Vec<Group>> {
    let shared_priority = SharedPriority::default();
    let list = aws
        .ec2
        .list(
            query,
            "securityGroupInfo",
            &shared_priority,
            |group: Group| group,
            |group| group.group_id.clone(),
        )
        .await?;
    Ok(list.complete()?.into_items())
}

#[tokio::test]
#[ignore = "needs moto with verified signatures, and its AWS_ENDPOINT_URL, keys and AWS_REGION in the environment"]
async fn moto_accepts_signatures_of_right_keys_only() {
    let environment = Environment::of_process();
    let aws_of_keys = aws(environment.clone());
    let all = groups(&aws_of_keys, Query::new("DescribeSecurityGroups").page(5))
        .await
        .unwrap();
    assert!(!all.is_empty());
    let name = format!("aws-protocol-{}", std::process::id());
    let vpcs: Value = aws_of_keys
        .ec2
        .read(Query::new("DescribeVpcs"))
        .await
        .unwrap();
    let vpc = vpcs["vpcSet"][0]["vpcId"].as_str().unwrap();
    let create = Query::new("CreateSecurityGroup")
        .set("GroupName", &name)
        .set("VpcId", vpc);
    let create = create
        .set("GroupDescription", "a & b <c>")
        .tags("security-group", [("k/1", "a b+c=ä")]);
    let created: Group = aws_of_keys.ec2.change(create.clone()).await.unwrap();
    let again = aws_of_keys
        .ec2
        .change::<IgnoredAny>(create)
        .await
        .unwrap_err();
    assert!(
        again.is_conflict() && again.code() == "InvalidGroup.Duplicate",
        "{again}"
    );
    let rule = json!([{"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "IpRanges": [{"CidrIp": "192.0.2.0/24"}]}]);
    let rule = Query::new("AuthorizeSecurityGroupIngress")
        .set("GroupId", &created.group_id)
        .set("IpPermissions", rule);
    aws_of_keys.ec2.change::<IgnoredAny>(rule).await.unwrap();
    let own = Query::new("DescribeSecurityGroups")
        .filter("tag:k/1", ["a b+c=ä"])
        .filter("group-name", [&*name]);
    let own = groups(&aws_of_keys, own).await.unwrap();
    assert_eq!(
        (
            own.len(),
            &*own[0].group_name,
            own[0].ip_permissions[0].from_port
        ),
        (1, &*name, Some(80))
    );
    let delete = Query::new("DeleteSecurityGroup").set("GroupId", &created.group_id);
    aws_of_keys.ec2.remove(delete.clone()).await.unwrap();
    aws_of_keys.ec2.remove(delete).await.unwrap();
    for client in [&aws_of_keys.elb, &aws_of_keys.elbv2] {
        client
            .read::<IgnoredAny>(Query::new("DescribeLoadBalancers").page(400))
            .await
            .unwrap();
        let names = if client
            .read::<Value>(Query::new("DescribeTargetGroups"))
            .await
            .is_ok()
        {
            "Names"
        } else {
            "LoadBalancerNames"
        };
        let absent = client
            .find::<IgnoredAny>(Query::new("DescribeLoadBalancers").set(names, ["none"]))
            .await
            .unwrap();
        assert!(absent.is_none());
    }

    let variables: Vec<(String, String)> = environment
        .names()
        .map(|name| (name.to_owned(), environment.get(name).unwrap().to_owned()))
        .collect();
    let wrong = variables.into_iter().map(|(name, value)| match &*name {
        "AWS_SECRET_ACCESS_KEY" => (name, "wrong".to_owned()),
        _ => (name, value),
    });
    let error = aws(Environment::of(wrong))
        .ec2
        .read::<IgnoredAny>(Query::new("DescribeVpcs"))
        .await
        .unwrap_err();
    assert!(
        error.is_unauthorized() && error.code() == "AuthFailure",
        "{error}"
    );
}

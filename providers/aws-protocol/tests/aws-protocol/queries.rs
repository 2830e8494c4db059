//! Queries as they are sent, and answers as they are read.

use aws_protocol::{Aws, Query};
use provider_kit::inventory::SharedPriority;
use serde::Deserialize;
use serde_json::json;

use crate::cloud::{KEYS, Seen, aws, ok, region};

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Reservation {
    reservation_id: String,
    instances_set: Vec<Instance>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Instance {
    instance_id: String,
    source_dest_check: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Balancer {
    load_balancer_name: String,
    listener_descriptions: Vec<Listener>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Listener {
    load_balancer_port: u16,
}

fn reservation(id: &str, instances: &[&str]) -> String {
    let instance = |id: &&str| {
        format!(
            "<item><instanceId>{id}</instanceId><sourceDestCheck>false</sourceDestCheck></item>"
        )
    };
    let instances = instances.iter().map(instance).collect::<String>();
    format!(
        "<item><reservationId>{id}</reservationId><groupSet/><instancesSet>{instances}</instancesSet></item>"
    )
}

async fn instances(aws: &Aws, query: Query) -> cloud_provider::Result<Vec<String>> {
    let key = |reservation: &Reservation| {
        (
            reservation.reservation_id.clone(),
            reservation
                .instances_set
                .first()
                .map(|instance| instance.instance_id.clone()),
        )
    };
    let reading = aws
        .ec2
        .list(
            query,
            "reservationSet",
            &SharedPriority::default(),
            |reservation: Reservation| reservation,
            key,
        )
        .await?;
    let reading = reading
        .flat_map(|reservation| reservation.instances_set)
        .complete()?;
    Ok(reading
        .into_items()
        .into_iter()
        .map(|instance| instance.instance_id)
        .collect())
}

#[tokio::test]
async fn pages_of_instances_become_one_list() {
    let (aws, log) = aws(&KEYS, region(), |seen: &Seen, _| {
        let (items, next) = match seen.form.get("NextToken").map(String::as_str) {
            None => (
                reservation("r-1", &["i-1", "i-2"]),
                "<nextToken>a+b/c=</nextToken>",
            ),
            Some("a+b/c=") => (
                reservation("r-1", &["i-3"]) + &reservation("r-2", &["i-4"]),
                "<nextToken/>",
            ),
            Some(_) => (String::new(), ""),
        };
        ok(format!(
            "<DescribeInstancesResponse><requestId>7</requestId><reservationSet>{items}</reservationSet>{next}</DescribeInstancesResponse>"
        ))
    });
    let aws = aws.unwrap();
    let query = Query::new("DescribeInstances")
        .filter("vpc-id", ["vpc-1"])
        .filter("tag-key", ["a", "b"])
        .page(1000);
    assert_eq!(
        instances(&aws, query).await.unwrap(),
        ["i-1", "i-2", "i-3", "i-4"]
    );
    let log = log.lock();
    let form = serde_json::to_value(&log[0].form).unwrap();
    let expected = json!({
        "Action": "DescribeInstances", "Version": "2016-11-15", "MaxResults": "1000",
        "Filter.1.Name": "vpc-id", "Filter.1.Value.1": "vpc-1",
        "Filter.2.Name": "tag-key", "Filter.2.Value.1": "a", "Filter.2.Value.2": "b",
    });
    assert_eq!(form, expected);
    let signed = "SignedHeaders=content-type;host;x-amz-date,";
    assert!(
        log[0].header("authorization").contains(signed),
        "{:?}",
        log[0]
    );
    assert_eq!(
        (&*log[0].url, log.len()),
        ("POST https://ec2.eu-central-1.amazonaws.com/", 2)
    );
}

#[tokio::test]
async fn empty_lists_are_whole_and_other_answers_are_errors() {
    let table = [
        (
            "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>",
            true,
        ),
        (
            "<DescribeInstancesResponse><requestId>7</requestId></DescribeInstancesResponse>",
            false,
        ),
        ("<html><body>a proxy</body></html>", false),
        ("<DescribeInstancesResponse><reservationSet><item>", false),
        ("{}", false),
    ];
    for (body, is_list) in table {
        let (aws, _) = aws(&KEYS, region(), move |_, _| ok(body));
        let read = instances(&aws.unwrap(), Query::new("DescribeInstances")).await;
        assert_eq!(read.is_ok_and(|entry| entry.is_empty()), is_list, "{body}");
    }
}

#[tokio::test]
async fn load_balancers_are_read_by_markers_and_written_with_members() {
    let (aws, log) = aws(&KEYS, region(), |seen: &Seen, _| {
        let (name, next) = match seen.form.contains_key("Marker") {
            false => ("a1", "<NextMarker>m</NextMarker>"),
            true => ("a2", ""),
        };
        ok(format!(
            "<DescribeLoadBalancersResponse xmlns=\"http://elb/\"><DescribeLoadBalancersResult><LoadBalancerDescriptions><member>\
             <LoadBalancerName>{name}</LoadBalancerName><ListenerDescriptions><member><LoadBalancerPort>80</LoadBalancerPort>\
             </member></ListenerDescriptions></member></LoadBalancerDescriptions>{next}</DescribeLoadBalancersResult>\
             <ResponseMetadata><RequestId>7</RequestId></ResponseMetadata></DescribeLoadBalancersResponse>"
        ))
    });
    let aws = aws.unwrap();
    let key = |load_balancer: &Balancer| load_balancer.load_balancer_name.clone();
    let query = Query::new("DescribeLoadBalancers").page(400);
    let reading = aws
        .elb
        .list(
            query,
            "LoadBalancerDescriptions",
            &SharedPriority::default(),
            |load_balancer: Balancer| load_balancer,
            key,
        )
        .await;
    let balancers = reading.unwrap().complete().unwrap().into_items();
    let ports: Vec<_> = balancers
        .iter()
        .map(|load_balancer| {
            (
                &*load_balancer.load_balancer_name,
                load_balancer.listener_descriptions[0].load_balancer_port,
            )
        })
        .collect();
    assert_eq!(ports, [("a1", 80), ("a2", 80)]);
    let query = Query::new("CreateLoadBalancerListeners").set("LoadBalancerName", "a1");
    let query =
        query.fields(json!({"Listeners": [{"Protocol": "tcp", "LoadBalancerPort": 80, "SSLCertificateId": null}]}));
    aws.elb
        .change::<serde::de::IgnoredAny>(query.tags("x", [("k", "v")]))
        .await
        .unwrap();
    let log = log.lock();
    assert_eq!(
        (&*log[0].form["PageSize"], &*log[1].form["Marker"]),
        ("400", "m")
    );
    let expected = json!({
        "Action": "CreateLoadBalancerListeners", "Version": "2012-06-01", "LoadBalancerName": "a1",
        "Listeners.member.1.Protocol": "tcp", "Listeners.member.1.LoadBalancerPort": "80",
        "TagSpecification.member.1.ResourceType": "x",
        "TagSpecification.member.1.Tag.member.1.Key": "k", "TagSpecification.member.1.Tag.member.1.Value": "v",
    });
    assert_eq!(serde_json::to_value(&log[2].form).unwrap(), expected);
}

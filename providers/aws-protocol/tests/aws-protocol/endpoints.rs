//! Places that requests are sent to.

use aws_protocol::{Query, ServiceOverride, Settings};
use serde::de::IgnoredAny;

use crate::cloud::{KEYS, aws, ok};

/// Returns the URLs that EC2, ELB and ELBv2 are reached at, and the scopes of the signatures.
async fn reached(variables: &[(&str, &str)], settings: Settings) -> Vec<(String, String)> {
    let variables = [&KEYS[..2], variables].concat();
    let (aws, log) = aws(&variables, settings, |_, _| ok("<R/>"));
    let aws = aws.unwrap();
    for client in [&aws.ec2, &aws.elb, &aws.elbv2] {
        client
            .read::<IgnoredAny>(Query::new("DescribeX"))
            .await
            .unwrap();
    }
    let log = log.lock();
    let scope = |signature: &str| {
        signature
            .split('/')
            .skip(2)
            .take(2)
            .collect::<Vec<_>>()
            .join("/")
    };
    log.iter()
        .map(|entry| {
            (
                entry.url.trim_start_matches("POST ").to_owned(),
                scope(entry.header("authorization")),
            )
        })
        .collect()
}

#[tokio::test]
async fn endpoints_follow_partition_fips_and_dual_stack() {
    const FIPS: (&str, &str) = ("AWS_USE_FIPS_ENDPOINT", "true");
    const DUAL: (&str, &str) = ("AWS_USE_DUALSTACK_ENDPOINT", "true");
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);
    let table: [Row<'_>; 12] = [
        (
            "us-east-1",
            &[],
            "ec2.us-east-1.amazonaws.com",
            "elasticloadbalancing.us-east-1.amazonaws.com",
        ),
        (
            "cn-north-1",
            &[],
            "ec2.cn-north-1.amazonaws.com.cn",
            "elasticloadbalancing.cn-north-1.amazonaws.com.cn",
        ),
        (
            "us-gov-west-1",
            &[],
            "ec2.us-gov-west-1.amazonaws.com",
            "elasticloadbalancing.us-gov-west-1.amazonaws.com",
        ),
        (
            "us-iso-east-1",
            &[],
            "ec2.us-iso-east-1.c2s.ic.gov",
            "elasticloadbalancing.us-iso-east-1.c2s.ic.gov",
        ),
        (
            "us-isob-east-1",
            &[],
            "ec2.us-isob-east-1.sc2s.sgov.gov",
            "elasticloadbalancing.us-isob-east-1.sc2s.sgov.gov",
        ),
        (
            "us-isof-south-1",
            &[],
            "ec2.us-isof-south-1.csp.hci.ic.gov",
            "elasticloadbalancing.us-isof-south-1.csp.hci.ic.gov",
        ),
        (
            "eusc-de-east-1",
            &[],
            "ec2.eusc-de-east-1.amazonaws.eu",
            "elasticloadbalancing.eusc-de-east-1.amazonaws.eu",
        ),
        (
            "us-east-2",
            &[FIPS],
            "ec2-fips.us-east-2.amazonaws.com",
            "elasticloadbalancing-fips.us-east-2.amazonaws.com",
        ),
        (
            "us-gov-east-1",
            &[FIPS],
            "ec2.us-gov-east-1.amazonaws.com",
            "elasticloadbalancing.us-gov-east-1.amazonaws.com",
        ),
        (
            "eu-west-1",
            &[DUAL],
            "ec2.eu-west-1.api.aws",
            "elasticloadbalancing.eu-west-1.api.aws",
        ),
        (
            "us-west-2",
            &[FIPS, DUAL],
            "ec2-fips.us-west-2.api.aws",
            "elasticloadbalancing-fips.us-west-2.api.aws",
        ),
        (
            "cn-north-1",
            &[DUAL],
            "ec2.cn-north-1.api.amazonwebservices.com.cn",
            "elasticloadbalancing.cn-north-1.api.amazonwebservices.com.cn",
        ),
    ];
    for (region, variables, ec2, elb) in table {
        let urls = reached(
            variables,
            Settings {
                region: Some(region.into()),
                ..Settings::default()
            },
        )
        .await;
        let expected = [
            (ec2, "ec2"),
            (elb, "elasticloadbalancing"),
            (elb, "elasticloadbalancing"),
        ];
        let expected =
            expected.map(|(host, name)| (format!("https://{host}/"), format!("{region}/{name}")));
        assert_eq!(urls, expected, "{region} {variables:?}");
    }
}

#[tokio::test]
async fn endpoints_of_variables_and_overrides_take_precedence() {
    let settings = |overrides: &[(&str, &str)]| Settings {
        region: Some("eu-central-1".into()),
        overrides: overrides
            .iter()
            .map(|(service, url)| of(service, url))
            .collect(),
        ..Settings::default()
    };
    let all = ("AWS_ENDPOINT_URL", "http://all:1");
    let v2 = ("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", "http://v2:1/");
    type Row<'a> = (
        &'a [(&'a str, &'a str)],
        &'a [(&'a str, &'a str)],
        [&'a str; 3],
    );
    let table: [Row<'_>; 5] = [
        (
            &[all],
            &[],
            ["http://all:1/", "http://all:1/", "http://all:1/"],
        ),
        (
            &[all, v2],
            &[],
            ["http://all:1/", "http://all:1/", "http://v2:1/"],
        ),
        (
            &[all],
            &[("EC2", "http://own:1")],
            ["http://own:1/", "http://all:1/", "http://all:1/"],
        ),
        (
            &[all],
            &[("elasticloadbalancing", "http://own:1")],
            ["http://all:1/", "http://own:1/", "http://own:1/"],
        ),
        (
            &[all],
            &[
                ("Elastic Load Balancing", "http://v1:1"),
                ("elastic load balancing V2", "http://v2:1"),
            ],
            ["http://all:1/", "http://v1:1/", "http://v2:1/"],
        ),
    ];
    for (variables, overrides, expected) in table {
        let urls = reached(variables, settings(overrides)).await;
        assert_eq!(
            urls.iter().map(|(url, _)| &**url).collect::<Vec<_>>(),
            expected,
            "{variables:?} {overrides:?}"
        );
    }
    let signed = ServiceOverride {
        signing_region: "us-east-1".into(),
        signing_name: "x".into(),
        ..of("ec2", "http://own:1")
    };
    let foreign = ServiceOverride {
        region: "us-east-1".into(),
        ..of("elbv2", "http://foreign:1")
    };
    let own = Settings {
        overrides: vec![signed, foreign],
        ..settings(&[])
    };
    let urls = reached(&[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"), all], own).await;
    assert_eq!(
        urls[0],
        ("http://own:1/".to_owned(), "us-east-1/x".to_owned())
    );
    assert_eq!(
        urls[2].0,
        "https://elasticloadbalancing.eu-central-1.amazonaws.com/"
    );
}

fn of(service: &str, url: &str) -> ServiceOverride {
    let service = service.to_owned();
    let url = url.to_owned();
    let region = "eu-central-1".to_owned();
    let signing_region = "eu-central-1".to_owned();
    ServiceOverride {
        service,
        url,
        region,
        signing_region,
        signing_name: String::new(),
    }
}

//! Credentials: the order of their sources, their renewal, and the clock.

use std::time::Duration;

use aws_protocol::{Aws, Query, Settings};
use cloud_provider::{Error, Result};
use serde::de::IgnoredAny;

use crate::cloud::{KEYS, Reply, Seen, assumed, aws, keys, ok, refusal, region};

const ROLE: &str = "arn:aws:iam::123456789012:role/ccm";

async fn call(aws: &Aws) -> Result<IgnoredAny> {
    aws.ec2.read(Query::new("DescribeVpcs")).await
}

/// Every source that there is, each with a key of its own.
fn all_sources(seen: &Seen, _number: usize) -> Reply {
    match &*seen.url {
        "PUT http://169.254.169.254/latest/api/token" => ok("imds-token"),
        "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/" => ok("node-role"),
        "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/node-role" => {
            ok(keys("AKIMDS", 3600))
        }
        "GET http://169.254.169.254/latest/meta-data/placement/region" => ok("eu-west-3"),
        "GET http://169.254.170.23/v1/credentials" => ok(keys("AKPOD", 3600)),
        "GET http://169.254.170.2/ecs?x=1" => ok(keys("AKECS", 3600)),
        "GET http://localhost/plain" => ok(keys("AKPLAIN", 3600).replace("token-of-AKPLAIN", "")),
        _ if seen.action().starts_with("AssumeRole") => {
            ok(assumed(seen.action(), &format!("AKROLE-{}", seen.key())))
        }
        url if url.starts_with("POST") => ok("<R/>"),
        _ => (404, Vec::new(), "<html>not here</html>".to_owned()),
    }
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn credentials_come_from_the_first_source_that_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let shared = "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = s\n[other]\naws_access_key_id=AKOTHER\naws_secret_access_key=s # old\n";
    let shared = file(&folder, "credentials", shared);
    let config = "[profile chained]\nrole_arn = arn:aws:iam::1:role/a\nsource_profile = other\n\
                  [profile nested]\nrole_arn = arn:aws:iam::1:role/b\nsource_profile = chained\n\
                  [profile pod]\nrole_arn = arn:aws:iam::1:role/c\ncredential_source = EcsContainer\n\
                  [other]\naws_access_key_id = ignored\naws_secret_access_key = ignored\n";
    let config = file(&folder, "config", config);
    let token = file(&folder, "token", "web-token\n");
    let shared = [
        ("AWS_SHARED_CREDENTIALS_FILE", &*shared),
        ("AWS_CONFIG_FILE", &*config),
    ];
    let web = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &*token),
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_ROLE_SESSION_NAME", "me"),
    ];
    let pod = [
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "http://169.254.170.23/v1/credentials",
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &*token),
    ];
    let ecs = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/ecs?x=1")];
    let profile = |name: &'static str| [&[("AWS_PROFILE", name)], &shared[..]].concat();
    let table = [
        ([&KEYS[..], &shared, &web, &pod].concat(), "AKENV"),
        ([&shared[..], &web, &pod].concat(), "AKDEFAULT"),
        (profile("other"), "AKOTHER"),
        (profile("chained"), "AKROLE-AKOTHER"),
        (profile("nested"), "AKROLE-AKROLE-AKOTHER"),
        ([&profile("pod")[..], &ecs].concat(), "AKROLE-AKECS"),
        ([&web[..], &pod].concat(), "AKROLE-"),
        (pod.to_vec(), "AKPOD"),
        (ecs.to_vec(), "AKECS"),
        (
            vec![(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                "http://localhost/plain",
            )],
            "AKPLAIN",
        ),
        (Vec::new(), "AKIMDS"),
    ];
    for (variables, key) in table {
        let (aws, log) = aws(&variables, region(), all_sources);
        call(&aws.unwrap()).await.unwrap();
        let log = log.lock();
        assert_eq!(log.last().unwrap().key(), key, "{variables:?}");
        let is_plain = ["AKENV", "AKDEFAULT", "AKOTHER", "AKPLAIN"].contains(&key);
        let token = if is_plain {
            String::new()
        } else {
            format!("token-of-{key}")
        };
        assert_eq!(log.last().unwrap().header("x-amz-security-token"), token);
        match key {
            "AKPOD" => assert_eq!(log[0].header("authorization"), "web-token"),
            "AKIMDS" => assert_eq!(log[1].header("x-aws-ec2-metadata-token"), "imds-token"),
            "AKROLE-" => {
                let form = &log[0].form;
                assert_eq!(
                    (
                        &*form["WebIdentityToken"],
                        &*form["RoleSessionName"],
                        &*form["RoleArn"]
                    ),
                    ("web-token", "me", ROLE)
                );
                assert_eq!(log[0].url, "POST https://sts.eu-central-1.amazonaws.com/");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn role_of_the_configuration_is_assumed_with_signed_source_headers() {
    let source = "arn:aws:eks:eu-central-1:123456789012:cluster/x".to_owned();
    let settings = Settings {
        role_arn: Some(ROLE.into()),
        source_arn: Some(source.clone()),
        ..region()
    };
    let (aws, log) = aws(&KEYS, settings, all_sources);
    let aws = aws.unwrap();
    call(&aws).await.unwrap();
    call(&aws).await.unwrap();
    let log = log.lock();
    let actions: Vec<_> = log
        .iter()
        .map(|entry| (entry.action(), entry.key()))
        .collect();
    let role = "AKROLE-AKENV";
    assert_eq!(
        actions,
        [
            ("AssumeRole", "AKENV"),
            ("DescribeVpcs", role),
            ("DescribeVpcs", role)
        ]
    );
    assert_eq!(log[0].header("x-amz-source-arn"), source);
    assert_eq!(log[0].header("x-amz-source-account"), "123456789012");
    let signed =
        "SignedHeaders=content-type;host;x-amz-date;x-amz-source-account;x-amz-source-arn,";
    assert!(log[0].header("authorization").contains(signed));
}

#[tokio::test(start_paused = true)]
async fn credentials_are_renewed_before_they_end_and_files_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = |key: &str| format!("[default]\naws_access_key_id={key}\naws_secret_access_key=s\n");
    let path = file(&folder, "credentials", &text("AK1"));
    let (of_file, files) = aws(
        &[("AWS_SHARED_CREDENTIALS_FILE", &path)],
        region(),
        all_sources,
    );
    let pod = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/pod")];
    let (of_pod, pods) = aws(&pod, region(), |seen, number| match seen.action() {
        "" => ok(keys(&format!("AK{number}"), 600)),
        _ => ok("<R/>"),
    });
    let of_file = of_file.unwrap();
    let of_pod = of_pod.unwrap();
    let last = |log: &crate::cloud::Log| log.lock().last().unwrap().key().to_owned();
    for (seconds, file_key, pod_key) in
        [(0, "AK1", "AK1"), (100, "AK1", "AK1"), (400, "AK2", "AK4")]
    {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        call(&of_file).await.unwrap();
        call(&of_pod).await.unwrap();
        assert_eq!((&*last(&files), &*last(&pods)), (file_key, pod_key));
        file(&folder, "credentials", &text("AK2"));
    }
}

#[tokio::test]
async fn refused_token_is_replaced_once_and_refused_keys_are_reported() {
    let pod = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://[::1]/pod")];
    let (aws_of_pod, log) = aws(&pod, region(), |seen, number| {
        match (seen.action(), seen.key()) {
            ("", _) => ok(keys(&format!("AK{number}"), 3600)),
            (_, "AK1") => refusal(403, "ExpiredToken"),
            _ => ok("<R/>"),
        }
    });
    call(&aws_of_pod.unwrap()).await.unwrap();
    let seen: Vec<_> = log
        .lock()
        .iter()
        .map(|entry| entry.key().to_owned())
        .collect();
    assert_eq!(seen, ["", "AK1", "", "AK3"]);

    let (of_keys, log) = aws(&KEYS, region(), |_, _| refusal(403, "InvalidClientTokenId"));
    let error = call(&of_keys.unwrap()).await.unwrap_err();
    assert!(error.is_unauthorized() && error.code() == "InvalidClientTokenId");
    assert_eq!(log.lock().len(), 1);
}

#[tokio::test]
async fn clock_follows_the_date_of_an_answer_that_refused_a_signature() {
    let date = |entry: &Seen| entry.header("x-amz-date")[..11].to_owned();
    let (aws, log) = aws(&KEYS, region(), move |seen, _| match date(seen).as_str() {
        "20300101T12" => ok("<R/>"),
        _ => {
            let (status, _, body) = refusal(400, "RequestExpired");
            (
                status,
                vec![("date", "Tue, 01 Jan 2030 12:20:00 GMT".to_owned())],
                body,
            )
        }
    });
    let aws = aws.unwrap();
    call(&aws).await.unwrap();
    call(&aws).await.unwrap();
    aws.elb
        .read::<IgnoredAny>(Query::new("DescribeX"))
        .await
        .unwrap();
    assert_eq!(
        log.lock().len(),
        4,
        "one refusal corrects the clock for all"
    );
}

#[tokio::test]
async fn region_comes_from_the_metadata_service_if_nothing_else_names_it() {
    let (aws_of_machine, log) = aws(&[], Settings::default(), all_sources);
    let aws_of_machine = aws_of_machine.unwrap();
    assert_eq!(aws_of_machine.region().await.unwrap(), "eu-west-3");
    call(&aws_of_machine).await.unwrap();
    assert_eq!(
        log.lock().last().unwrap().url,
        "POST https://ec2.eu-west-3.amazonaws.com/"
    );
    assert_eq!(
        aws_of_machine.metadata("meta-data/none").await.unwrap(),
        None
    );

    let own = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://own:1/")];
    let (of_own, log) = aws(&own, Settings::default(), |_, _| ok("x"));
    of_own
        .unwrap()
        .metadata("meta-data/instance-id")
        .await
        .unwrap();
    assert_eq!(
        log.lock()[1].url,
        "GET http://own:1/latest/meta-data/instance-id"
    );

    let disabled = [&KEYS[..2], &[("AWS_EC2_METADATA_DISABLED", "true")]].concat();
    let (without, log) = aws(&disabled, Settings::default(), all_sources);
    let error = call(&without.unwrap()).await.unwrap_err().to_string();
    assert!(
        error.contains("set Region in the cloud configuration, or AWS_REGION"),
        "{error}"
    );
    assert_eq!(log.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn silent_metadata_service_hints_at_the_hop_limit() {
    let (aws, _) = aws(&[], region(), |_, _| (0, Vec::new(), String::new()));
    let error = call(&aws.unwrap()).await.unwrap_err();
    assert!(
        error.is_unanswered() && error.to_string().contains("hop limit must be at least 2"),
        "{error}"
    );
}

#[tokio::test]
async fn mistakes_are_reported_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[profile half]\naws_access_key_id = a\n[profile sso]\nsso_session = x\n[profile alone]\nrole_arn = x\n\
                  [profile circle]\nrole_arn = x\nsource_profile = circle\n";
    let config = file(&folder, "config", config);
    let profile = |name: &'static str| vec![("AWS_CONFIG_FILE", &*config), ("AWS_PROFILE", name)];
    let uri = |url: &'static str| vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)];
    let table: [(Vec<(&str, &str)>, &str); 10] = [
        (
            profile("none"),
            "AWS profile \"none\" is in neither the shared config nor the credentials file",
        ),
        (
            profile("half"),
            "AWS profile \"half\" has only one of access key ID and secret access key",
        ),
        (profile("sso"), "sso_session is not supported"),
        (
            profile("alone"),
            "role_arn and no credentials to assume it with",
        ),
        (profile("circle"), "refers to itself"),
        (
            vec![("AWS_ACCESS_KEY_ID", "a")],
            "the environment has only one of access key ID and secret access key; set both, by AWS_ACCESS_KEY_ID",
        ),
        (
            uri("http://169.254.170.24/"),
            "\"169.254.170.24\" is not allowed without TLS",
        ),
        (
            uri("http://example.com/"),
            "\"example.com\" is not allowed without TLS",
        ),
        (
            vec![("AWS_EC2_METADATA_DISABLED", "TRUE")],
            "no AWS credentials",
        ),
        (
            vec![("AWS_MAX_ATTEMPTS", "0")],
            "AWS_MAX_ATTEMPTS: \"0\" is not a whole number from 1 on",
        ),
    ];
    for (variables, expected) in table {
        let error = aws(&variables, region(), all_sources)
            .0
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{variables:?}: {error}");
    }
    for url in [
        "https://example.com/",
        "http://127.0.0.7/",
        "http://[::1]:80/",
        "http://[fd00:ec2::23]/",
        "http://localhost:1",
    ] {
        assert!(aws(&uri(url), region(), all_sources).0.is_ok(), "{url}");
    }
}

#[tokio::test]
async fn secrets_are_in_no_message() {
    let echo = |seen: &Seen, _| {
        let text = format!(
            "{} token-of-AK1 secret-of-AK1 secret-of-env web-token",
            seen.header("x-amz-security-token")
        );
        match seen.action() {
            "" => ok(keys("AK1", 3600)),
            _ => (
                403,
                Vec::new(),
                format!(
                    "<ErrorResponse><Error><Code>AccessDenied</Code><Message>{text}</Message></Error></ErrorResponse>"
                ),
            ),
        }
    };
    let pod = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/")];
    let (of_pod, _) = aws(&pod, region(), echo);
    let of_pod = of_pod.unwrap();
    let error: Error = call(&of_pod).await.unwrap_err();
    let shown = format!("{error} {error:?} {of_pod:?}");
    assert!(
        !shown.contains("of-AK1") && shown.contains("[redacted]"),
        "{shown}"
    );
    let role = Settings {
        role_arn: Some(ROLE.into()),
        ..region()
    };
    let (of_role, _) = aws(&KEYS, role, echo);
    let error = call(&of_role.unwrap()).await.unwrap_err();
    assert!(
        error.is_unauthorized() && !error.to_string().contains("secret-of-env"),
        "{error}"
    );
}

//! Refusals, and the errors that they become.

use aws_protocol::Query;
use cloud_provider::Error;
use serde::de::IgnoredAny;

use crate::cloud::{KEYS, aws, ok, refusal, region};

#[tokio::test(start_paused = true)]
async fn codes_become_errors_that_say_what_to_do() {
    type Row = (fn(&Error) -> bool, u16, &'static [&'static str]);
    let table: [Row; 7] = [
        (
            Error::is_not_found,
            400,
            &[
                "InvalidInstanceID.NotFound",
                "InvalidGroup.NotFound",
                "InvalidRoute.NotFound",
                "LoadBalancerNotFound",
                "TargetGroupNotFound",
            ],
        ),
        (
            Error::is_conflict,
            400,
            &[
                "InvalidGroup.Duplicate",
                "InvalidPermission.Duplicate",
                "RouteAlreadyExists",
                "DuplicateLoadBalancerName",
                "DependencyViolation",
                "ResourceInUse",
            ],
        ),
        (
            Error::is_quota,
            400,
            &[
                "RulesPerSecurityGroupLimitExceeded",
                "TooManyLoadBalancers",
                "TooManyTargets",
            ],
        ),
        (
            Error::is_rate_limited,
            503,
            &[
                "RequestLimitExceeded",
                "Throttling",
                "ThrottlingException",
                "TooManyRequestsException",
            ],
        ),
        (
            Error::is_unauthorized,
            400,
            &[
                "UnauthorizedOperation",
                "AuthFailure",
                "ExpiredToken",
                "SignatureDoesNotMatch",
                "OptInRequired",
            ],
        ),
        (
            Error::is_unauthorized,
            403,
            &["AccessDenied", "InvalidClientTokenId", "SomethingElse"],
        ),
        (
            Error::is_invalid,
            400,
            &[
                "InvalidID",
                "InvalidInstanceID.Malformed",
                "InvalidParameterValue",
                "ValidationError",
            ],
        ),
    ];
    for (is_expected, status, codes) in table {
        for code in codes {
            let (aws, _) = aws(&KEYS, region(), move |_, _| refusal(status, code));
            let error = aws
                .unwrap()
                .ec2
                .change::<IgnoredAny>(Query::new("CreateX"))
                .await
                .unwrap_err();
            assert!(is_expected(&error), "{code}: {error:?}");
            assert_eq!(error.code(), *code);
            let expected = format!("ec2 CreateX answered {status}: {code}: the words of the cloud");
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[tokio::test]
async fn deletion_protection_is_an_error_of_its_own() {
    let body = "<ErrorResponse><Error><Type>Sender</Type><Code>OperationNotPermitted</Code><Message>Load balancer 'x' cannot \
                be deleted because deletion protection is enabled</Message></Error><RequestId>7</RequestId></ErrorResponse>";
    let (aws, _) = aws(&KEYS, region(), move |_, _| {
        (400, Vec::new(), body.to_owned())
    });
    assert!(
        aws.unwrap()
            .elbv2
            .remove(Query::new("DeleteLoadBalancer"))
            .await
            .unwrap_err()
            .is_protected()
    );
}

#[tokio::test(start_paused = true)]
async fn throttled_changes_are_sent_again_and_refused_ones_are_not() {
    let answers = |code: &'static str| {
        move |_: &_, number| {
            if number < 3 {
                refusal(503, code)
            } else {
                ok("<R/>")
            }
        }
    };
    let (throttled, log) = aws(&KEYS, region(), answers("RequestLimitExceeded"));
    throttled
        .unwrap()
        .ec2
        .change::<IgnoredAny>(Query::new("CreateX"))
        .await
        .unwrap();
    assert_eq!(log.lock().len(), 3);
    let (broken, log) = aws(&KEYS, region(), answers("InternalError"));
    let broken = broken.unwrap();
    broken
        .ec2
        .change::<IgnoredAny>(Query::new("CreateX"))
        .await
        .unwrap_err();
    assert_eq!(log.lock().len(), 1, "nobody knows what became of it");
    broken
        .ec2
        .read::<IgnoredAny>(Query::new("DescribeX"))
        .await
        .unwrap();
    assert_eq!(log.lock().len(), 3);
}

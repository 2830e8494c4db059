//! Refusals of API 3.0, which come with the status 200, and their meaning.

use std::sync::Arc;

use bytes::Bytes;
use cloud_provider::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use provider_kit::transport::{BodyLimit, Connector, NoAnswer, Refusal};
use serde_json::Value;

/// A connector that gives refusals a status: the APIs answer 200, with the code in the body.
pub(crate) struct RefusalStatus(pub(crate) Arc<dyn Connector>);

impl Connector for RefusalStatus {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let answer = self.0.carry(request, limit);
        async move {
            let mut answer = answer.await?;
            if answer.status() == StatusCode::OK
                && let Some((code, message)) = refused(answer.body())
            {
                let status = status(&code, &message);
                *answer.status_mut() = status;
                if status == StatusCode::TOO_MANY_REQUESTS {
                    answer
                        .headers_mut()
                        .entry(header::RETRY_AFTER)
                        .or_insert(HeaderValue::from_static("1"));
                }
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// Returns code and message of a refusal: `{"Response": {"Error": {"Code", "Message"}}}`.
pub(crate) fn refused(body: &[u8]) -> Option<(String, String)> {
    if !std::str::from_utf8(body).is_ok_and(|text| text.contains("\"Error\"")) {
        return None;
    }
    let answer: Value = serde_json::from_slice(body).ok()?;
    let error = &answer["Response"]["Error"];
    Some((
        error["Code"].as_str()?.to_owned(),
        error["Message"].as_str().unwrap_or_default().to_owned(),
    ))
}

pub(crate) fn refusal(_: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let (code, message) = refused(body)?;
    Some(Refusal {
        message: format!("{code}: {message}"),
        code,
        details: Vec::new(),
    })
}

/// Beginnings of codes, with the status that they correspond to. The first one that fits counts.
const STATUSES: [(&str, u16); 26] = [
    ("AuthFailure.UnauthorizedOperation", 403),
    ("AuthFailure", 401),
    ("UnauthorizedOperation", 403),
    ("RequestLimitExceeded", 429),
    ("FailedOperation.RateLimitExceeded", 429),
    ("InvalidInstanceId.NotFound", 404),
    ("InvalidParameter.LBIdNotFound", 404),
    ("InvalidParameter.ListenerIdNotFound", 404),
    ("InternalError.RouteTableNotFound", 404),
    ("InvalidParameter.ResourceNotFound", 404),
    ("ResourceNotFound", 404),
    ("InvalidSecurityGroupID.NotFound", 404),
    ("FailedOperation.ResourceInOperating", 409),
    ("FailedOperation.InvalidLBStatus", 409),
    ("FailedOperation.ResourceInCloning", 409),
    ("ResourceInUse", 409),
    ("InvalidParameterValue.Duplicate", 409),
    ("InvalidParameter.PortCheckFailed", 409),
    ("InvalidParameter.GatewayAlreadyAssociatedCidr", 409),
    ("InternalError.GatewayAlreadyAssociatedCidr", 409),
    ("InternalError.Cidr", 400),
    ("InternalError.RouteTableNotEmpty", 400),
    ("InternalError", 500),
    ("ServiceUnavailable", 503),
    ("ResourceUnavailable", 503),
    ("FailedOperation.RequestTimeout", 500),
];

/// Returns the status that a refusal corresponds to.
pub(crate) fn status(code: &str, message: &str) -> StatusCode {
    let text = message.to_ascii_lowercase();
    let known = STATUSES
        .iter()
        .find(|(beginning, _)| code.starts_with(beginning))
        .map(|(_, status)| *status);
    let number = match known {
        None if code == "LimitExceeded"
            && (text.contains("frequency") || text.contains("rate limit")) =>
        {
            429
        }
        known => known.unwrap_or(400),
    };
    StatusCode::from_u16(number).unwrap_or(StatusCode::BAD_REQUEST)
}

/// Returns the meaning of a code beyond its status.
pub(crate) fn meaning(refusal: &Refusal) -> Option<fn(String) -> Error> {
    let quota = [
        "LimitExceeded",
        "ResourceInsufficient",
        "ResourcesSoldOut",
        "FailedOperation.InsufficientBalance",
    ];
    let is_protected = || {
        refusal.code.starts_with("OperationDenied")
            || refusal
                .message
                .to_ascii_lowercase()
                .contains("delete protect")
    };
    match () {
        () if status(&refusal.code, &refusal.message) == StatusCode::TOO_MANY_REQUESTS => None,
        () if quota.iter().any(|quota| refusal.code.starts_with(quota)) => Some(Error::quota),
        () if is_protected() => Some(Error::protected),
        () => None,
    }
}

/// Returns `true` for a request that was not carried out because the object is being changed.
pub(crate) fn is_busy(refusal: &Refusal) -> bool {
    [
        "FailedOperation.ResourceInOperating",
        "FailedOperation.InvalidLBStatus",
        "FailedOperation.ResourceInCloning",
    ]
    .contains(&&*refusal.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_in_answers_with_status_200_get_the_status_of_their_code() {
        for (code, message, expected) in [
            ("AuthFailure.SignatureFailure", "", 401),
            ("UnauthorizedOperation", "", 403),
            ("RequestLimitExceeded.UinLimitExceeded", "", 429),
            ("LimitExceeded", "the request frequency is too high", 429),
            (
                "LimitExceeded",
                "the quota of load balancers is used up",
                400,
            ),
            ("ResourceNotFound.RouteTableNotFound", "", 404),
            ("InvalidInstanceId.Malformed", "", 400),
            ("FailedOperation.ResourceInOperating", "", 409),
            ("InternalError.CidrOutOfRouteTable", "", 400),
            ("InternalError.Db", "", 500),
        ] {
            assert_eq!(status(code, message), expected, "{code}");
        }
        let body = br#"{"Response": {"Error": {"Code": "LimitExceeded", "Message": "quota"}, "RequestId": "1"}}"#;
        let read = refusal(&HeaderMap::new(), body).unwrap();
        assert_eq!(
            (&*read.code, &*read.message),
            ("LimitExceeded", "LimitExceeded: quota")
        );
        assert!(meaning(&read).is_some_and(|error| error(String::new()).is_quota()));
        assert!(refused(br#"{"Response": {"Name": "Error", "RequestId": "1"}}"#).is_none());
    }
}

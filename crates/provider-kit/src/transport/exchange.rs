//! The last layer: sends one request, reads one answer, and maps it to a result.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::{Error, Result};
use http::{HeaderValue, Request, header};
use jiff::Timestamp;
use tower::service_fn;

use super::attempt::{Attempt, Sends};
use super::failure::{self, Failure, RefusalRules};
use super::limit::{density, is_refusal};
use super::{Answer, BodyLimit, Connector, dump};

pub(super) struct Exchange {
    pub(super) base: String,
    pub(super) connector: Box<dyn Connector>,
    pub(super) timeout: Duration,
    pub(super) refusal_rules: RefusalRules,
    pub(super) user_agent: HeaderValue,
    /// If set, requests and answers are logged.
    pub(super) log_bodies: bool,
}

pub(super) fn exchange(exchange: Exchange) -> impl Sends {
    let exchange = Arc::new(exchange);
    service_fn(move |attempt: Attempt| {
        let exchange = Arc::clone(&exchange);
        async move { exchange.carry(&attempt).await }
    })
}

impl Exchange {
    async fn carry(&self, attempt: &Attempt) -> Result<Answer, Failure> {
        let mut request = self.request(attempt).map_err(Failure::not_sent)?;
        // Signed last, and for each attempt: a signature covers the date and everything else.
        if let Some(signer) = &attempt.signer {
            signer
                .sign(&mut request, Timestamp::now())
                .await
                .map_err(Failure::not_sent)?;
        }
        let call = &attempt.call;
        if self.log_bodies {
            dump::request(&request, attempt);
        }
        let signed = attempt
            .signer
            .as_ref()
            .map(|signer| (signer, request.headers().clone()));
        let limit = BodyLimit::of_list(call.is_list);
        let outcome =
            tokio::time::timeout(self.timeout, self.connector.carry(request, limit)).await;
        let answer = match outcome {
            Err(_) => {
                return Err(Failure::no_answer(
                    call,
                    &format!("no answer within {:?}", self.timeout),
                ));
            }
            Ok(Err(err)) => {
                let failure = if err.sent {
                    Failure::no_answer
                } else {
                    Failure::no_connection
                };
                return Err(failure(call, &attempt.redact(err.to_string())));
            }
            Ok(Ok(answer)) => answer,
        };
        if self.log_bodies {
            dump::answer(&answer, attempt);
        }
        let is_too_long = answer.body().len() > limit.bytes(answer.status());
        if is_refusal(answer.status()) {
            let (mut failure, refusal) = failure::refused(
                attempt,
                &answer,
                is_too_long.then_some(limit),
                self.refusal_rules,
            );
            if let (Some((signer, sent)), Some(refusal)) = (signed, refusal) {
                failure.sign_again = signer
                    .refused(&sent, &refusal, answer.headers())
                    .await
                    .map_err(Failure::not_sent)?;
            }
            return Err(failure);
        }
        let report = (self.refusal_rules.rate_limits)(answer.headers());
        if is_too_long {
            return Err(failure::too_large(
                call,
                &answer,
                report,
                &limit.describe(answer.status()),
            ));
        }
        if let Some(density) = density(answer.body()) {
            return Err(failure::too_large(call, &answer, report, &density));
        }
        let (parts, body) = answer.into_parts();
        let place = call.place();
        let field = call.field;
        Ok(Answer {
            place,
            field,
            status: parts.status,
            headers: parts.headers,
            body,
            report,
        })
    }

    fn request(&self, attempt: &Attempt) -> Result<Request<Bytes>> {
        let call = &attempt.call;
        let content = call.content()?;
        let base = attempt
            .access
            .as_ref()
            .map(|access| access.base())
            .filter(|base| !base.is_empty());
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", base.unwrap_or(&self.base), call.uri()))
            .header(header::USER_AGENT, self.user_agent.clone());
        if !call.headers.iter().any(|(name, _)| *name == header::ACCEPT) {
            request = request.header(header::ACCEPT, "application/json");
        }
        if let Some((_, content_type)) = content {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(access) = &attempt.access
            && let Some(name) = &access.name
        {
            let Some(value) = &access.header else {
                return Err(Error::unauthorized(
                    "the token has characters that no HTTP header can carry",
                ));
            };
            request = request.header(name, value.clone());
        }
        request
            .body(content.map(|(body, _)| body).unwrap_or_default())
            .map_err(|err| Error::other(format!("{} cannot be sent: {err}", call.place())))
    }
}

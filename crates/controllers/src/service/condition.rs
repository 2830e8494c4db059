//! The condition that explains why a load balancer is pending or has failed (D-3, P-24, P-20).
//!
//! The condition is added when a sync fails, changed when the cause changes, and set to `True` when the load balancer is
//! in sync again; a Service whose syncs never failed does not get it. Other conditions are not changed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use cloud_provider::names::{ANNOTATION_ABANDON_LOAD_BALANCER, CONDITION_LOAD_BALANCER_READY};
use cloud_provider::{Error, Service, visible, without_request_ids};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::service::retry::{CAP, Retry};
use crate::service::wants::Operation;

/// Maximum length of a message. The API accepts 32 KiB, which nobody would read.
const LONGEST: usize = 2048;
/// Minimum time between two writes of the condition that change only the message.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// Reason of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The load balancer is in sync with its Service.
    Ensured,
    /// The sync failed for an unknown cause; it is retried.
    EnsureFailed,
    /// The deletion failed for an unknown cause; it is retried.
    DeletionFailed,
    /// The cloud is still changing the load balancer, or throttles requests.
    Waiting,
    /// The cloud is still deleting the load balancer, or throttles requests.
    Deleting,
    /// The deletion fails until an operator removes the cause.
    DeletionBlocked,
    /// A lock or protection must be lifted.
    Protected,
    /// The cloud refuses the credential, or the credential lacks a permission.
    Unauthorized,
    /// A quota is used up.
    QuotaExceeded,
    /// The Service or a resource in the cloud must be corrected.
    Invalid,
}

impl Reason {
    /// List of all reasons.
    pub const ALL: [Self; 10] = [
        Self::Ensured,
        Self::EnsureFailed,
        Self::DeletionFailed,
        Self::Waiting,
        Self::Deleting,
        Self::DeletionBlocked,
        Self::Protected,
        Self::Unauthorized,
        Self::QuotaExceeded,
        Self::Invalid,
    ];

    /// Returns the text of the reason in the condition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ensured => "Ensured",
            Self::EnsureFailed => "EnsureFailed",
            Self::DeletionFailed => "DeletionFailed",
            Self::Waiting => "Waiting",
            Self::Deleting => "Deleting",
            Self::DeletionBlocked => "DeletionBlocked",
            Self::Protected => "Protected",
            Self::Unauthorized => "Unauthorized",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::Invalid => "Invalid",
        }
    }

    /// Returns the reason with this text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// The content of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    is_ready: bool,
    pub(super) reason: &'static str,
    message: String,
}

impl Condition {
    /// Returns the condition of a load balancer in sync.
    pub(super) fn ready() -> Self {
        let message = "The load balancer is in sync with this Service.".to_owned();
        Self {
            is_ready: true,
            reason: Reason::Ensured.as_str(),
            message,
        }
    }

    /// Returns the condition of a failed sync: the cause and the remedy. The message has no time, which would become
    /// wrong, and does not mention retries if a person must act.
    pub(super) fn failed(error: &Error, operation: Operation, retry: Retry) -> Self {
        let cause = FailureCause::of(error);
        let is_deletion = operation != Operation::Ensure;
        let reason = match (cause, is_deletion) {
            (FailureCause::Passing, false) => Reason::EnsureFailed,
            (FailureCause::Passing, true) => Reason::DeletionFailed,
            (FailureCause::Waiting, false) => Reason::Waiting,
            (FailureCause::Waiting, true) => Reason::Deleting,
            (_, true) => Reason::DeletionBlocked,
            (FailureCause::Protected, false) => Reason::Protected,
            (FailureCause::Unauthorized, false) => Reason::Unauthorized,
            (FailureCause::Quota, false) => Reason::QuotaExceeded,
            (FailureCause::Invalid, false) => Reason::Invalid,
        };
        let text: String = visible(&error.to_string()).chars().take(LONGEST).collect();
        let next = match (cause, retry) {
            (FailureCause::Passing | FailureCause::Waiting, Retry::BackOff) => {
                format!(
                    "It is retried at growing intervals of up to {} minutes.",
                    CAP.as_secs() / 60
                )
            }
            (FailureCause::Passing | FailureCause::Waiting, _) => {
                "It is retried after the pause that the cloud asked for.".to_owned()
            }
            _ => String::new(),
        };
        let parts = [
            format!("{}.", text.trim_end_matches('.')),
            cause.advice(is_deletion),
            next,
        ];
        let message = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        Self {
            is_ready: false,
            reason: reason.as_str(),
            message,
        }
    }

    /// Returns `true` if this condition must be written although the Service shows another one: at once if the reason
    /// differs, at most once a minute if only the message does.
    pub(super) fn is_due(&self, shown: &ShownCondition, now: Instant) -> bool {
        let is_recent = shown
            .at
            .is_some_and(|at| now.duration_since(at) < MESSAGE_INTERVAL);
        *shown.reason != *self.reason || (shown.message != sum(&self.message) && !is_recent)
    }

    /// Returns this condition as written at `now`.
    pub(super) fn written(&self, now: Instant) -> ShownCondition {
        ShownCondition {
            reason: self.reason.into(),
            message: sum(&self.message),
            at: Some(now),
        }
    }

    /// Adds the condition to a patch of the Service.
    pub(super) fn put(&self, patch: &mut Value, service: &Service, now: Timestamp) {
        let status = if self.is_ready { "True" } else { "False" };
        let since = present(service)
            .filter(|c| c.status == status)
            .map(|c| c.last_transition_time.0);
        patch["status"]["conditions"] = json!([{
            "type": CONDITION_LOAD_BALANCER_READY,
            "status": status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": seconds(since.unwrap_or(now)),
        }]);
    }

    /// Adds the removal of the condition to a patch.
    pub(super) fn remove(patch: &mut Value) {
        patch["status"]["conditions"] =
            json!([{"$patch": "delete", "type": CONDITION_LOAD_BALANCER_READY}]);
    }
}

/// A condition that a Service shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownCondition {
    pub(super) reason: Box<str>,
    /// Hash of the message without IDs of requests: a retry that fails alike is no reason to write the Service.
    message: u64,
    /// Time at which this run wrote the condition, if it did.
    at: Option<Instant>,
}

/// Returns the condition that the Service has.
pub(super) fn shown(service: &Service) -> Option<ShownCondition> {
    let condition = present(service)?;
    Some(ShownCondition {
        reason: (*condition.reason).into(),
        message: sum(&condition.message),
        at: None,
    })
}

fn sum(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    without_request_ids(message).hash(&mut hasher);
    hasher.finish()
}

fn present(
    service: &Service,
) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let conditions = service
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == CONDITION_LOAD_BALANCER_READY)
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

/// The party that must act to resolve a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureCause {
    /// A person must remove a lock or protection.
    Protected,
    /// A person must correct the credential or its permissions.
    Unauthorized,
    /// A person must raise a quota or free resources.
    Quota,
    /// A person must correct the Service or the cloud.
    Invalid,
    /// The cloud is still changing the resource, or asked for a pause.
    Waiting,
    /// No known party; the failure may pass.
    Passing,
}

impl FailureCause {
    /// Returns the cause of an error. The whole chain is examined, because wrapping an error does not change who must
    /// act.
    fn of(error: &Error) -> Self {
        let any = |is: fn(&Error) -> bool| error.chain().any(is);
        if any(Error::is_protected) {
            Self::Protected
        } else if any(Error::is_unauthorized) {
            Self::Unauthorized
        } else if any(Error::is_quota) {
            Self::Quota
        } else if any(Error::is_invalid) {
            Self::Invalid
        } else if error.retry_after().is_some() {
            Self::Waiting
        } else {
            Self::Passing
        }
    }

    fn advice(self, is_deletion: bool) -> String {
        let what = match self {
            Self::Protected => "Lift the lock or protection in the cloud.",
            Self::Unauthorized => {
                "Give the cloud controller manager a valid credential that may do this; see its configuration."
            }
            Self::Quota => "Delete unused resources or have the quota raised in the cloud.",
            Self::Invalid => "Correct what the error names, in this Service or in the cloud.",
            Self::Waiting | Self::Passing => return String::new(),
        };
        if is_deletion {
            format!(
                "A person must act: {}{} Or annotate this service, once it is being deleted, with \
                 {ANNOTATION_ABANDON_LOAD_BALANCER}=true to delete the Service and leave the load balancer in the \
                 cloud.",
                what[..1].to_lowercase(),
                &what[1..]
            )
        } else {
            what.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00.5Z";

    fn failed(error: &Error, operation: Operation) -> Condition {
        Condition::failed(error, operation, Retry::of(&Err(error.clone())))
    }

    #[test]
    fn the_reason_says_who_has_to_act() {
        let wait = || Error::retry_in("busy", Duration::from_secs(9));
        let table = [
            (Error::other("503"), "EnsureFailed", "DeletionFailed"),
            (wait(), "Waiting", "Deleting"),
            (Error::protected("locked"), "Protected", "DeletionBlocked"),
            (
                Error::unauthorized("401"),
                "Unauthorized",
                "DeletionBlocked",
            ),
            (Error::quota("10 of 10"), "QuotaExceeded", "DeletionBlocked"),
            (Error::invalid("annotation x"), "Invalid", "DeletionBlocked"),
        ];
        for (error, ensure, deletion) in table {
            let error = error.context("failed");
            assert_eq!(failed(&error, Operation::Ensure).reason, ensure, "{error}");
            assert_eq!(
                failed(&error, Operation::TearDown).reason,
                deletion,
                "{error}"
            );
        }
    }

    #[test]
    fn reasons_are_read_back_as_they_were_written() {
        assert!(
            Reason::ALL
                .into_iter()
                .all(|reason| Reason::parse(reason.as_str()) == Some(reason))
        );
    }

    #[test]
    fn the_message_says_what_to_do_and_names_retries_only_where_they_help() {
        let locked = failed(
            &Error::protected("load balancer lb-7 is locked"),
            Operation::TearDown,
        );
        assert_eq!(
            locked.message,
            "load balancer lb-7 is locked. A person must act: lift the lock or protection in the cloud. Or annotate this \
             service, once it is being deleted, with ccm-rs/abandon-load-balancer=true to delete the Service and leave \
             the load balancer in the cloud."
        );
        let unavailable = failed(&Error::other("503"), Operation::Ensure);
        assert_eq!(
            unavailable.message,
            "503. It is retried at growing intervals of up to 5 minutes."
        );
        let busy = failed(
            &Error::retry_in("busy", Duration::from_secs(9)),
            Operation::Ensure,
        );
        assert_eq!(
            busy.message,
            "busy. It is retried after the pause that the cloud asked for."
        );
    }

    #[test]
    fn condition_is_written_when_its_cause_changes_and_a_message_alone_once_a_minute() {
        let start = Instant::now();
        let condition = |error: Error| failed(&error, Operation::Ensure);
        let shown = condition(Error::other("500, request 1")).written(start);
        let after = |seconds| start + Duration::from_secs(seconds);
        for (next, seconds, expected) in [
            (Error::other("500, request 1"), 3600, false),
            (Error::other("502, request 2"), 59, false),
            (Error::other("502, request 2"), 60, true),
            (Error::unauthorized("401"), 0, true),
        ] {
            assert_eq!(
                condition(next.clone()).is_due(&shown, after(seconds)),
                expected,
                "{next} after {seconds} s"
            );
        }
        let request = |id: u32| condition(Error::other(format!("500 (x-request-id {id})")));
        assert!(
            !request(2).is_due(&request(1).written(start), after(3600)),
            "a retry that fails alike"
        );
        let of_another_run = ShownCondition { at: None, ..shown };
        assert!(condition(Error::other("502")).is_due(&of_another_run, start));
    }

    #[test]
    fn the_transition_time_changes_with_the_status_only() {
        let since = |status: &str| -> String {
            let service = serde_json::from_value(json!({"status": {"conditions": [{
                "type": CONDITION_LOAD_BALANCER_READY, "status": status, "reason": "x", "message": "",
                "lastTransitionTime": "2025-01-01T00:00:00Z"}]}}));
            let mut patch = json!({});
            Condition::ready().put(&mut patch, &service.unwrap(), NOW.parse().unwrap());
            patch["status"]["conditions"][0]["lastTransitionTime"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            (&*since("True"), &*since("False")),
            ("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
        );
    }
}

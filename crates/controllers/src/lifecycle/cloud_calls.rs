//! Look-ups as the calls of the Go program, which counts them in its metrics.

use cloud_provider::{Error, InstanceState, LookupRequest, Result};

/// A call of the Go program's interface for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudOperation {
    /// The read that tells if a machine exists.
    InstanceExists,
    /// The read that tells if a machine is shut down.
    InstanceShutdown,
}

impl CloudOperation {
    /// Returns the value of the label `operation`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InstanceExists => "instance_exists",
            Self::InstanceShutdown => "instance_shutdown",
        }
    }
}

/// Returns the calls, with the values of the label `result`, that the answer for one Node stands for (MET-11).
///
/// The look-up of many Nodes may be one request to the cloud. The Go program has calls for the metadata of a machine, too, but
/// makes none for a provider like ours; and its result `canceled` does not occur, because no look-up is cancelled.
pub(super) fn cloud_calls(
    want: LookupRequest,
    answer: &Result<InstanceState>,
) -> Vec<(CloudOperation, &'static str)> {
    let exists = match answer {
        Ok(InstanceState::Present { .. }) => "success",
        Ok(InstanceState::Gone(_)) => "instance_not_found",
        Err(error) => result_of(error),
    };
    let mut calls = vec![(CloudOperation::InstanceExists, exists)];
    if let Ok(InstanceState::Present { shutdown, .. }) = answer
        && want.shutdown
    {
        let result = if shutdown.is_some() {
            "success"
        } else {
            "not_implemented"
        };
        calls.push((CloudOperation::InstanceShutdown, result));
    }
    calls
}

fn result_of(error: &Error) -> &'static str {
    if error.chain().any(Error::is_not_implemented) {
        "not_implemented"
    } else if error.chain().any(Error::is_not_found) {
        "instance_not_found"
    } else {
        "error"
    }
}

#[cfg(test)]
mod tests {
    use super::CloudOperation::{InstanceExists, InstanceShutdown};
    use super::*;
    use cloud_provider::Gone;

    #[test]
    fn answer_counts_once_for_each_operation() {
        let present = |shutdown| {
            Ok(InstanceState::Present {
                shutdown,
                metadata: None,
            })
        };
        let wrapped = Error::not_found("no machine m-1").context("read the machine");
        type Row<'a> = (
            &'a str,
            Result<InstanceState>,
            &'a [(CloudOperation, &'a str)],
        );
        let table: [Row<'_>; 6] = [
            (
                "running",
                present(Some(false)),
                &[(InstanceExists, "success"), (InstanceShutdown, "success")],
            ),
            (
                "unknown",
                present(None),
                &[
                    (InstanceExists, "success"),
                    (InstanceShutdown, "not_implemented"),
                ],
            ),
            (
                "gone",
                Ok(InstanceState::Gone(Gone::no_such_id("p://1"))),
                &[(InstanceExists, "instance_not_found")],
            ),
            (
                "failed",
                Err(Error::other("boom")),
                &[(InstanceExists, "error")],
            ),
            (
                "wrapped",
                Err(wrapped),
                &[(InstanceExists, "instance_not_found")],
            ),
            (
                "missing",
                Err(Error::not_implemented()),
                &[(InstanceExists, "not_implemented")],
            ),
        ];
        for (what, answer, calls) in table {
            assert_eq!(
                cloud_calls(LookupRequest::EXISTENCE.and_shutdown(), &answer),
                calls,
                "{what}"
            );
        }
        let existence = cloud_calls(LookupRequest::EXISTENCE, &present(None));
        assert_eq!(
            existence,
            [(InstanceExists, "success")],
            "nobody asked for the shutdown"
        );
    }
}

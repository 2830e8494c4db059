//! Look-ups of Nodes in the cloud, guarded so that no failure of the provider stops a controller.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, Error, InstanceState, LookupRequest, Node, Result};
use futures::FutureExt;

/// Base timeout of a lookup, to which [`DEADLINE_PER_NODE`] is added for each Node, because some providers look up each
/// Node with a request of its own. Providers have shorter timeouts for each request.
const DEADLINE: Duration = Duration::from_secs(120);
const DEADLINE_PER_NODE: Duration = Duration::from_secs(8);

/// Returns the cloud's answer for each Node, in their order. Sends no request without Nodes.
///
/// A provider that panics, times out or answers for fewer Nodes results in errors, never in an absent instance.
/// `unsupported` is the error for a provider that does not, or no longer, support instances (PROV-19).
pub async fn look_up(
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    want: LookupRequest,
    unsupported: &'static str,
) -> Vec<Result<InstanceState>> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let all = |error: Error| nodes.iter().map(|_| Err(error.clone())).collect();
    let Some(instances) = provider.instances() else {
        return all(Error::other(unsupported));
    };
    let answers = AssertUnwindSafe(async { instances.lookup(nodes, want).await }).catch_unwind();
    let deadline = DEADLINE + DEADLINE_PER_NODE * u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let mut answers = match tokio::time::timeout(deadline, answers).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(_)) => {
            return all(Error::other(format!(
                "cloud provider {} panicked",
                provider.name()
            )));
        }
        Err(_) => {
            let seconds = deadline.as_secs();
            return all(Error::other(format!(
                "cloud provider {} gave no answer within {seconds} s",
                provider.name()
            )));
        }
    };
    answers.resize_with(nodes.len(), || {
        Err(Error::other("the provider gave no answer for this node"))
    });
    answers
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::{Instances, async_trait};

    enum Broken {
        Panics,
        Hangs,
        AnswersForOne,
    }

    #[async_trait]
    impl Instances for Broken {
        async fn lookup(
            &self,
            _nodes: &[Arc<Node>],
            _want: LookupRequest,
        ) -> Vec<Result<InstanceState>> {
            match self {
                Self::Panics => panic!("a defect of the provider"),
                Self::Hangs => std::future::pending().await,
                Self::AnswersForOne => vec![Ok(InstanceState::Present {
                    shutdown: None,
                    metadata: None,
                })],
            }
        }
    }

    impl CloudProvider for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn instances(&self) -> Option<&dyn Instances> {
            Some(self)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_node_gets_an_answer_whatever_the_provider_does() {
        let nodes: Vec<_> = (0..3).map(|_| Arc::new(Node::default())).collect();
        for (provider, errors) in [
            (Broken::Panics, 3),
            (Broken::Hangs, 3),
            (Broken::AnswersForOne, 2),
        ] {
            let answers = look_up(&provider, &nodes, LookupRequest::EXISTENCE, "none").await;
            assert_eq!(
                answers.iter().filter(|answer| answer.is_err()).count(),
                errors
            );
            assert_eq!(answers.len(), 3);
        }
    }
}

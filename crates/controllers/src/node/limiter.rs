//! The back-off of the queue of Nodes (NODE-10).

use std::time::Duration;

use runtime::limiter::{Exponential, RateLimiter, TokenBucket};

/// Returns the back-off with a cap, or that of the Go program. With a cap, a hundred Nodes may be tried in a second: with
/// ten, as in the Go program, the shared bucket would keep a thousand Nodes that fail waiting for minutes. The reads of a
/// batch are shared.
pub(super) fn limiter(cap: Option<Duration>) -> RateLimiter<String> {
    let Some(cap) = cap else {
        return RateLimiter::standard();
    };
    let bucket = TokenBucket::new(Duration::from_millis(10), 100, None);
    RateLimiter::max_of(Exponential::new(Duration::from_millis(5), cap), bucket)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::options::Options;

    #[test]
    fn node_that_failed_often_is_tried_again_within_a_minute() {
        let last = |options: &Options| {
            let mut limiter = limiter(options.node.retry_cap);
            let now = Instant::now();
            let delays: Vec<_> = (0..30)
                .map(|_| limiter.delay(now, &"worker-1".to_owned()))
                .collect();
            (delays[0], delays[29])
        };
        let first = Duration::from_millis(5);
        assert_eq!(last(&Options::default()), (first, Duration::from_secs(60)));
        assert_eq!(
            last(&Options::reference()),
            (first, Duration::from_secs(1000))
        );
    }

    #[test]
    fn thousands_of_nodes_that_fail_are_tried_every_minute() {
        let mut limiter = limiter(Options::default().node.retry_cap);
        let now = Instant::now();
        let longest = (0..5000)
            .map(|number| limiter.delay(now, &format!("worker-{number}")))
            .max();
        assert!(longest < Some(Duration::from_secs(60)), "{longest:?}");
    }
}

//! Targets that the cloud refuses: they are left out, so that one of them keeps no other one from being served.

use cloud_provider::{Error, Result};

/// The number of refused targets after which the whole request counts as refused, if the cloud accepted none.
const MANY: usize = 8;

/// Sends targets, in parts if the cloud refuses the request as a whole, and returns those that it refuses alone.
/// `has_others`: the load balancer has targets already, so even a single refused target does not fail the sync.
///
/// # Errors
/// The refusal, if the cloud accepts no target at all; any error that is no refusal.
pub async fn without_refused<T, F>(
    targets: &[T],
    has_others: bool,
    mut send: impl FnMut(Vec<T>) -> F,
) -> Result<Vec<(T, Error)>>
where
    T: Clone,
    F: Future<Output = Result<()>>,
{
    let mut pending = vec![targets];
    let mut refused = Vec::new();
    let mut is_any_accepted = has_others;
    while let Some(part) = pending.pop() {
        match (send(part.to_vec()).await, part) {
            (Ok(()), _) => is_any_accepted = true,
            (Err(error), [one]) if is_refusal(&error) => refused.push((one.clone(), error)),
            (Err(error), _) if is_refusal(&error) && !part.is_empty() => {
                let (first, second) = part.split_at(part.len() / 2);
                pending.extend([second, first]);
            }
            (Err(error), _) => return Err(error),
        }
        if let Some((_, error)) = refused
            .first()
            .filter(|_| !is_any_accepted && refused.len() >= MANY)
        {
            return Err(error.clone());
        }
    }
    match refused.first() {
        Some((_, error)) if !is_any_accepted => Err(error.clone()),
        _ => Ok(refused),
    }
}

fn is_refusal(error: &Error) -> bool {
    error.is_invalid() || error.is_not_found()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    async fn sent(all: &[u32], has_others: bool) -> (Result<Vec<u32>>, Vec<u32>, usize) {
        let accepted = Mutex::new(Vec::new());
        let requests = Mutex::new(0);
        let send = async |part: Vec<u32>| {
            *requests.lock() += 1;
            match part.iter().find(|part| **part >= 100) {
                Some(bad) => Err(Error::invalid(format!("{bad} is refused"))),
                None => {
                    accepted.lock().extend(part.clone());
                    Ok(())
                }
            }
        };
        let outcome = without_refused(all, has_others, send).await;
        let refused = outcome.map(|all| all.into_iter().map(|(target, _)| target).collect());
        let requests = *requests.lock();
        (refused, accepted.into_inner(), requests)
    }

    #[tokio::test]
    async fn refused_target_keeps_no_other_one_out() {
        let (refused, accepted, _) = sent(&[1, 2, 100, 3], false).await;
        assert_eq!((refused.unwrap(), accepted), (vec![100], vec![1, 2, 3]));
        let (refused, accepted, requests) = sent(&[1, 2, 3], false).await;
        assert_eq!(
            (refused.unwrap().len(), accepted.len(), requests),
            (0, 3, 1)
        );
    }

    #[tokio::test]
    async fn request_that_is_refused_as_a_whole_is_an_error() {
        let all: Vec<u32> = (100..200).collect();
        let (refused, _, requests) = sent(&all, false).await;
        assert!(
            refused.is_err_and(|error| error.is_invalid()) && requests < 30,
            "{requests}"
        );
        assert!(sent(&[100], false).await.0.is_err());
        assert_eq!(
            sent(&[100], true).await.0.unwrap(),
            [100],
            "the load balancer has other targets"
        );
    }
}

//! Values that are cached for a while and shared by all callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cloud_provider::{Error, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A value that is cached after it was read, such as the list of sizes that a cloud offers. Callers that arrive while
/// it is read share that read and its outcome, including failures.
///
/// ```
/// use std::time::Duration;
/// use provider_kit::cached::Cached;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> cloud_provider::Result<()> {
/// let sizes = Cached::default();
/// let hour = Duration::from_secs(3600);
/// let (list, is_cached) = sizes.get(hour, async || Ok(vec!["small", "large"])).await?;
/// assert_eq!((list.len(), is_cached), (2, false));
/// let (list, is_cached) = sizes.get(hour, async || Ok(vec![])).await?;
/// assert_eq!((list.len(), is_cached), (2, true));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Cached<T> {
    state: Mutex<State<T>>,
    /// Number of calls and reads so far. It orders those that the clock cannot tell apart.
    sequence: AtomicU64,
}

/// The beginning of a read.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    at: Instant,
    number: u64,
}

#[derive(Debug)]
struct State<T> {
    /// The last value, and the beginning of its read.
    value: Option<(Beginning, Arc<T>)>,
    /// The failure of the last read, and the beginning of that read.
    failure: Option<(Beginning, Error)>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self {
            state: Mutex::const_new(State {
                value: None,
                failure: None,
            }),
            sequence: AtomicU64::new(0),
        }
    }
}

impl<T> Cached<T> {
    /// Returns a value whose read began at most `age` before this call, and `true` if it came from the cache, so that
    /// this call did not read it. With an age of zero, the read began after this call, even if no time has passed.
    ///
    /// If a call is dropped while it reads, the next waiting call reads instead.
    ///
    /// # Errors
    /// The error of `read`, or of another caller's read that began while this call waited. The last value stays cached.
    pub async fn get(
        &self,
        age: Duration,
        read: impl AsyncFnOnce() -> Result<T>,
    ) -> Result<(Arc<T>, bool)> {
        let called = self.now();
        let mut state = self.state.lock().await;
        let is_recent = |began: &Beginning| !age.is_zero() && began.at + age >= called.at;
        let is_later = |began: &Beginning| began.number > called.number;
        match (&state.value, &state.failure) {
            (Some((began, value)), _) if is_later(began) || is_recent(began) => {
                return Ok((Arc::clone(value), true));
            }
            (_, Some((began, error))) if is_later(began) => return Err(error.clone()),
            _ => {}
        }
        let began = self.now();
        match read().await {
            Ok(value) => {
                let value = Arc::new(value);
                *state = State {
                    value: Some((began, Arc::clone(&value))),
                    failure: None,
                };
                Ok((value, false))
            }
            Err(error) => {
                state.failure = Some((began, error.clone()));
                Err(error)
            }
        }
    }

    /// Drops the value, so that the next call reads it again.
    pub async fn forget(&self) {
        self.state.lock().await.value = None;
    }

    fn now(&self) -> Beginning {
        Beginning {
            at: Instant::now(),
            number: self.sequence.fetch_add(1, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::future::join_all;
    use tokio::time::{advance, sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A value that takes a second to read, and whose every third read fails.
    #[derive(Default)]
    struct Numbers(Cached<usize>, AtomicUsize);

    impl Numbers {
        async fn get(&self, age: Duration) -> Result<usize> {
            let read = async || {
                let number = self.1.fetch_add(1, Ordering::Relaxed) + 1;
                sleep(SECOND).await;
                if number.is_multiple_of(3) {
                    Err(Error::other(format!("read {number} failed")))
                } else {
                    Ok(number)
                }
            };
            self.0.get(age, read).await.map(|(value, _)| *value)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_read_again_when_it_is_too_old_or_forgotten() {
        let numbers = Numbers::default();
        assert_eq!(numbers.get(SECOND * 9).await.unwrap(), 1);
        advance(SECOND * 8).await;
        assert_eq!(
            numbers.get(SECOND * 9).await.unwrap(),
            1,
            "its age counts from when its read began"
        );
        advance(SECOND).await;
        assert_eq!(numbers.get(SECOND * 9).await.unwrap(), 2);
        assert!(numbers.get(Duration::ZERO).await.is_err());
        assert_eq!(
            numbers.get(SECOND * 9).await.unwrap(),
            2,
            "a failed read takes nothing away"
        );
        numbers.0.forget().await;
        assert_eq!(numbers.get(SECOND * 9).await.unwrap(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_read_and_its_failure() {
        let numbers = Numbers::default();
        let began = Instant::now();
        let answers = join_all((0..50).map(|_| numbers.get(SECOND))).await;
        assert!(
            answers.iter().all(|answer| matches!(answer, Ok(1))),
            "{answers:?}"
        );
        // The first of them reads; the others were called after that read began, and share the next one, which fails.
        let answers = join_all((0..50).map(|_| numbers.get(Duration::ZERO))).await;
        assert!(
            matches!(answers[0], Ok(2)) && answers[1..].iter().all(Result::is_err),
            "{answers:?}"
        );
        assert_eq!((numbers.1.into_inner(), began.elapsed()), (3, SECOND * 3));
    }

    #[tokio::test(start_paused = true)]
    async fn value_of_the_same_instant_is_not_fresh_for_a_later_call() {
        let cached = Cached::default();
        let reads = AtomicUsize::new(0);
        let read = async || Ok(reads.fetch_add(1, Ordering::Relaxed));
        let began = Instant::now();
        for number in 0..3 {
            let (value, is_cached) = cached.get(Duration::ZERO, read).await.unwrap();
            assert_eq!((*value, is_cached), (number, false));
        }
        assert_eq!(cached.get(SECOND, read).await.unwrap(), (Arc::new(2), true));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn caller_of_a_fresh_value_does_not_share_a_read_in_flight() {
        let numbers = Numbers::default();
        let late = async {
            sleep(SECOND / 2).await;
            tokio::join!(numbers.get(Duration::ZERO), numbers.get(SECOND))
        };
        let (first, (fresh, any)) = tokio::join!(numbers.get(Duration::ZERO), late);
        assert_eq!((first.unwrap(), fresh.unwrap(), any.unwrap()), (1, 2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_reader_leaves_the_read_to_the_next_caller() {
        let numbers = Numbers::default();
        let (dropped, other) = tokio::join!(
            timeout(SECOND / 2, numbers.get(Duration::ZERO)),
            numbers.get(Duration::ZERO)
        );
        assert!(dropped.is_err());
        assert_eq!(other.unwrap(), 2);
    }
}

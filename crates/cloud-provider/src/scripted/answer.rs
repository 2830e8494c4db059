//! Scripted answers of a method.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Error, Result};

/// The answer of a method, given its argument: constant, a sequence, or the result of a function.
///
/// The argument `A` is the argument of the method: a provider ID or a Node's name (`str`), a [`Node`](crate::Node), a
/// [`Service`](crate::Service), a [`Route`](crate::Route).
///
/// ```
/// use cloud_provider::scripted::{Answer, Script};
/// use cloud_provider::Error;
///
/// let mut script = Script::default();
/// script.instance_id = Some(Answer::ok("17".to_owned()));
/// script.instance_exists = Some(Answer::in_turn([Err(Error::other("503")), Ok(true)]));
/// script.instance_type = Some(Answer::by(|name: &str| Ok(if name.starts_with("db") { "m5.xl" } else { "m5" }.into())));
/// ```
pub struct Answer<A: ?Sized, T>(Arc<Function<A, T>>);

type Function<A, T> = dyn Fn(&A) -> Result<T> + Send + Sync;

impl<A: ?Sized, T> Clone for Answer<A, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: ?Sized, T> fmt::Debug for Answer<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

impl<A: ?Sized, T> Answer<A, T> {
    /// Answers with the result of this function, which may change the script, but must not block.
    pub fn by(answer: impl Fn(&A) -> Result<T> + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    /// Answers with the same error every time.
    #[must_use]
    pub fn err(error: Error) -> Self {
        Self::by(move |_| Err(error.clone()))
    }

    pub(super) fn result_for(&self, argument: &A) -> Result<T> {
        (self.0)(argument)
    }
}

impl<A: ?Sized, T: Clone + Send + Sync + 'static> Answer<A, T> {
    /// Answers with the same value every time.
    pub fn ok(value: T) -> Self {
        Self::by(move |_| Ok(value.clone()))
    }

    /// Answers with the same result every time.
    pub fn always(result: Result<T>) -> Self {
        Self::by(move |_| result.clone())
    }

    /// Answers with these results one after the other, and then with the last one forever. Without results, the answer
    /// is an error.
    pub fn in_turn(results: impl IntoIterator<Item = Result<T>>) -> Self {
        let mut rest = results.into_iter().collect::<Vec<_>>().into_iter();
        let last = rest
            .next_back()
            .unwrap_or_else(|| Err(Error::other("this answer has no results")));
        let rest = Mutex::new(rest);
        Self::by(move |_| rest.lock().next().unwrap_or_else(|| last.clone()))
    }
}

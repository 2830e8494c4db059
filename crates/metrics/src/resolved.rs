//! Lock-free lookup of metrics by their labels.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// Maximum number of children. Series whose labels come from outside must stay bounded (MET-41).
const MOST: usize = 256;

/// Children of a metric, created once and looked up by key. A lookup takes no lock and copies nothing.
///
/// There are few children (queues, verbs, operations), so the search is linear.
pub(crate) struct Resolved<K, V>(ArcSwap<Vec<(K, Arc<V>)>>);

impl<K, V> Default for Resolved<K, V> {
    fn default() -> Self {
        Self(ArcSwap::default())
    }
}

impl<K: Clone, V> Resolved<K, V> {
    /// Returns the child whose key matches `is`, created by `make` if there is none. `make` must return the same child
    /// if two threads call it at the same time. Returns `None` if there are too many children.
    pub(crate) fn get(&self, is: impl Fn(&K) -> bool, make: impl Fn() -> (K, V)) -> Option<Arc<V>> {
        let find = |children: &[(K, Arc<V>)]| {
            children
                .iter()
                .find(|(key, _)| is(key))
                .map(|(_, child)| Arc::clone(child))
        };
        let known = self.0.load();
        if let Some(child) = find(&known) {
            return Some(child);
        }
        if known.len() >= MOST {
            return None;
        }
        let (key, child) = make();
        let child = Arc::new(child);
        let before = self.0.rcu(|children| match find(children) {
            Some(_) => Arc::clone(children),
            None => {
                let mut more = Vec::clone(children);
                more.push((key.clone(), Arc::clone(&child)));
                Arc::new(more)
            }
        });
        Some(find(&before).unwrap_or(child))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_made_once_and_their_number_is_bounded() {
        let children = Resolved::<usize, usize>::default();
        let made = std::cell::Cell::new(0);
        let get = |n: usize| {
            children.get(
                |key| *key == n,
                || {
                    made.set(made.get() + 1);
                    (n, n * 10)
                },
            )
        };
        assert_eq!(get(3).as_deref(), Some(&30));
        assert_eq!(get(3).as_deref(), Some(&30));
        assert_eq!(made.get(), 1);
        assert!((0..MOST).all(|n| get(n).is_some()));
        assert!(get(MOST).is_none() && get(3).is_some());
    }

    #[test]
    fn threads_that_meet_get_the_same_child() {
        let children = Resolved::<u8, std::sync::atomic::AtomicU32>::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for key in 0..50 {
                        let child = children.get(|children| *children == key, || (key, 0.into()));
                        child
                            .unwrap()
                            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        let counts: Vec<u32> = children
            .0
            .load()
            .iter()
            .map(|(_, n)| n.load(std::sync::atomic::Ordering::Relaxed))
            .collect();
        assert_eq!(counts, [8; 50]);
    }
}

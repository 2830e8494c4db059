//! Pod ranges, as kube-controller-manager allocates them.

/// The cluster's range, as in `--cluster-cidr`.
pub(super) const CLUSTER_CIDR: &str = "10.128.0.0/9";

/// Ranges of that size fit into it.
const RANGES: u32 = 1 << (24 - 9);

/// Hands out ranges of 256 addresses, each once.
#[derive(Debug, Default)]
pub(super) struct PodRanges {
    taken: u32,
}

impl PodRanges {
    /// The next one; `None` when all are taken.
    pub(super) fn take(&mut self) -> Option<String> {
        let number = self.taken;
        if number >= RANGES {
            return None;
        }
        self.taken += 1;
        Some(format!("10.{}.{}.0/24", 128 + number / 256, number % 256))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_differ_and_lie_in_the_cluster() {
        let mut ranges = PodRanges::default();
        let all: Vec<String> = std::iter::from_fn(|| ranges.take()).collect();
        assert_eq!((&*all[0], &*all[256], &*all[32_767]), ("10.128.0.0/24", "10.129.0.0/24", "10.255.255.0/24"));
        assert_eq!(all.len(), 32_768, "more than there may be Nodes");
    }
}

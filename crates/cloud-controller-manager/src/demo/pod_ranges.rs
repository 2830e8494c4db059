//! Pod CIDRs, allocated like those of kube-controller-manager.

/// Pod CIDR of the cluster, as in `--cluster-cidr`.
pub(super) const CLUSTER_CIDR: &str = "10.128.0.0/9";

/// Number of /24 CIDRs in the cluster's Pod CIDR.
const RANGES: u32 = 1 << (24 - 9);

/// An allocator of /24 CIDRs, each of which is returned once.
#[derive(Debug, Default)]
pub(super) struct PodRanges {
    taken: u32,
}

impl PodRanges {
    /// Returns the next CIDR; `None` if all are allocated.
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
        assert_eq!(
            (&*all[0], &*all[256], &*all[32_767]),
            ("10.128.0.0/24", "10.129.0.0/24", "10.255.255.0/24")
        );
        assert_eq!(all.len(), 32_768, "more than there may be Nodes");
    }
}

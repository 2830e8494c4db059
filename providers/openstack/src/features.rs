//! Features of Octavia, by its version and by the provider of load balancers.

/// Features of Octavia.
///
/// ```
/// use provider_openstack::features::Features;
///
/// let amphora = Features::of((2, 27), "amphora");
/// assert!(amphora.allowed_cidrs && amphora.additional_vips);
/// let ovn = Features::of((2, 27), "ovn");
/// assert!(ovn.tags && !ovn.allowed_cidrs && !ovn.http_monitors);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a feature of its own"
)]
pub struct Features {
    /// The latest version of its API.
    pub version: (u32, u32),
    /// If set, listeners have time-outs.
    pub timeouts: bool,
    /// If set, objects have tags.
    pub tags: bool,
    /// If set, load balancers have flavors.
    pub flavors: bool,
    /// If set, listeners have `allowed_cidrs`.
    pub allowed_cidrs: bool,
    /// If set, load balancers can be created in an availability zone.
    pub availability_zones: bool,
    /// If set, health monitors may use HTTP.
    pub http_monitors: bool,
    /// If set, members of UDP pools can be checked by HTTP, too.
    pub udp_http_monitors: bool,
    /// If set, a load balancer may have more than one VIP. Only set for the provider amphora, the only one known to
    /// send traffic of a second VIP to members of the other IP family.
    pub additional_vips: bool,
}

impl Features {
    /// Returns the features of a version with a provider (`lb-provider`).
    #[must_use]
    pub fn of(version: (u32, u32), provider: &str) -> Self {
        let is_ovn = provider == "ovn";
        let from = |minor: u32| version >= (2, minor);
        Self {
            version,
            timeouts: from(1) && !is_ovn,
            tags: from(5),
            flavors: from(6) && !is_ovn,
            allowed_cidrs: from(12) && !is_ovn,
            availability_zones: from(14) && !is_ovn,
            http_monitors: !is_ovn,
            udp_http_monitors: from(16) && !is_ovn,
            additional_vips: from(26) && ["amphora", "amphorav2", "octavia"].contains(&provider),
        }
    }

    /// Returns the latest of the versions that Octavia lists: `v2.27`.
    pub(crate) fn version<'a>(ids: impl Iterator<Item = &'a str>) -> Option<(u32, u32)> {
        let parse = |id: &str| {
            let (major, minor) = id
                .strip_prefix('v')?
                .split_once('.')
                .unwrap_or((id.strip_prefix('v')?, "0"));
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        ids.filter_map(parse).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_comes_with_its_version_and_not_with_ovn() {
        let second_vips = |minor, provider| Features::of((2, minor), provider).additional_vips;
        assert!(second_vips(26, "amphora") && second_vips(26, "octavia"));
        assert!(!second_vips(25, "amphora") && !second_vips(27, "ovn") && !second_vips(27, "f5"));
        let features = |minor, provider| {
            let object = Features::of((2, minor), provider);
            let all = [
                object.timeouts,
                object.tags,
                object.flavors,
                object.allowed_cidrs,
                object.availability_zones,
                object.udp_http_monitors,
            ];
            all.into_iter().filter(|has| *has).count()
        };
        let steps = [
            (0, 0),
            (1, 1),
            (5, 2),
            (6, 3),
            (12, 4),
            (14, 5),
            (16, 6),
            (27, 6),
        ];
        for (minor, count) in steps {
            assert_eq!(features(minor, "amphora"), count, "2.{minor}");
            assert_eq!(features(minor, "ovn"), usize::from(minor >= 5), "2.{minor}");
        }
    }

    #[test]
    fn the_latest_version_is_the_greatest_and_not_the_last_word() {
        assert_eq!(
            Features::version(["v2.0", "v2.27", "v2.9", "v1", "x"].into_iter()),
            Some((2, 27))
        );
        assert_eq!(Features::version(["latest"].into_iter()), None);
    }
}

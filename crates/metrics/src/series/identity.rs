//! Series about the build and its feature gates (MET-26).

use super::Presence::Start;
use super::Stability::Beta;
use super::{Series, table};

table!(IDENTITY {
    BUILD_INFO = Series::gauge("kubernetes_build_info")
        .by(&[
            "major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform",
        ])
        .is(Beta).from(Start)
        .help("Always 1; the labels have the version of the Kubernetes API that this process is built for.");
    FEATURES = Series::gauge("kubernetes_feature_enabled").by(&["name", "stage"]).is(Beta).from(Start)
        .help("1 if the feature gate is enabled, 0 if it is disabled.");
});

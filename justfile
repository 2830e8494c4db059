# What CI does, step by step. `just ci` is all of it.

# List the recipes.
default:
    @just --list

# The test command of README.md.
test:
    cargo test --workspace

# The case suites alone; add `CCM_EXTRA_CASES=DIR:DIR` for more files.
cases *FILTER:
    cargo test -p ccm-tests --test cases -- {{FILTER}}

# Create a provider from the template: `just new-provider NAME`, or `just new-provider NAME --crate DIR` for a crate of its own.
new-provider *ARGUMENTS:
    templates/new-provider {{ARGUMENTS}}

# Format.
fmt:
    cargo fmt --all

# Lints, as CI has them.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# Documentation without warnings.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# Dependency policy without the advisory database.
deny:
    cargo deny --all-features check bans licenses sources

# Known vulnerabilities and yanked versions of dependencies; `.ci/advisories/README.md` says where the database comes from.
advisories:
    .ci/advisories/test
    .ci/advisories/check

# The chart, the manifests and the alerts; helm must be there.
manifests:
    helm lint --strict deploy/helm/ccm-rs --set provider=hcloud,secret=hcloud,image.repository=registry.example.com/ccm
    deploy/render --check
    cargo test -p ccm-tests --test manifests
    deploy/alerts/test.sh

# The plain manifests, made anew from the chart.
render:
    deploy/render

# The artefacts of a release and their checks (docs/releasing.md): `just dist amd64,arm64` for both architectures.
dist ARCHITECTURES="amd64":
    .ci/dist dist {{ARCHITECTURES}}

# The demo: a cluster and a cloud in one process.
demo *FLAGS:
    cargo demo {{FLAGS}}

# The binary and the equal-answers suite against a real kube-apiserver, the one of `KUBECONFIG`. Only a test cluster.
real KUBECONFIG:
    CCM_TEST_KUBECONFIG={{KUBECONFIG}} cargo test -p ccm-tests --test equal_answers
    CCM_TEST_KUBECONFIG={{KUBECONFIG}} cargo test -p ccm-tests --test kube_apiserver -- --nocapture

# The scenarios on real software against the oldest supported Kubernetes, before a release; needs the test bed and Go.
oldest:
    .ci/kubernetes/versions v1.34.4

# The same against every supported version; the rows are those of the table in docs/kubernetes-versions.md.
kubernetes-versions:
    .ci/kubernetes/versions v1.34.4 v1.35.4 v1.36.3 v1.37.2

# The image and the chart on a Node with a real kubelet. As root; the binary is static.
cluster BINARY="target/x86_64-unknown-linux-musl/dist/cloud-controller-manager" *FILTER:
    .ci/node/test {{BINARY}} {{FILTER}}

# Seconds, memory and requests at scale, as JSON lines; with Services the phases are theirs.
scale NODES="5000" SERVICES="0":
    cargo bench -p ccm-tests --bench scale -- --nodes {{NODES}} --services {{SERVICES}}

# What the process itself costs: start, memory, size, scrape.
process:
    cargo bench -p ccm-tests --bench process

# The race on a real kube-apiserver with a fake cloud: `just race ../shared/bench/peer.sh --cloud digitalocean --peer OTHER-BINARY`.
race SCRIPT *FLAGS:
    cargo bench -p ccm-tests --bench race -- --script {{SCRIPT}} {{FLAGS}}

# Everything.
ci:
    .ci/run

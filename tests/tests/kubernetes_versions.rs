//! The range of supported Kubernetes versions: code, types, chart, pages and recipes name the same one.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use manager::flags::KUBERNETES_VERSION;
use runtime::kubernetes::{NEWEST, OLDEST, OLDEST_EXPECTED_TO_WORK};

/// Returns a file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Returns the minor version as users write it: `1.37`.
fn named((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

fn supported() -> Vec<String> {
    (OLDEST.1..=NEWEST.1)
        .map(|minor| named((NEWEST.0, minor)))
        .collect()
}

#[test]
fn range_is_the_newest_minor_version_and_the_three_before() {
    assert_eq!(OLDEST.0, NEWEST.0);
    assert_eq!(supported().len(), 4, "{:?}", supported());
    assert!(OLDEST_EXPECTED_TO_WORK < OLDEST);
}

#[test]
fn api_types_are_those_of_the_oldest_version() {
    let manifest = file("Cargo.toml");
    let line = manifest
        .lines()
        .find(|line| line.starts_with("k8s-openapi"))
        .unwrap();
    assert!(
        line.contains(&format!("features = [\"v{}_{}\"]", OLDEST.0, OLDEST.1)),
        "{line}"
    );
    assert!(
        file("docs/kubernetes-versions.md")
            .contains(&format!("the feature `v{}_{}`", OLDEST.0, OLDEST.1))
    );
}

#[test]
fn program_and_embedded_server_report_the_newest_version() {
    assert_eq!(KUBERNETES_VERSION, format!("v{}.0", named(NEWEST)));
    let embedded = embedded_apiserver::Options::default().version;
    assert!(
        embedded.starts_with(&format!("v{}.", named(NEWEST))),
        "{embedded}"
    );
}

#[test]
fn chart_refuses_what_does_not_work_and_warns_of_what_is_not_tested() {
    let chart = file("deploy/helm/ccm-rs/Chart.yaml");
    // The suffix admits versions of vendors and release candidates.
    let line = format!(
        "\nkubeVersion: \">= {}.0-0\"\n",
        named(OLDEST_EXPECTED_TO_WORK)
    );
    assert!(chart.contains(&line), "Chart.yaml lacks {line}:{chart}");
    let notes = file("deploy/helm/ccm-rs/templates/NOTES.txt");
    let condition = format!(
        "semverCompare \"< {}.0-0\" .Capabilities.KubeVersion.Version",
        named(OLDEST)
    );
    let text = format!(
        "The oldest supported version is {}; versions since {} are expected to work, but are not tested.",
        named(OLDEST),
        named(OLDEST_EXPECTED_TO_WORK)
    );
    assert!(
        notes.contains(&condition) && notes.contains(&text),
        "{notes}"
    );
    assert!(file("deploy/render").contains(&format!("--kube-version {}.0", named(OLDEST))));
}

#[test]
fn pages_name_the_range() {
    let range = format!("Kubernetes {} to {}", named(OLDEST), named(NEWEST));
    for page in ["README.md", "docs/kubernetes-versions.md"] {
        assert!(
            file(page).contains(&format!("ccm-rs supports {range}")),
            "{page} does not say: {range}"
        );
    }
    let range = format!(
        "supported versions of Kubernetes are {} to {}",
        named(OLDEST),
        named(NEWEST)
    );
    for page in ["SECURITY.md", "docs/deploy.md"] {
        assert!(file(page).contains(&range), "{page} does not say: {range}");
    }
    assert!(file("docs/doctor.md").contains(&format!("it is older than {},", named(OLDEST))));
    let coming = file("docs/what-is-coming.md");
    assert!(
        coming.contains(&format!("It was written for Kubernetes {},", named(NEWEST))),
        "the page is out of date"
    );
}

#[test]
fn scenarios_run_on_each_supported_version() {
    let page = file("docs/kubernetes-versions.md");
    let recipes = file("justfile");
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| version | kube_apiserver"))
        .skip(2);
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
    let tested: Vec<_> = rows
        .iter()
        .map(|row| row.split('|').nth(1).unwrap().trim())
        .collect();
    let minors: Vec<_> = tested
        .iter()
        .map(|text| text.rsplit_once('.').unwrap().0.to_owned())
        .collect();
    assert_eq!(
        minors,
        supported(),
        "the rows of docs/kubernetes-versions.md"
    );
    let all = tested
        .iter()
        .map(|text| format!(" v{text}"))
        .collect::<String>();
    for (recipe, versions) in [
        ("oldest", format!(" v{}", tested[0])),
        ("kubernetes-versions", all),
    ] {
        let text = format!("\n{recipe}:\n    .ci/kubernetes/versions{versions}\n");
        assert!(recipes.contains(&text), "the justfile lacks:{text}");
    }
}

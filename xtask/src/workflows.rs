//! Workflows of a public forge: they run scripts of this repository, and pin what they use.

use std::path::Path;

use clap::CommandFactory as _;
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns the workflows by their names.
fn workflows() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(Path::new(ROOT).join(".github/workflows")).unwrap();
    files
        .map(|file| {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                serde_saphyr::from_str(&text).unwrap(),
            )
        })
        .collect()
}

fn steps(workflow: &Value) -> Vec<&Value> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_array().unwrap())
        .collect()
}

/// Returns what is wrong with a script of a step: files that are no programs, and tasks that do not exist.
fn faults(script: &str) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let words: Vec<&str> = script.split_whitespace().collect();
    let is_program = |path: &str| {
        let file = Path::new(ROOT).join(path).metadata();
        file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let own_programs = words.iter().filter(|word| {
        [".ci/", "deploy/", "./"]
            .iter()
            .any(|start| word.starts_with(start))
    });
    let mut faults: Vec<_> = own_programs
        .filter(|path| !is_program(path))
        .map(|path| format!("{path} is no program"))
        .collect();
    for pair in words
        .windows(3)
        .filter(|pair| pair[..2] == ["cargo", "xtask"])
    {
        if crate::Arguments::command()
            .find_subcommand(pair[2])
            .is_none()
        {
            faults.push(format!("cargo xtask has no task {}", pair[2]));
        }
    }
    faults
}

#[test]
fn workflows_run_scripts_of_this_repository() {
    let workflows = workflows();
    assert_eq!(workflows.len(), 2);
    for (name, workflow) in &workflows {
        let scripts: Vec<_> = steps(workflow)
            .into_iter()
            .filter_map(|step| step["run"].as_str())
            .collect();
        assert!(
            scripts.iter().any(|script| script.contains(".ci/dist")),
            "{name}"
        );
        for script in scripts {
            assert_eq!(faults(script), [""; 0], "{name}");
        }
    }
    assert_eq!(
        faults("env X=1 .ci/none && cargo xtask fly"),
        [".ci/none is no program", "cargo xtask has no task fly"]
    );
}

#[test]
fn workflows_pin_actions_by_commit_and_have_few_permissions() {
    for (name, workflow) in workflows() {
        for action in steps(&workflow)
            .into_iter()
            .filter_map(|step| step["uses"].as_str())
        {
            let (_, commit) = action.split_once('@').unwrap();
            assert!(
                commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{name}: {action}"
            );
        }
        let default = workflow["permissions"].as_object().unwrap();
        assert!(
            default.values().all(|permission| permission == "read"),
            "{name}: {default:?}"
        );
        for job in workflow["jobs"].as_object().unwrap().values() {
            assert!(
                job["timeout-minutes"].is_u64(),
                "{name}: a job without a time limit"
            );
        }
    }
}

/// Runs git in a folder, as nobody in particular.
fn git(folder: &Path, words: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    git.arg("-C")
        .arg(folder)
        .args(["-c", "user.name=n", "-c", "user.email=e@example.com"])
        .args(words);
    let output = git.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes a checkout with the tag v1.2.3 and a folder that looks like its artefacts, and prints what the script would run.
/// A change is a text in the bill of materials and what replaces it.
fn publish(tag: &str, repository: &str, change: (&str, &str)) -> (bool, String) {
    let checkout = tempfile::tempdir().unwrap();
    git(checkout.path(), &["init", "--quiet"]);
    git(
        checkout.path(),
        &["commit", "--quiet", "--allow-empty", "-m", "first"],
    );
    git(checkout.path(), &["tag", "v1.2.3"]);
    let commit = git(checkout.path(), &["rev-parse", "HEAD"]);
    let changes =
        "# Changelog\n\n## 1.2.4 – x\n\nnewer\n\n## 1.2.3 – y\n\nthis\n\n## 1.2.2 – z\n\nolder\n";
    crate::write(&checkout.path().join("CHANGELOG.md"), changes).unwrap();

    let folder = checkout.path().join("dist");
    let write = |name: &str, text: &str| crate::write(&folder.join(name), text).unwrap();
    let digest = "0".repeat(64);
    write(
        "install/hcloud.yaml",
        &format!("image: \"registry.example.com/ccm@sha256:{digest}\"\n"),
    );
    for name in ["image.tar", "linux-amd64.tar.gz", "linux-arm64.tar.gz"] {
        write(&format!("cloud-controller-manager-1.2.3-{name}"), "");
    }
    let properties = [
        ("revision", &*commit),
        ("profile", "dist"),
        ("features", "clouds"),
    ]
    .map(|(name, value)| serde_json::json!({"name": format!("ccm-rs:{name}"), "value": value}));
    let bill = serde_json::to_string_pretty(&properties)
        .unwrap()
        .replace(change.0, change.1);
    write("cloud-controller-manager-1.2.3.cdx.json", &bill);
    write("ccm-rs-1.2.3.tgz", "");
    write("THIRD-PARTY-LICENSES", "");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    write("SHA256SUMS", &format!("{empty}  ccm-rs-1.2.3.tgz\n"));
    let mut command =
        std::process::Command::new(Path::new(ROOT).join(".ci/publish").canonicalize().unwrap());
    command
        .current_dir(&checkout)
        .args(["--print", "dist", tag])
        .env("CCM_IMAGE_REPOSITORY", repository);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

const UNCHANGED: (&str, &str) = ("dist", "dist");

#[test]
fn release_pushes_signs_and_attests_the_image_of_the_manifests() {
    let (ok, text) = publish("v1.2.3", "registry.example.com/ccm", UNCHANGED);
    assert!(ok, "{text}");
    let commands: Vec<_> = text
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        commands,
        [
            "skopeo copy",
            "cosign sign",
            "cosign attest",
            "cosign sign-blob",
            "gh release"
        ],
        "{text}"
    );
    for part in [
        "dist/install/hcloud.yaml",
        "docker://registry.example.com/ccm:1.2.3",
        "dist/SHA256SUMS.sigstore.json",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn release_of_another_version_or_repository_is_refused() {
    let (ok, text) = publish("v1.2.4", "registry.example.com/ccm", UNCHANGED);
    assert!(
        !ok && text.contains("the tag v1.2.4 is not the version of Cargo.toml"),
        "{text}"
    );
    let (ok, text) = publish("v1.2.3", "registry.example.com/other", UNCHANGED);
    assert!(
        !ok && text.contains("the manifests name registry.example.com/ccm@sha256:"),
        "{text}"
    );
}

#[test]
fn artefacts_that_are_not_those_of_the_tag_are_not_released() {
    for (change, says) in [
        (
            ("\"dist\"", "\"release\""),
            "the artefacts have the profile release, not dist",
        ),
        (
            ("\"clouds\"", "\"hcloud\""),
            "the artefacts have the features hcloud, not clouds",
        ),
        (
            (
                "revision\",\n    \"value\": \"",
                "revision\",\n    \"value\": \"x",
            ),
            "the artefacts are of commit x",
        ),
    ] {
        let (ok, text) = publish("v1.2.3", "registry.example.com/ccm", change);
        assert!(!ok && text.contains(says), "{text} lacks {says}");
    }
}

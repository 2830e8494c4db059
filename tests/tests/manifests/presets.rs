//! The chart with two values: the preset of each cloud, and values of users over it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::documents::deploy;
use crate::helm::Helm;
use crate::pods::{credentials_are_files, parse, pods, waits_for_nothing};

/// A preset, as far as tests and the README of the chart read it. Directives of Helm are comments of its file.
#[derive(Deserialize)]
pub(crate) struct Preset {
    pub(crate) title: String,
    pub(crate) page: String,
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    pub(crate) secret: Option<Secret>,
    #[serde(default)]
    pub(crate) needs: Vec<Need>,
    pub(crate) routes: Option<String>,
    #[serde(default)]
    pub(crate) values: Map<String, Value>,
}

/// The Secret that a preset mounts.
#[derive(Deserialize)]
pub(crate) struct Secret {
    #[serde(default)]
    pub(crate) required: bool,
    pub(crate) keys: Vec<Key>,
    pub(crate) create: String,
}

/// A key of the Secret of a preset.
#[derive(Deserialize)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) meaning: String,
    #[serde(default)]
    pub(crate) optional: bool,
}

/// An environment variable that the user of a preset must set.
#[derive(Deserialize)]
pub(crate) struct Need {
    pub(crate) env: String,
    pub(crate) meaning: String,
}

/// Returns the presets of the chart by name.
pub(crate) fn presets() -> Result<BTreeMap<String, Preset>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(deploy().join("helm/ccm-rs/presets"))? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .context("a preset without a name")?
            .to_string_lossy()
            .into_owned();
        let preset = serde_saphyr::from_str(&std::fs::read_to_string(&path)?);
        found.insert(
            name.clone(),
            preset.with_context(|| format!("presets/{name}.yaml"))?,
        );
    }
    Ok(found)
}

/// Returns the names of the providers in this repository: the constant `NAME` of each crate.
fn providers() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(deploy().join("../providers"))? {
        let source = entry?.path().join("src");
        for file in ["lib.rs", "provider/mod.rs"] {
            let text = std::fs::read_to_string(source.join(file)).unwrap_or_default();
            let name = text
                .lines()
                .find_map(|line| line.strip_prefix("pub const NAME: &str = \""));
            names.extend(
                name.and_then(|rest| rest.strip_suffix("\";"))
                    .map(str::to_owned),
            );
        }
    }
    ensure!(names.len() > 14, "the test itself finds only {names:?}");
    Ok(names)
}

pub(crate) fn the_chart_has_a_preset_for_each_provider() -> Result<()> {
    let presets = presets()?;
    let names = presets.keys().cloned().collect::<BTreeSet<_>>();
    let providers = providers()?;
    ensure!(
        names == providers,
        "presets {names:?}, providers {providers:?}"
    );
    for (name, preset) in &presets {
        ensure!(
            deploy().join("..").join(&preset.page).is_file(),
            "presets/{name}.yaml: {} is no page",
            preset.page
        );
        let words = preset
            .secret
            .iter()
            .flat_map(|secret| &secret.keys)
            .map(|key| (&key.name, &key.meaning));
        for (key, meaning) in words {
            ensure!(
                meaning.ends_with('.'),
                "presets/{name}.yaml: key {key}: {meaning:?} is no sentence"
            );
        }
        // Other values cannot be told from defaults of values.yaml.
        for value in preset.values.keys() {
            let known = [
                "controllers",
                "cloudConfig",
                "kind",
                "replicas",
                "controlPlaneOnly",
                "tolerations",
                "rbac",
            ];
            let is_list = value.starts_with("extra");
            ensure!(
                is_list || known.contains(&value.as_str()),
                "presets/{name}.yaml sets {value}, which has a default"
            );
        }
    }
    Ok(())
}

/// Returns the values that are enough for a cloud.
fn enough(name: &str, preset: &Preset) -> Map<String, Value> {
    let mut values = Map::from_iter([("provider".to_owned(), json!(name))]);
    if preset.secret.is_some() {
        values.insert("secret".to_owned(), json!("credential"));
    }
    if !preset.needs.is_empty() {
        let env = preset
            .needs
            .iter()
            .map(|need| (need.env.clone(), json!("192.0.2.64/26")))
            .collect::<Map<_, _>>();
        values.insert("env".to_owned(), Value::Object(env));
    }
    values
}

pub(crate) fn each_cloud_installs_from_the_package_with_two_values(helm: &Helm) -> Result<()> {
    let package = helm.package()?;
    for (name, preset) in presets()? {
        let values = enough(&name, &preset);
        let text = helm
            .rendered(package.path(), &values)
            .with_context(|| name.clone())?;
        let documents = crate::documents::parse(&text)?;
        let [(_, _, pod)] = pods(&documents)[..] else {
            bail!("{name}: not one Pod")
        };
        waits_for_nothing(&name, pod)?;
        credentials_are_files(&name, pod)?;
        parse(&name, pod)?;
        let arguments = pod["spec"]["containers"][0]["args"].to_string();
        ensure!(
            arguments.contains(&format!("--cloud-provider={name}\"")),
            "{name}: {arguments}"
        );
        let is_used = pod.to_string().contains("\"credential\"");
        ensure!(
            is_used == preset.secret.is_some(),
            "{name}: the Secret is in the Pod: {is_used}"
        );

        // The former name of the value means the same.
        let mut former = values.clone();
        let provider = former.remove("provider").unwrap_or_default();
        former.insert("cloudProvider".to_owned(), provider);
        ensure!(
            helm.rendered(package.path(), &former)? == text,
            "{name}: cloudProvider is not provider"
        );
    }
    Ok(())
}

pub(crate) fn the_notes_say_how_to_see_that_it_works_and_how_to_uninstall(
    helm: &Helm,
) -> Result<()> {
    for (name, preset) in presets()? {
        let notes = helm
            .notes(&enough(&name, &preset))
            .with_context(|| name.clone())?;
        let doctor = format!("-- /cloud-controller-manager doctor --cloud-provider={name}");
        for part in [
            &doctor,
            &preset.title,
            "rollout status",
            "BEFORE YOU UNINSTALL",
            "spec.type=LoadBalancer",
        ] {
            ensure!(
                notes.contains(part),
                "{name}: the notes lack {part:?}:\n{notes}"
            );
        }
        // Without a cluster nobody knows what is missing.
        ensure!(!notes.contains("WHAT IS MISSING"), "{name}:\n{notes}");
    }
    let simulated = |more: Value| {
        let mut values = Map::from_iter([("provider".to_owned(), json!("simulated"))]);
        values.extend(more.as_object().cloned().unwrap_or_default());
        helm.notes(&values)
    };
    for (values, part) in [
        (
            json!({"clusterCIDR": "10.244.0.0/16"}),
            "routes        for the Pods in 10.244.0.0/16",
        ),
        (
            json!({"controllers": {"route": false}}),
            "none: controllers.route is false",
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            "tolerations lack node.cloudprovider",
        ),
        (
            json!({"serviceMonitor": {"enabled": true}}),
            "metrics.scrapers is empty",
        ),
        (
            json!({"prometheusRule": {"enabled": true}}),
            "prometheusRule.runbookUrl is empty",
        ),
        (
            json!({"cloudConfig": {"configMapName": "c"}}),
            "/etc/cloud/cloud.conf, from ConfigMap c",
        ),
    ] {
        let notes = simulated(values.clone())?;
        ensure!(
            notes.contains(part),
            "{values}: the notes lack {part:?}:\n{notes}"
        );
    }
    Ok(())
}

/// A values file, and what the chart makes of it. See chart.yaml.
#[derive(Deserialize)]
struct Case {
    name: String,
    values: Map<String, Value>,
    /// JSON pointers into the template of the Pod, and what is there; null: nothing.
    #[serde(default)]
    pod: BTreeMap<String, Value>,
    /// Arguments that the container has.
    #[serde(default)]
    args: Vec<String>,
    /// Flags that the container does not have.
    #[serde(default)]
    without: Vec<String>,
    /// Parts of the whole output.
    #[serde(default)]
    text: Vec<String>,
    /// Name and namespace of the release, if they are not the usual ones.
    release: Option<String>,
    namespace: Option<String>,
    /// Parts of the error, if the values are refused.
    #[serde(default)]
    refused: Vec<String>,
}

pub(crate) fn values_files_have_the_effect_that_the_table_says(helm: &Helm) -> Result<()> {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests/chart.yaml");
    let cases: Vec<Case> =
        serde_saphyr::from_str(&std::fs::read_to_string(table)?).context("chart.yaml")?;
    ensure!(cases.len() > 40, "{} cases", cases.len());
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|case| check(helm, case).err().map(|error| (case, error)))
        .collect();
    let wrong: Vec<_> = wrong
        .iter()
        .map(|(case, error)| format!("{}: {error:#}", case.name))
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn check(helm: &Helm, case: &Case) -> Result<()> {
    let release = (
        case.release.as_deref().unwrap_or("ccm"),
        case.namespace.as_deref().unwrap_or("kube-system"),
    );
    let text = helm.rendered_as(release, &deploy().join("helm/ccm-rs"), &case.values);
    if !case.refused.is_empty() {
        let Err(error) = text else {
            bail!("the values are accepted")
        };
        let missing: Vec<_> = case
            .refused
            .iter()
            .filter(|part| !error.to_string().contains(*part))
            .collect();
        ensure!(missing.is_empty(), "the error lacks {missing:?}: {error}");
        return Ok(());
    }
    let text = text?;
    for part in &case.text {
        ensure!(text.contains(part), "the output lacks {part:?}");
    }
    let documents = crate::documents::parse(&text)?;
    let [(_, _, pod)] = pods(&documents)[..] else {
        bail!("not one Pod")
    };
    let container = &pod["spec"]["containers"][0];
    for (pointer, wanted) in &case.pod {
        let got = pod.pointer(pointer).unwrap_or(&Value::Null);
        ensure!(got == wanted, "{pointer} is {got}, not {wanted}");
    }
    let args: Vec<&str> = container["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for wanted in &case.args {
        ensure!(
            args.contains(&wanted.as_str()),
            "{wanted} is not in {args:?}"
        );
    }
    for flag in &case.without {
        ensure!(
            !args.iter().any(|arg| arg.split('=').next() == Some(flag)),
            "{flag} is in {args:?}"
        );
    }
    Ok(())
}

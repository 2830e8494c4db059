//! Values that a values file leaves empty: Helm removes the default of a value that is null.

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::documents::deploy;
use crate::helm::Helm;

/// Adds the paths of all values with a default. Below `resources` and `labels`, null removes a default on purpose.
fn paths(values: &Map<String, Value>, above: &[String], found: &mut Vec<Vec<String>>) {
    for (name, value) in values.iter().filter(|(_, value)| !value.is_null()) {
        let path = [above, std::slice::from_ref(name)].concat();
        if let Some(children) = value
            .as_object()
            .filter(|_| !["resources", "labels"].contains(&name.as_str()))
        {
            paths(children, &path, found);
        }
        found.push(path);
    }
}

pub(crate) fn a_value_that_is_left_empty_has_its_default(helm: &Helm) -> Result<()> {
    let chart = deploy().join("helm/ccm-rs");
    let defaults: Map<String, Value> =
        serde_saphyr::from_str(&std::fs::read_to_string(chart.join("values.yaml"))?)?;
    let mut all = Vec::new();
    paths(&defaults, &[], &mut all);
    ensure!(
        all.len() > 60,
        "the test itself finds {} values with a default",
        all.len()
    );
    let usual = Map::from_iter([("provider".to_owned(), json!("aws"))]);
    let wanted = helm.rendered(&chart, &usual)?;
    for path in all
        .iter()
        .filter(|path| *path != &["provider"] && *path != &["image", "repository"])
    {
        let mut values = usual.clone();
        let empty = path
            .iter()
            .rev()
            .fold(Value::Null, |value, name| json!({ name: value }));
        values.extend(empty.as_object().cloned().unwrap_or_default());
        // The test sets the repository of the image only where the values have no `image`.
        if path[0] == "image" && path.len() > 1 {
            values["image"]["repository"] = json!("registry.example.com/cloud-controller-manager");
        }
        let path = path.join(".");
        let text = if path == "image" {
            continue;
        } else {
            helm.rendered(&chart, &values)
        };
        ensure!(
            text.with_context(|| path.clone())? == wanted,
            "{path}: null is not its default"
        );
    }
    Ok(())
}

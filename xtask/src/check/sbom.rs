//! The bill of materials: well formed, closed, and with a licence text for each component.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{ok, skip};
use crate::dist::{LICENCES, sbom_name};
use crate::project::Project;
use crate::{program, read_text};

/// Variable with the Python that has the validator of CycloneDX: `.ci/dist` installs it.
const PYTHON: &str = "CCM_SBOM_PYTHON";
/// Validation against the published schema of CycloneDX.
const VALIDATOR: &str = "import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
sys.exit(str(error)[:2000] if error else 0)";

/// Returns the features of the program, which are among the properties of the document.
pub(super) fn features(project: &Project, folder: &Path) -> Result<String> {
    let document = read(project, folder)?;
    let properties = document["metadata"]["properties"]
        .as_array()
        .into_iter()
        .flatten();
    let mut features = properties.filter(|property| property["name"] == "ccm-rs:features");
    let value = features
        .next()
        .and_then(|property| property["value"].as_str());
    Ok(value
        .context("the bill of materials has no property ccm-rs:features")?
        .to_owned())
}

fn read(project: &Project, folder: &Path) -> Result<Value> {
    let path = folder.join(sbom_name(&project.version));
    serde_json::from_str(&read_text(&path)?)
        .with_context(|| format!("cannot parse {}", path.display()))
}

/// Checks the document, and compares it with the licences.
pub(super) fn check(project: &Project, folder: &Path) -> Result<()> {
    let path = folder.join(sbom_name(&project.version));
    let document = read(project, folder)?;
    let components = document["components"]
        .as_array()
        .context("the bill of materials has no components")?;
    consistent(&document, &read_text(&folder.join(LICENCES))?)?;
    ok(&format!(
        "the bill of materials has {} components, and each from outside has its licence",
        components.len()
    ));
    let Some(python) = std::env::var_os(PYTHON).filter(|python| !python.is_empty()) else {
        return skip(&format!(
            "the bill of materials is not validated: {PYTHON} names no Python with cyclonedx-python-lib"
        ));
    };
    program::output(Command::new(python).args(["-c", VALIDATOR]).arg(&path))?;
    ok("the bill of materials is valid CycloneDX 1.5");
    Ok(())
}

/// Fails unless references are unique and known, and each crate from outside has a sum and a licence text.
fn consistent(document: &Value, licences: &str) -> Result<()> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let titles: BTreeSet<&str> = licences.lines().collect();
    let mut known = BTreeSet::from([text(&document["metadata"]["component"], "bom-ref")]);
    for component in list(&document["components"]) {
        let reference = text(&component, "bom-ref");
        ensure!(
            known.insert(reference.clone()),
            "the component {reference} is listed twice"
        );
        let licence = text(&component["licenses"][0], "expression");
        ensure!(
            !licence.is_empty(),
            "the component {reference} has no licence"
        );
        if component["purl"].is_string() {
            let sum = text(&component["hashes"][0], "content");
            ensure!(
                sum.len() == 64,
                "the component {reference} has no SHA-256 sum"
            );
            let title = format!(
                "{} {} ({licence})",
                text(&component, "name"),
                text(&component, "version")
            );
            ensure!(
                titles.contains(title.as_str()),
                "{LICENCES} has no text for {title}"
            );
        }
    }
    for dependency in list(&document["dependencies"]) {
        let references = list(&dependency["dependsOn"]);
        for reference in references
            .iter()
            .chain([&dependency["ref"]])
            .filter_map(Value::as_str)
        {
            ensure!(
                known.contains(reference),
                "the dependency {reference} is no component"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn component_without_a_licence_text_or_an_unknown_dependency_is_found() {
        let component = json!({"bom-ref": "r", "name": "a", "version": "1.0.0", "purl": "r",
            "licenses": [{"expression": "MIT"}], "hashes": [{"alg": "SHA-256", "content": "0".repeat(64)}]});
        let document = |on: &str| {
            json!({"metadata": {"component": {"bom-ref": "app"}}, "components": [component],
                "dependencies": [{"ref": "app", "dependsOn": [on]}]})
        };
        consistent(&document("r"), "a 1.0.0 (MIT)\n").unwrap();
        let error =
            |on: &str, licences: &str| consistent(&document(on), licences).unwrap_err().to_string();
        assert_eq!(
            error("r", "a 1.0.1 (MIT)\n"),
            "THIRD-PARTY-LICENSES has no text for a 1.0.0 (MIT)"
        );
        assert_eq!(
            error("s", "a 1.0.0 (MIT)\n"),
            "the dependency s is no component"
        );
    }
}

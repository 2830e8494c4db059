//! The tables of the specification, as data.

use ccm_tests::exposition::Family;
use serde::Deserialize;

/// A row of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) section: u32,
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) labels: Vec<String>,
    pub(crate) buckets: Buckets,
    pub(crate) stability: String,
    pub(crate) presence: Presence,
    pub(crate) priority: Priority,
    /// Reason for which the program lacks the series.
    pub(crate) lacking: Option<String>,
}

/// The specification's bounds, or that it names none.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Buckets {
    Bounds(Vec<f64>),
    Any(Any),
}

/// The word `any` in a field.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Any {
    Any,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Presence {
    Start,
    Leader,
    Use,
    Any,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Priority {
    Must,
    Should,
    Opt,
    No,
}

/// Returns the rows of the table.
pub(crate) fn rows() -> Vec<Row> {
    serde_saphyr::from_str(include_str!("table.yaml")).unwrap()
}

impl Row {
    /// Returns the name, with the provider's in it.
    pub(crate) fn name(&self, provider: &str) -> String {
        self.name.replace("<provider>", provider)
    }

    /// Returns `true` if a row that stands for several names, by a `*` at its end, includes this one.
    pub(crate) fn is_family(&self, name: &str) -> bool {
        self.name
            .strip_suffix('*')
            .is_some_and(|prefix| name.starts_with(prefix))
    }

    /// Returns the differences between the row and the exposition.
    pub(crate) fn faults(&self, shown: Option<&Family>) -> Vec<String> {
        let Some(shown) = shown else {
            return vec![format!("{}: not shown", self.name)];
        };
        let mut faults = Vec::new();
        let mut fault = |what: String| faults.push(format!("{}: {what}", self.name));
        if shown.kind != self.kind {
            fault(format!("type {}, not {}", shown.kind, self.kind));
        }
        let prefix = if self.stability == "none" {
            String::new()
        } else {
            format!("[{}] ", self.stability)
        };
        if !shown.help.starts_with(&prefix) || (prefix.is_empty() && shown.help.starts_with('[')) {
            fault(format!("help {:?}, not {prefix:?}", shown.help));
        }
        if shown.samples.is_empty() {
            fault("no sample".to_owned());
        }
        for sample in &shown.samples {
            let mut expected: Vec<&str> = self.labels.iter().map(String::as_str).collect();
            let labels: Vec<&str> = sample.labels.keys().map(String::as_str).collect();
            if sample.name.ends_with("_bucket") {
                expected.push("le");
            }
            // `ccm_build_info{version,revision,…}` may have further labels.
            let open = self.name == "ccm_build_info";
            if expected.iter().any(|label| !labels.contains(label))
                || (!open && labels.len() != expected.len())
            {
                fault(format!("labels {labels:?}, not {expected:?}"));
            }
        }
        faults.extend(self.bucket_faults(shown));
        faults
    }

    fn bucket_faults(&self, shown: &Family) -> Option<String> {
        let Buckets::Bounds(expected) = &self.buckets else {
            return None;
        };
        let first = shown.samples.first()?;
        let others = |labels: &std::collections::BTreeMap<String, String>| {
            let mut labels = labels.clone();
            labels.remove("le");
            labels
        };
        let of_first = shown
            .samples
            .iter()
            .filter(|sample| others(&sample.labels) == others(&first.labels));
        let mut bounds: Vec<f64> = of_first
            .filter_map(|sample| sample.labels.get("le"))
            .filter(|bound| *bound != "+Inf")
            .map(|bound| bound.parse().unwrap())
            .collect();
        bounds.sort_by(f64::total_cmp);
        (bounds != *expected).then(|| format!("{}: bounds {bounds:?}, not {expected:?}", self.name))
    }
}

//! Recording of the series that a Prometheus which scrapes two replicas stores, in the notation of `promtool test
//! rules`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ccm_tests::exposition::{Sample, parse};

use crate::scenarios::{SCRAPES_PER_MINUTE, Scenario};

const JOB: &str = "cloud-controller-manager";

/// Series by name and labels, with a value for each scrape.
#[derive(Default)]
pub(crate) struct Recording {
    series: BTreeMap<String, Vec<Value>>,
    scrapes: usize,
    /// The text of the rules: series that it does not name are not stored.
    rules: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Value {
    Number(f64),
    Missing,
    /// The series was present at the last scrape and is no longer, which Prometheus marks as stale.
    Gone,
}

impl Recording {
    pub(crate) fn for_rules(rules: &str) -> Self {
        Self {
            rules: rules.to_owned(),
            ..Self::default()
        }
    }

    /// Records one round of scrapes; a replica that is down has no response.
    pub(crate) fn scrape<'a>(
        &mut self,
        replicas: impl IntoIterator<Item = (&'a str, Option<Vec<String>>)>,
    ) {
        for (instance, texts) in replicas {
            let up = f64::from(u8::from(texts.is_some()));
            self.store(
                &Sample {
                    name: "up".to_owned(),
                    labels: BTreeMap::new(),
                    value: up,
                },
                instance,
            );
            for family in texts
                .into_iter()
                .flatten()
                .flat_map(|text| parse(&text).into_values())
            {
                for sample in family.samples {
                    if self.is_named(&sample.name) {
                        self.store(&sample, instance);
                    }
                }
            }
        }
        self.scrapes += 1;
        let scrapes = self.scrapes;
        for values in self
            .series
            .values_mut()
            .filter(|values| values.len() < scrapes)
        {
            let was_there = matches!(values.last(), Some(Value::Number(_)));
            values.push(if was_there {
                Value::Gone
            } else {
                Value::Missing
            });
        }
    }

    fn is_named(&self, name: &str) -> bool {
        self.rules.contains(name) || name.starts_with("cloudprovider_")
    }

    fn store(&mut self, sample: &Sample, instance: &str) {
        let mut labels = sample.labels.clone();
        labels.insert("job".to_owned(), JOB.to_owned());
        labels.insert("instance".to_owned(), instance.to_owned());
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}={value:?}"))
            .collect();
        let key = format!("{}{{{}}}", sample.name, labels.join(","));
        let scrapes = self.scrapes;
        let values = self
            .series
            .entry(key)
            .or_insert_with(|| vec![Value::Missing; scrapes]);
        assert_eq!(values.len(), scrapes, "{} twice in one scrape", sample.name);
        values.push(Value::Number(sample.value));
    }

    /// Returns the file for `promtool test rules`: at each of the scenario's minutes exactly its alerts fire.
    pub(crate) fn test_file(&self, rules: &str, scenario: &Scenario) -> String {
        let interval = 60 / SCRAPES_PER_MINUTE;
        let mut out = format!(
            "rule_files: [{rules:?}]\nevaluation_interval: 1m\ntests:\n- name: {}\n  interval: {interval}s\n  input_series:\n",
            scenario.name
        );
        // Writing to a string cannot fail.
        for (series, values) in &self.series {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            _ = writeln!(
                out,
                "  - series: '{series}'\n    values: '{}'",
                values.join(" ")
            );
        }
        out.push_str("  promql_expr_test:\n");
        for (minute, alerts) in scenario.firing {
            let expr = "max by (alertname) (ALERTS{alertstate=\"firing\"})";
            _ = write!(
                out,
                "  - expr: '{expr}'\n    eval_time: {minute}m\n    exp_samples:"
            );
            out.push_str(if alerts.is_empty() { " []\n" } else { "\n" });
            for alert in *alerts {
                _ = writeln!(
                    out,
                    "    - {{labels: '{{alertname=\"{alert}\"}}', value: 1}}"
                );
            }
        }
        out
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Missing => f.write_str("_"),
            Self::Gone => f.write_str("stale"),
        }
    }
}

//! The text format of metrics, read back.

use std::collections::BTreeMap;

/// A series as it was shown: its head and its samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// Text after `# HELP`.
    pub help: String,
    /// Text after `# TYPE`.
    pub kind: String,
    /// In the order in which they were shown.
    pub samples: Vec<Sample>,
}

/// A sample line of the exposition.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name of the sample; that of a histogram's sample has a suffix.
    pub name: String,
    /// Labels of the sample, with their values unescaped.
    pub labels: BTreeMap<String, String>,
    /// Value of the sample.
    pub value: f64,
}

/// Reads what a scrape answered.
///
/// # Panics
/// With the line that is not in the format, or stands where it may not.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            let fresh = families.insert(
                name.to_owned(),
                Family {
                    help: help.to_owned(),
                    ..Family::default()
                },
            );
            assert!(fresh.is_none(), "shown twice: {line}");
            name.clone_into(&mut current);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert_eq!(name, current, "{line}");
            families.get_mut(name).expect(line).kind = kind.to_owned();
        } else {
            let sample = parse_sample(line);
            let family = families.get_mut(&current).expect(line);
            let ending = sample.name.strip_prefix(&*current).expect(line);
            let allowed: &[&str] = if family.kind == "histogram" {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            assert!(allowed.contains(&ending), "{line}");
            family.samples.push(sample);
        }
    }
    families
}

fn parse_sample(line: &str) -> Sample {
    let (head, value) = line.rsplit_once(' ').expect(line);
    let value = match value {
        "+Inf" => f64::INFINITY,
        number => number.parse().expect(line),
    };
    let (name, labels) = match head.split_once('{') {
        Some((name, rest)) => (name, parse_labels(rest.strip_suffix('}').expect(line))),
        None => (head, BTreeMap::new()),
    };
    Sample {
        name: name.to_owned(),
        labels,
        value,
    }
}

fn parse_labels(mut text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect(text);
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().expect("a closing quote") {
                (at, '"') => break at,
                (_, '\\') => match chars.next().expect("an escaped character").1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.to_owned(), value);
        text = rest[end + 1..]
            .strip_prefix(',')
            .unwrap_or(&rest[end + 1..]);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_read_back() {
        let text = "# HELP a_seconds [ALPHA] Time.\n# TYPE a_seconds histogram\n\
                    a_seconds_bucket{x=\"q\\\"},\\n\",le=\"+Inf\"} 2\na_seconds_sum{x=\"q\"} 1e-08\n\
                    # HELP b B.\n# TYPE b gauge\nb +Inf\n";
        let families = parse(text);
        let first = &families["a_seconds"].samples[0];
        assert_eq!(
            (
                first.labels["x"].as_str(),
                first.labels["le"].as_str(),
                first.value
            ),
            ("q\"},\n", "+Inf", 2.0)
        );
        assert!(families["b"].samples[0].value.is_infinite());
    }
}

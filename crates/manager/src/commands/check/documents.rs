//! The documents of a YAML file, and the objects in them.

use serde_json::Value;

use super::places::Places;

/// A document of a YAML file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// Number of the document in the file, starting at 1.
    pub(super) index: usize,
    /// Lines of the document.
    lines: Vec<&'a str>,
    /// Number of the document's first line in the file, starting at 1.
    first: usize,
}

/// An object of the Kubernetes API.
pub(super) struct Object {
    /// If set, the object is a Service of the core API group.
    pub(super) is_service: bool,
    /// Namespace, if the object has one, and name.
    pub(super) name: String,
    pub(super) value: Value,
}

/// Splits a file into its documents. Documents without content are left out, but counted.
pub(super) fn split(text: &str) -> Vec<Document<'_>> {
    let mut documents: Vec<Document<'_>> = vec![Document {
        index: 1,
        lines: Vec::new(),
        first: 1,
    }];
    let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    for (number, line) in lines.enumerate().map(|(index, line)| (index + 1, line)) {
        // A line of a scalar never begins like this, not even in a block, which is indented.
        let content = line
            .strip_prefix("---")
            .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        let Some(current) = documents.last_mut() else {
            break;
        };
        match content {
            Some(_) if current.is_empty() && current.index == 1 => {
                (current.lines, current.first) = (vec![content.unwrap_or_default()], number);
            }
            Some(rest) => {
                let index = current.index + 1;
                documents.push(Document {
                    index,
                    lines: vec![rest],
                    first: number,
                });
            }
            None if line.trim_end() == "..." => {}
            None => current.lines.push(line),
        }
    }
    documents.retain(|document| !document.is_empty());
    documents
}

impl<'a> Document<'a> {
    /// Returns `true` if the document has only comments and directives.
    fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| {
            line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with('%')
        })
    }

    /// Parses the objects: the document itself, or the items of a list.
    ///
    /// # Errors
    /// The document is not valid YAML.
    pub(super) fn objects(&self) -> Result<Vec<Object>, String> {
        let value: Value = serde_saphyr::from_str(&self.lines.join("\n")).map_err(|err| {
            // Only the position: the parser's message may quote a Secret.
            let place = err
                .location()
                .map(|at| self.first + usize::try_from(at.line()).unwrap_or_default() - 1);
            format!("no valid YAML in line {}", place.unwrap_or(self.first))
        })?;
        let mut objects = Vec::new();
        flatten(value, &mut objects);
        Ok(objects)
    }

    /// Returns the lookup of line numbers for this document's objects.
    pub(super) fn places(&self) -> Places<'a> {
        Places::new(self.lines.clone(), self.first)
    }
}

/// Collects the object, or the items of a list.
fn flatten(value: Value, objects: &mut Vec<Object>) {
    let text = |pointer: &str| {
        value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let kind = text("/kind");
    let is_service = kind == "Service" && ["", "v1"].contains(&&*text("/apiVersion"));
    let names = ["/metadata/name", "/metadata/generateName"].map(text);
    let name = names
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "without a name".to_owned());
    let namespace = text("/metadata/namespace");
    let name = if namespace.is_empty() {
        name
    } else {
        format!("{namespace}/{name}")
    };
    match value {
        Value::Object(mut list) if kind.ends_with("List") => {
            let item_kind = kind.strip_suffix("List").unwrap_or_default();
            let Some(Value::Array(items)) = list.remove("items") else {
                return;
            };
            for mut item in items {
                // The items of a typed list need not repeat their kind.
                if let (Some(item), false) = (item.as_object_mut(), item_kind.is_empty()) {
                    item.entry("kind").or_insert_with(|| item_kind.into());
                }
                flatten(item, objects);
            }
        }
        value => objects.push(Object {
            is_service,
            name,
            value,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Vec<(usize, usize)> {
        split(text)
            .iter()
            .map(|document| (document.index, document.first))
            .collect()
    }

    #[test]
    fn documents_know_their_number_and_their_first_line() {
        let table: [(&str, &[(usize, usize)]); 7] = [
            ("kind: A\n", &[(1, 1)]),
            ("---\nkind: A\n---\nkind: B\n", &[(1, 1), (2, 3)]),
            ("# a comment\n---\nkind: A\n", &[(1, 2)]),
            (
                "kind: A\n---\n# nothing\n--- # more\nkind: B\n...\n",
                &[(1, 1), (3, 4)],
            ),
            ("%YAML 1.2\n--- {kind: A}\n", &[(1, 2)]),
            (
                "kind: A\ndata:\n  text: |\n    --- no document\n----\n",
                &[(1, 1)],
            ),
            ("\n\n", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(shapes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lists_are_flattened_and_other_texts_are_no_services() {
        let named = |text: &str| {
            let objects = split(text).remove(0).objects();
            let shown = |object: &Object| {
                format!(
                    "{}{}",
                    if object.is_service { "Service " } else { "" },
                    object.name
                )
            };
            objects.map(|all| all.iter().map(shown).collect::<Vec<_>>().join(", "))
        };
        let ok = |text: &str| Ok(text.to_owned());
        let error = |text: &str| Err(text.to_owned());
        assert_eq!(
            named("{kind: Service, metadata: {name: a, namespace: b}}"),
            ok("Service b/a")
        );
        assert_eq!(
            named(
                "kind: List\nitems:\n- {kind: Pod, metadata: {name: a}}\n- {kind: List, items: [{kind: Service}]}\n"
            ),
            ok("a, Service without a name")
        );
        assert_eq!(
            named("kind: ServiceList\nitems:\n- metadata: {name: a}\n"),
            ok("Service a")
        );
        assert_eq!(named("kind: List\n"), ok(""));
        assert_eq!(
            named("\n\nkind: [s3cret\n"),
            error("no valid YAML in line 3")
        );
        assert_eq!(
            named("{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}"),
            ok("a")
        );
        assert_eq!(named("a: b"), ok("without a name"));
        assert_eq!(named("- kind: Service"), ok("without a name"));
    }
}

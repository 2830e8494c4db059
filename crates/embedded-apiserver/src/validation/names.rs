//! The forms of names, labels and annotations, with the real server's wording for what does not have them.

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_1123: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn ends_alphanumeric(text: &str, middle: fn(char) -> bool) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || middle(c))
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// Validates `[prefix/]name`, the form of label keys, taint keys and finalizers.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    subdomain_1123(prefix)
                        .into_iter()
                        .map(|p| format!("prefix part {p}")),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !ends_alphanumeric(name, |c| "-_.".contains(c)) {
        problems.push(QUALIFIED.to_owned());
    }
    problems
}

/// Validates the value of a label.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !text.is_empty() && !ends_alphanumeric(text, |c| "-_.".contains(c)) {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

fn is_label(text: &str) -> bool {
    ends_alphanumeric(text, |c| c == '-') && !text.chars().any(|c| c.is_ascii_uppercase())
}

/// Validates a DNS label (RFC 1123): Services, Namespaces, port names.
pub(crate) fn label_1123(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) {
        if ends_alphanumeric(text, |c| "-.".contains(c))
            && text.contains('.')
            && text.split('.').all(is_label)
        {
            problems.push("must not contain dots".to_owned());
        } else {
            problems.push(LABEL_1123.to_owned());
        }
    }
    problems
}

/// Validates a DNS subdomain (RFC 1123): Nodes and most other names.
pub(crate) fn subdomain_1123(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if !text.split('.').all(is_label) {
        problems.push(SUBDOMAIN_1123.to_owned());
    }
    problems
}

/// Validates a key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if text.is_empty()
        || !text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    {
        problems.push(CONFIG_KEY.to_owned());
    }
    match text {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        other if other.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_forms() {
        assert!(qualified_name("node.kubernetes.io/instance-type").is_empty());
        assert!(!qualified_name("a/b/c").is_empty());
        assert!(!qualified_name("_x").is_empty());
        assert!(subdomain_1123("ip-10-0-0-1.ec2.internal").is_empty());
        assert!(!subdomain_1123("Node").is_empty());
        assert!(label_1123("1web").is_empty() && !label_1123("-").is_empty());
    }
}

//! Writing into JSON by index: `value["key"] = …` panics if the value is no object. A cloud, or whoever answers in its place,
//! can send any value, so the clouds and the provider kit write by index only into JSON that the same function has made.
//! `provider_kit::json_path` writes into all other JSON.
//!
//! The file `json_writes.txt` has the writes into JSON that another function has made. A file may have that many, and fewer.
//! `CCM_WRITE_REFERENCE=1 cargo test --workspace --test architecture` writes the numbers again, if they are smaller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use super::ROOT;

const LIMITS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/architecture/json_writes.txt"
);

/// Adds the Rust files below a directory, without tests.
fn sources(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap_or_default();
        if path.is_dir() && name != "tests" {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs"
        {
            all.push(path);
        }
    }
}

/// Returns the lines of a source that write by index into JSON that their function has not made.
fn writes(source: &str) -> Vec<&str> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let write = Regex::new(
        r"(?x) (?P<borrow>&mut\ )? (?P<name>\b[a-z_][a-z_0-9.]*) (?P<index>(\[[^\[\]]*(\[[^\]]*\])?[^\[\]]*\])+)
          (?P<end>\ =\ |\.take\(\)|\.as_(array|object)_mut\(\)|\.get_mut\()?",
    )
    .unwrap();
    let is_key = Regex::new(r#"\["|\[&?[A-Z]"#).unwrap();
    // The index of a list is a variable, too.
    let is_json = Regex::new(r"json!\(|\.into\(\)|Value::|\.take\(\) \{|_mut\(\)").unwrap();
    let begins = Regex::new(r"^\s*(pub(\([a-z]+\))? )?(async )?fn ").unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
    {
        let mut of_line = write.captures_iter(line);
        let is_foreign = of_line.any(|captures| {
            let is_write = captures.name("borrow").is_some() || captures.name("end").is_some();
            let name = regex_lite::escape(&captures["name"]);
            let made = format!(r"let (mut )?\(?.*\b{name}\b.*= ?(serde_json::)?(json!|Value::Object)|let mut {name}(: \w+)? =.*\.nested\(\);");
            let made = Regex::new(&made).unwrap();
            let is_made = || {
                let before = lines[..=at].iter().rev();
                let start = before.clone().position(|line| begins.is_match(line)).unwrap_or(at);
                before.take(start + 1).any(|line| made.is_match(line))
            };
            is_write && (is_key.is_match(&captures["index"]) || is_json.is_match(line)) && !is_made()
        });
        if is_foreign {
            found.push(line.trim());
        }
    }
    found
}

#[test]
fn json_of_a_cloud_is_not_written_by_index() {
    let root = Path::new(ROOT);
    let mut all = Vec::new();
    for directory in super::directories(&root.join("providers")) {
        sources(&directory.join("src"), &mut all);
    }
    sources(&root.join("crates/provider-kit/src"), &mut all);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in all {
        let source = std::fs::read_to_string(&path).unwrap();
        let of_file: Vec<_> = writes(&source).into_iter().map(str::to_owned).collect();
        if !of_file.is_empty() {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, of_file);
        }
    }
    let limits = std::fs::read_to_string(LIMITS).unwrap_or_default();
    let limits: BTreeMap<&str, usize> = limits
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter_map(|(file, count)| Some((file, count.parse().ok()?)))
        .collect();
    let is_first = limits.is_empty();
    let beyond = found
        .iter()
        .filter(|(file, lines)| lines.len() > limits.get(&***file).copied().unwrap_or_default());
    let beyond: Vec<_> = beyond
        .map(|(file, lines)| format!("{file}:\n    {}", lines.join("\n    ")))
        .collect();
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() && (beyond.is_empty() || is_first) {
        let text: String = found
            .iter()
            .map(|(file, lines)| format!("{file}: {}\n", lines.len()))
            .collect();
        std::fs::write(LIMITS, text).unwrap();
        return;
    }
    assert!(
        beyond.is_empty(),
        "these lines write by index into JSON that their function has not made; use provider_kit::json_path:\n{}",
        beyond.join("\n")
    );
}

#[test]
fn write_into_foreign_json_is_found_and_one_into_own_json_is_not() {
    let foreign = "fn f(answer: &mut Value) {\n    answer[\"a\"][\"b\"] = json!(1);\n    let x = match answer[key].take() {};\n    let y = &mut answer[\"c\"];\n}\n";
    assert_eq!(writes(foreign).len(), 3);
    let taken = "    pub(crate) async fn pages<T, K>(\n        &self,\n    ) {\n            let items = match answer[place].take() {\n";
    assert_eq!(writes(taken).len(), 1);
    let own = "fn f() {\n    let mut body = json!({});\n    body[\"a\"] = json!(1);\n    let b = answer[\"c\"] == 1;\n}\n";
    assert_eq!(writes(own), [""; 0]);
}

//! Masks what differs between any two servers, or between two runs on one of them.
//!
//! | what | becomes |
//! |---|---|
//! | the run's tag in names | `eq-` |
//! | generated names | `PREFIX<suffix>`, if the suffix is well-formed |
//! | uids | `<uid-1>`, `<uid-2>`, …: equal ones get equal symbols |
//! | times of now | `<time>`, with the count of fraction digits: `<time.6>` |
//! | versions of objects | `v1`, `v2`, … by their order in the scenario |
//! | versions of lists and bookmarks | `≥v2`: the youngest object version that they cover |
//! | versions in messages | `<version>` |
//! | continue tokens, tokens of service accounts | `<continue>`, `<token>` |
//! | allocated cluster IPs and node ports | `<cluster-ip-1>`, `<node-port-1>` |
//! | ages in tables | `<age>` |
//! | descriptions of table columns | nothing |
//!
//! Values that the scenario itself contains are not masked.

use regex_lite::{Captures, Regex};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Member of a preparing step's response: the version that it created, which ranks the others.
pub(crate) const SEEN: &str = "seen";

/// Masks the responses of a scenario. `generated` are names that the server generated from `generateName`, `literals`
/// is the scenario's own text, `tag` stands in for `eq-`.
pub(crate) fn mask(
    answers: Vec<Value>,
    generated: Vec<(String, String)>,
    literals: &str,
    tag: &str,
) -> Value {
    let mut answers = Value::Array(answers);
    let mut versions = BTreeSet::new();
    collect_versions(&answers, Of::Object, literals, &mut versions);
    forget_seen(&mut answers);
    let mut tokens = Vec::new();
    collect_tokens(&answers, &mut tokens);
    let mut texts = Texts::new(literals, tag, generated, tokens);
    texts.mask(&mut answers);
    mask_tables(&mut answers, &pattern(r"^(\d+[smhdy])+$"));
    let mut fields = Fields {
        literals,
        versions: versions.into_iter().collect(),
        ips: Vec::new(),
        ports: Vec::new(),
    };
    fields.mask(&mut answers, Of::Object);
    answers
}

fn forget_seen(answers: &mut Value) {
    for answer in answers
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        answer.remove(SEEN);
        answer.get_mut("during").into_iter().for_each(forget_seen);
    }
}

fn pattern(constant: &str) -> Regex {
    Regex::new(constant).expect("the pattern is a constant")
}

fn version(value: &Value, literals: &str) -> Option<u64> {
    let text = value.as_str()?;
    let number = text.parse().ok().filter(|number| *number > 0)?;
    (!literals.contains(&format!("{text:?}"))).then_some(number)
}

/// Owner of a version that is found while a value is masked.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    /// An object of a resource.
    Object,
    /// A list or table: this is its `metadata`.
    Collection,
    /// A bookmark, whatever it is wrapped in.
    Bookmark,
}

impl Of {
    /// Returns the meaning of versions in the member `key` of `value`.
    fn within(self, value: &Map<String, Value>, key: &str) -> Self {
        let collection = || {
            value
                .get("kind")
                .and_then(Value::as_str)
                .is_some_and(|kind| kind.ends_with("List") || kind == "Table")
        };
        match key {
            _ if self == Self::Bookmark => self,
            "object" if value.get("type").is_some_and(|kind| kind == "BOOKMARK") => Self::Bookmark,
            "metadata" if collection() => Self::Collection,
            _ => Self::Object,
        }
    }
}

fn collect_versions(value: &Value, of: Of, literals: &str, versions: &mut BTreeSet<u64>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if key == "resourceVersion" && of == Of::Object {
                    versions.extend(version(member, literals));
                }
                collect_versions(member, of.within(members, key), literals, versions);
            }
        }
        Value::Array(elements) => {
            elements
                .iter()
                .for_each(|element| collect_versions(element, of, literals, versions));
        }
        _ => {}
    }
}

/// Collects the issued tokens.
fn collect_tokens(value: &Value, tokens: &mut Vec<String>) {
    if value["kind"] == "TokenRequest" {
        let token = value["status"]["token"]
            .as_str()
            .filter(|token| !token.is_empty());
        tokens.extend(token.map(str::to_owned));
    }
    match value {
        Value::Object(members) => members
            .values()
            .for_each(|member| collect_tokens(member, tokens)),
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| collect_tokens(element, tokens)),
        _ => {}
    }
}

/// Masks within every string.
struct Texts<'a> {
    literals: &'a str,
    tag: &'a str,
    generated: Vec<(String, String)>,
    uids: Vec<String>,
    uid: Regex,
    time: Regex,
    tokens: Vec<String>,
    version: Regex,
    table_port: Regex,
}

impl<'a> Texts<'a> {
    fn new(
        literals: &'a str,
        tag: &'a str,
        generated: Vec<(String, String)>,
        tokens: Vec<String>,
    ) -> Self {
        Self {
            literals,
            tag,
            generated,
            uids: Vec::new(),
            uid: pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: pattern(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d+))?Z"),
            tokens,
            version: pattern(
                r"(too old resource version: \d+ \(|Too large resource version: \d+, current: |ResourceVersion in (?:the precondition|record) \()\d+",
            ),
            table_port: pattern(r":(3\d{4})/"),
        }
    }

    fn mask(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.mask(element)),
            Value::Object(members) => {
                let masked = std::mem::take(members)
                    .into_iter()
                    .map(|(key, mut member)| {
                        self.mask(&mut member);
                        (self.text(&key), member)
                    });
                *members = masked.collect();
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, prefix) in &self.generated {
            let suffix = name.strip_prefix(prefix.as_str()).unwrap_or_default();
            if suffix.len() == 5
                && suffix
                    .chars()
                    .all(|character| "bcdfghjklmnpqrstvwxz2456789".contains(character))
            {
                text = text.replace(name, &format!("{prefix}<suffix>"));
            }
        }
        let literals = self.literals;
        for token in &self.tokens {
            text = text.replace(token, "<token>");
        }
        let uids = &mut self.uids;
        let uid = |found: &Captures<'_>| match &found[0] {
            literal if literals.contains(literal) => literal.to_owned(),
            uid => format!("<uid-{}>", symbol(uids, uid)),
        };
        text = self.uid.replace_all(&text, uid).into_owned();
        let time = |found: &Captures<'_>| match (&found[0], found.get(1)) {
            (literal, _) if literals.contains(literal) => literal.to_owned(),
            (_, Some(fraction)) => format!("<time.{}>", fraction.len()),
            (_, None) => "<time>".to_owned(),
        };
        text = self.time.replace_all(&text, time).into_owned();
        text = self
            .version
            .replace_all(&text, "${1}<version>")
            .into_owned();
        let port = |found: &Captures<'_>| match &found[1] {
            literal if literals.contains(literal) => found[0].to_owned(),
            _ => ":<node-port>/".to_owned(),
        };
        text = self.table_port.replace_all(&text, port).into_owned();
        text.replace(self.tag, "eq-")
    }
}

/// Returns the 1-based position of an item in the list, to which it is added if it is new.
fn symbol(known: &mut Vec<String>, item: &str) -> usize {
    let place = known
        .iter()
        .position(|other| other == item)
        .unwrap_or_else(|| {
            known.push(item.to_owned());
            known.len() - 1
        });
    place + 1
}

/// Masks ages in the rows of tables, and removes the descriptions of columns.
fn mask_tables(value: &mut Value, age: &Regex) {
    match value {
        Value::Object(members) => {
            for cell in members
                .get_mut("cells")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                if cell.as_str().is_some_and(|text| age.is_match(text)) {
                    *cell = json!("<age>");
                }
            }
            for column in members
                .get_mut("columnDefinitions")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                column
                    .as_object_mut()
                    .map(|column| column.remove("description"));
            }
            members
                .values_mut()
                .for_each(|member| mask_tables(member, age));
        }
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| mask_tables(element, age)),
        _ => {}
    }
}

/// Masks by the name of the field, or by the whole value.
struct Fields<'a> {
    literals: &'a str,
    versions: Vec<u64>,
    ips: Vec<String>,
    ports: Vec<String>,
}

impl Fields<'_> {
    fn mask(&mut self, value: &mut Value, of: Of) {
        match value {
            Value::Object(members) => {
                let below: Vec<Of> = members.keys().map(|key| of.within(members, key)).collect();
                for ((key, member), below) in members.iter_mut().zip(below) {
                    match key.as_str() {
                        "resourceVersion" => self.version(member, of),
                        "continue" if member.as_str().is_some_and(|token| !token.is_empty()) => {
                            *member = json!("<continue>");
                        }
                        "nodePort" | "healthCheckNodePort" => self.port(member),
                        _ => self.mask(member, below),
                    }
                }
            }
            Value::Array(elements) => elements
                .iter_mut()
                .for_each(|element| self.mask(element, of)),
            Value::String(text) => {
                let service_ip = text.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| {
                    let [first, second, ..] = ip.octets();
                    first == 10 && (96..112).contains(&second)
                });
                if service_ip && !self.literals.contains(text.as_str()) {
                    *text = format!("<cluster-ip-{}>", symbol(&mut self.ips, text));
                }
            }
            _ => {}
        }
    }

    fn version(&self, value: &mut Value, of: Of) {
        if let Some(number) = version(value, self.literals) {
            let rank = self
                .versions
                .iter()
                .filter(|version| **version <= number)
                .count();
            *value = if of == Of::Object {
                json!(format!("v{rank}"))
            } else {
                json!(format!("≥v{rank}"))
            };
        }
    }

    fn port(&mut self, value: &mut Value) {
        let allocated = value
            .as_u64()
            .filter(|port| (30000..=32767).contains(port))
            .map(|port| port.to_string());
        if let Some(port) = allocated.filter(|port| !self.literals.contains(port.as_str())) {
            *value = json!(format!("<node-port-{}>", symbol(&mut self.ports, &port)));
        }
    }
}

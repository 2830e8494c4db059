use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::*;
use crate::declared::{Kind, Value};

const TEXT: Annotation<String> = Annotation::new("acme/text", Value::KIND, "");
const FLAG: Annotation<bool> = Annotation::new("acme/flag", Value::KIND, "");
const NUMBER: Annotation<u8> =
    Annotation::new("acme/number", Kind::number(1, 9), "").aliases(&["acme/digit", "acme/n"]);
const DURATION: Annotation<Duration> =
    Annotation::new("acme/duration", Value::KIND, "").default("1m");
const SECONDS: Annotation<Duration> =
    Annotation::new("acme/seconds", Kind::seconds(), "").default_description("the cloud decides");
const ADDRESS: Annotation<IpAddr> = Annotation::new("acme/address", Value::KIND, "");
const RANGE: Annotation<IpNet> = Annotation::new("acme/range", Value::KIND, "");
const LIST: Annotation<Vec<String>> = Annotation::new("acme/list", Value::KIND, "");
const SIZE: Annotation<u8> = Annotation::new(
    "acme/size",
    Kind::one_of(&[("s", 1), ("l", 2)]).any_case(),
    "",
)
.default("s");
const LENIENT: Annotation<u8> = Annotation::new("acme/lenient", Kind::number(0, 3), "")
    .default("2")
    .lenient();

fn service(annotations: &[(&str, &str)]) -> Service {
    let mut service = Service::default();
    let owned = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    service.metadata.annotations = Some(owned.collect());
    service
}

fn read<T>(annotation: &Annotation<T>, text: &str) -> Result<Option<T>, String> {
    let service = service(&[(annotation.key, text)]);
    let mut annotations = Annotations::of(&service);
    let value = annotations.get(annotation);
    annotations
        .finish()
        .map(|()| value)
        .map_err(|err| err.to_string())
}

#[test]
fn each_kind_takes_its_forms() {
    assert_eq!(read(&TEXT, " a, b "), Ok(Some(" a, b ".to_owned())));
    assert_eq!(
        read(&TEXT, ""),
        Ok(Some(String::new())),
        "an empty annotation is set"
    );
    for text in ["1", "t", "T", "TRUE", "true", "True", " true "] {
        assert_eq!(read(&FLAG, text), Ok(Some(true)), "{text:?}");
    }
    for text in ["0", "f", "F", "FALSE", "false", "False"] {
        assert_eq!(read(&FLAG, text), Ok(Some(false)), "{text:?}");
    }
    assert_eq!(read(&NUMBER, "9"), Ok(Some(9)));
    assert_eq!(
        read(&DURATION, "1h30m"),
        Ok(Some(Duration::from_secs(5400)))
    );
    assert_eq!(read(&SECONDS, "15"), Ok(Some(Duration::from_secs(15))));
    assert_eq!(read(&SECONDS, "15s"), Ok(Some(Duration::from_secs(15))));
    assert_eq!(
        read(&ADDRESS, "2001:db8::1"),
        Ok(Some("2001:db8::1".parse().unwrap()))
    );
    assert_eq!(
        read(&RANGE, "10.0.1.7/24"),
        Ok(Some("10.0.1.0/24".parse().unwrap()))
    );
    assert_eq!(
        read(&LIST, "a, b,,c"),
        Ok(Some(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]))
    );
    assert_eq!(read(&SIZE, "L"), Ok(Some(2)));
}

#[test]
fn mistake_names_key_value_and_accepted_values() {
    let table = [
        (
            read(&FLAG, "yes").map(drop),
            "annotation acme/flag: \"yes\" is not true or false",
        ),
        (
            read(&FLAG, "").map(drop),
            "annotation acme/flag: \"\" is not true or false",
        ),
        (
            read(&NUMBER, "10").map(drop),
            "annotation acme/number: \"10\" is not a whole number from 1 to 9",
        ),
        (
            read(&NUMBER, "-1").map(drop),
            "annotation acme/number: \"-1\" is not a whole number from 1 to 9",
        ),
        (
            read(&DURATION, "15").map(drop),
            "annotation acme/duration: \"15\" is not a duration such as 30s or 1m30s",
        ),
        (
            read(&DURATION, "-1s").map(drop),
            "annotation acme/duration: \"-1s\" is not a duration such as 30s or 1m30s",
        ),
        (
            read(&ADDRESS, "10.0.0").map(drop),
            "annotation acme/address: \"10.0.0\" is not an IP address",
        ),
        (
            read(&RANGE, "10.0.0.0").map(drop),
            "annotation acme/range: \"10.0.0.0\" is not an address range such as 10.0.0.0/24",
        ),
        (
            read(&SIZE, "m").map(drop),
            "annotation acme/size: \"m\" is not one of s, l",
        ),
    ];
    for (outcome, text) in table {
        assert_eq!(outcome, Err(text.to_owned()));
    }
    let long = read(&FLAG, &"é".repeat(500)).unwrap_err();
    assert!(
        long.contains("é\"… is not") && long.chars().count() < 200,
        "{long}"
    );
}

#[test]
fn mistakes_are_reported_together_and_each_once() {
    let service = service(&[("acme/flag", "x"), ("acme/number", "y")]);
    let mut annotations = Annotations::of(&service);
    assert_eq!(
        (
            annotations.get(&FLAG),
            annotations.get(&FLAG),
            annotations.get(&NUMBER)
        ),
        (None, None, None)
    );
    annotations.mistake("annotation acme/flag needs a network");
    let err = annotations.finish().unwrap_err();
    assert!(err.is_invalid());
    assert_eq!(
        err.to_string(),
        "annotation acme/flag: \"x\" is not true or false; annotation acme/number: \"y\" is not a whole number from 1 to 9; \
         annotation acme/flag needs a network"
    );
}

#[test]
fn unset_annotation_has_its_default() {
    let service = Service::default();
    let mut annotations = Annotations::of(&service);
    assert_eq!(annotations.get(&SIZE), Some(1));
    assert_eq!(annotations.get(&DURATION), Some(Duration::from_secs(60)));
    assert_eq!(annotations.get(&SECONDS), None, "something else decides");
    assert_eq!(
        (annotations.get(&FLAG), annotations.is_set(&FLAG)),
        (None, false)
    );
    annotations.finish().unwrap();
}

#[test]
fn lenient_annotation_warns_and_has_its_default() {
    let service = service(&[("acme/lenient", "7")]);
    let mut annotations = Annotations::of(&service);
    assert_eq!(annotations.get(&LENIENT), Some(2));
    assert_eq!(
        annotations.warnings(),
        ["annotation acme/lenient: \"7\" is not a whole number from 0 to 3"]
    );
    annotations.finish().unwrap();
}

#[test]
fn a_deprecated_name_is_read_with_a_warning_unless_the_new_one_is_set() {
    let old = service(&[("acme/n", "3")]);
    let mut annotations = Annotations::of(&old);
    assert_eq!(
        (annotations.get(&NUMBER), annotations.is_set(&NUMBER)),
        (Some(3), true)
    );
    assert_eq!(
        annotations.warnings(),
        ["annotation acme/n is deprecated: use acme/number"]
    );
    let both = service(&[("acme/n", "3"), ("acme/number", "4")]);
    let mut annotations = Annotations::of(&both);
    assert_eq!(annotations.get(&NUMBER), Some(4));
    assert!(annotations.warnings().is_empty());
}

#[test]
fn unknown_key_is_warned_of_with_a_suggestion() {
    let service = service(&[
        ("acme/nubmer", "3"),
        ("acme/zebra", ""),
        ("other/x", ""),
        ("acme/n", "1"),
    ]);
    let mut annotations = Annotations::of(&service);
    annotations.unknown("acme/", &[&NUMBER, &TEXT]);
    assert_eq!(
        annotations.warnings(),
        [
            "annotation acme/nubmer is not known: did you mean acme/number?",
            "annotation acme/zebra is not known"
        ]
    );
    annotations.finish().unwrap();
}

#[test]
fn unknown_keys_and_suggestions_are_limited_and_long_names_are_not_compared() {
    let keys: Vec<_> = (0..30)
        .map(|number| format!("acme/txet{number:02}"))
        .chain([format!("acme/{}", "x".repeat(1 << 20))])
        .collect();
    let annotations: Vec<_> = keys.iter().map(|key| (key.as_str(), "")).collect();
    let service = service(&annotations);
    let mut annotations = Annotations::of(&service);
    let known: Vec<_> = (0..30)
        .map(|number| &*format!("acme/text{number:02}").leak())
        .collect();
    let declared: Vec<Annotation<String>> = known
        .iter()
        .map(|key| Annotation::new(key, Value::KIND, ""))
        .collect();
    annotations.unknown(
        "acme/",
        &declared
            .iter()
            .map(|declaration| declaration as &dyn Declared)
            .collect::<Vec<_>>(),
    );
    let suggested = annotations
        .warnings()
        .iter()
        .filter(|text| text.contains("did you mean"))
        .count();
    assert_eq!(
        (annotations.warnings().len(), suggested),
        (NAMED + 1, SUGGESTIONS)
    );
    assert_eq!(
        annotations.warnings()[NAMED],
        "11 more annotations acme/… are not known"
    );
}

//! Tests of the parts of the equal-answers suite: a mask that hides too much would make it worthless.

#[path = "equal_answers/diff.rs"]
mod diff;
#[path = "equal_answers/mask.rs"]
mod mask;
#[path = "equal_answers/pointer.rs"]
mod pointer;

mod diff_tests {
    use crate::diff::*;
    use serde_json::json;

    #[test]
    fn every_difference_is_a_line_with_its_path() {
        let lines = differences(
            &json!({"a": [1, 2], "b": {"c/d": 1}}),
            &json!({"a": [1, 3, 4], "b": {"e": 1}}),
        );
        assert_eq!(
            lines,
            [
                "/a/1: expected 2, got 3",
                "/a/2: expected nothing, got 4",
                "/b/c~1d: expected 1, got nothing",
                "/b/e: expected nothing, got 1",
            ]
        );
        assert!(differences(&json!([1]), &json!([1])).is_empty());
    }
}

mod mask_tests {
    use crate::mask::mask;
    use serde_json::{Value, json};

    fn masked(answers: Value, literals: &str) -> Value {
        let Value::Array(answers) = answers else {
            panic!("a list of answers")
        };
        mask(
            answers,
            vec![("some-bcdfg".into(), "some-".into())],
            literals,
            "eqx-",
        )
    }

    #[test]
    fn versions_become_ranks_and_lists_name_the_youngest_they_cover() {
        let answers = json!([
            {"seen": {"resourceVersion": "7"}},
            {"body": {"kind": "NodeList", "metadata": {"resourceVersion": "30"}, "items": [
                {"metadata": {"resourceVersion": "20"}}, {"metadata": {"resourceVersion": "7"}}]}},
            {"body": {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "8"}}}},
            {"body": {"metadata": {"resourceVersion": "5"}}},
        ]);
        let got = masked(answers, r#"resourceVersion: "5""#);
        assert_eq!(
            got.pointer("/1/body/metadata/resourceVersion"),
            Some(&json!("≥v2"))
        );
        assert_eq!(
            got.pointer("/1/body/items/0/metadata/resourceVersion"),
            Some(&json!("v2"))
        );
        assert_eq!(
            got.pointer("/2/body/object/metadata/resourceVersion"),
            Some(&json!("≥v1"))
        );
        assert_eq!(
            got.pointer("/3/body/metadata/resourceVersion"),
            Some(&json!("5")),
            "the scenario's own"
        );
        assert_eq!(got.pointer("/0/seen"), None);
    }

    #[test]
    fn equal_uids_stay_equal_and_different_ones_different() {
        let a = "11111111-1111-1111-1111-111111111111";
        let b = "22222222-2222-2222-2222-222222222222";
        let got = masked(json!([{"body": [a, b, format!("uid {a}")]}]), "");
        assert_eq!(
            got.pointer("/0/body"),
            Some(&json!(["<uid-1>", "<uid-2>", "uid <uid-1>"]))
        );
    }

    #[test]
    fn times_keep_their_precision_and_those_of_the_scenario_stay() {
        let times = json!([{"body": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z", "2020-01-01T00:00:00Z"]}]);
        let got = masked(times, "2020-01-01T00:00:00Z");
        assert_eq!(
            got.pointer("/0/body"),
            Some(&json!(["<time>", "<time.6>", "2020-01-01T00:00:00Z"]))
        );
    }

    #[test]
    fn names_that_the_server_made_and_the_tag_are_masked() {
        let got = masked(
            json!([{"body": ["some-bcdfg", "eqx-node", "pods \"some-bcdfg\" not found"]}]),
            "",
        );
        assert_eq!(
            got.pointer("/0/body"),
            Some(&json!([
                "some-<suffix>",
                "eq-node",
                "pods \"some-<suffix>\" not found"
            ]))
        );
    }

    #[test]
    fn a_malformed_suffix_is_shown() {
        let answers = vec![json!({"body": "some-AEIOU"})];
        let got = mask(
            answers,
            vec![("some-AEIOU".into(), "some-".into())],
            "",
            "eq-",
        );
        assert_eq!(got.pointer("/0/body"), Some(&json!("some-AEIOU")));
    }

    #[test]
    fn allocated_addresses_and_ports_are_masked_others_are_not() {
        let answers = json!([{"body": {
            "spec": {"clusterIP": "10.97.1.2", "clusterIPs": ["10.97.1.2"], "ports": [{"nodePort": 31000}, {"nodePort": 32123}]},
            "other": ["10.97.1.3", "10.96.200.17", "10.0.0.1"],
            "cells": ["80:31000/TCP", "5m30s", "2"],
        }}]);
        let got = masked(answers, "10.96.200.17 32123");
        let want = json!({
            "spec": {"clusterIP": "<cluster-ip-2>", "clusterIPs": ["<cluster-ip-2>"],
                "ports": [{"nodePort": "<node-port-1>"}, {"nodePort": 32123}]},
            "other": ["<cluster-ip-1>", "10.96.200.17", "10.0.0.1"],
            "cells": ["80:<node-port>/TCP", "<age>", "2"],
        });
        assert_eq!(got.pointer("/0/body"), Some(&want));
    }
}

mod pointer_tests {
    use crate::pointer::*;
    use serde_json::json;

    #[test]
    fn only_what_is_pointed_at_is_kept_in_its_place() {
        let value = json!({"kind": "X", "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]});
        let kept = keep(&value, &["/items/[name=b]".into(), "/items/0/n".into()]);
        assert_eq!(kept, json!({"items": [{"n": 1}, {"name": "b", "n": 2}]}));
        assert_eq!(
            keep(&value, &["/items/*/n".into(), "/kind".into()]),
            json!({"kind": "X", "items": [{"n": 1}, {"n": 2}]})
        );
    }

    #[test]
    fn a_key_within_a_selection_may_be_a_path() {
        let value =
            json!([{"metadata": {"name": "a"}, "v": 1}, {"metadata": {"name": "b"}, "v": 2}]);
        assert_eq!(
            keep(&value, &["/[metadata/name=b]/v".into()]),
            json!([{"v": 2}])
        );
    }

    #[test]
    fn what_is_pointed_at_is_removed() {
        let mut value = json!({"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "a/b": 1});
        remove(&mut value, "/items/*/n");
        remove(&mut value, "/items/[name=a]");
        remove(&mut value, "/a~1b");
        assert_eq!(value, json!({"items": [{"name": "b"}]}));
    }
}

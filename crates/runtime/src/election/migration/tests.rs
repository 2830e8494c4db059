use cloud_provider::names::{CONTROLLERS, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER};

use super::*;

const HEAD: &str = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\nleaderName: m\n";

#[test]
fn a_file_is_read_as_yaml_or_json() {
    let expected = LeaderMigration {
        leader_name: "m".into(),
        controller_leaders: vec![ControllerLeader {
            name: "service".into(),
            component: "*".into(),
        }],
    };
    let json = r#"{"apiVersion": "controllermanager.config.k8s.io/v1", "kind": "LeaderMigrationConfiguration",
        "leaderName": "m", "controllerLeaders": [{"name": "service", "component": "*"}]}"#;
    let yaml = format!("{HEAD}controllerLeaders:\n- name: service\n  component: '*'\n");
    let beta = format!(
        "{}resourceLock: leases\n",
        yaml.replace("k8s.io/v1", "k8s.io/v1beta1")
    );
    let alpha = yaml.replace("k8s.io/v1", "k8s.io/v1alpha1");
    for text in [json, &yaml, &beta, &alpha] {
        assert_eq!(LeaderMigration::parse(text), Ok(expected.clone()), "{text}");
    }
    let none = LeaderMigration {
        controller_leaders: vec![],
        ..expected
    };
    for text in [
        HEAD.to_owned(),
        format!("{HEAD}controllerLeaders: null\n"),
        format!("{HEAD}controllerLeaders: []\n"),
    ] {
        assert_eq!(LeaderMigration::parse(&text), Ok(none.clone()), "{text}");
    }
}

#[test]
fn mistake_in_a_migration_file_is_named() {
    let beta = HEAD.replace("k8s.io/v1", "k8s.io/v1beta1");
    let table = [
        (
            format!("{HEAD}leaderNaem: x\n"),
            "failed to parse leader migration configuration: ",
            "leaderNaem",
        ),
        (
            format!("{HEAD}leaderName: x\n"),
            "failed to parse leader migration configuration: ",
            "duplicate",
        ),
        (
            format!("{HEAD}resourceLock: leases\n"),
            "failed to parse leader migration configuration: ",
            "resourceLock",
        ),
        (
            format!("{HEAD}controllerLeaders: [{{name: a, component: b, extra: c}}]\n"),
            "failed to parse leader migration configuration: ",
            "extra",
        ),
        (
            HEAD.replace("/v1", "/v2"),
            "failed to parse leader migration configuration: ",
            "/v2",
        ),
        (
            HEAD.replace("kind: L", "kind: l"),
            "failed to parse leader migration configuration: ",
            "leaderMigration",
        ),
        (
            "just text".into(),
            "failed to parse leader migration configuration: ",
            "",
        ),
        (
            String::new(),
            "failed to parse leader migration configuration: ",
            "",
        ),
        (
            HEAD.replace("leaderName: m", ""),
            "the leader migration configuration is wrong: ",
            "leaderName: Required",
        ),
        (
            format!("{beta}resourceLock: endpoints\n"),
            "the leader migration configuration is wrong: ",
            "resourceLock: Invalid value: \"endpoints\"",
        ),
    ];
    for (text, beginning, part) in table {
        let error = LeaderMigration::parse(&text).unwrap_err().to_string();
        assert!(
            error.starts_with(beginning) && error.contains(part),
            "{text}: {error}"
        );
    }
    let text = format!(
        "{}controllerLeaders: [{{component: b}}, {{name: a}}]\n",
        HEAD.replace("leaderName: m\n", "")
    );
    let Err(MigrationError::Invalid(all)) = LeaderMigration::parse(&text) else {
        panic!("{text}")
    };
    let fields: Vec<&str> = all
        .iter()
        .filter_map(|text| text.split(": ").next())
        .collect();
    assert_eq!(
        fields,
        [
            "leaderName",
            "controllerLeaders[0].name",
            "controllerLeaders[1].component"
        ]
    );
    let error = LeaderMigration::read(Path::new("/no/such/file"))
        .unwrap_err()
        .to_string();
    let expected =
        r#"unable to read leader migration configuration from "/no/such/file": No such file"#;
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_file_of_another_kind_is_not_quoted() {
    for text in [
        "token: \"s3cret\nother: [",
        "s3cret: *x",
        "apiVersion: [s3cret",
        "s3cret\n\t- x",
    ] {
        let problem = LeaderMigration::parse(text).unwrap_err().to_string();
        assert!(
            !problem.contains("s3cret") && !problem.contains('\n'),
            "{problem}"
        );
    }
}

fn assigned(entries: &[(&str, &str)]) -> Assignment {
    let entry = |(name, component): &(&str, &str)| ControllerLeader {
        name: (*name).to_owned(),
        component: (*component).to_owned(),
    };
    let migration = LeaderMigration {
        leader_name: "m".into(),
        controller_leaders: entries.iter().map(entry).collect(),
    };
    Assignment::new(&migration, &CONTROLLERS.map(Into::into))
}

#[test]
fn a_controller_runs_where_the_last_entry_for_it_says() {
    use Under::{AnotherComponent, MainLease, MigrationLease};
    let service = SERVICE_CONTROLLER.canonical;
    let table: [(&[(&str, &str)], Under); 9] = [
        (&[], MainLease),
        (&[("node-route-controller", "*")], MainLease),
        (&[("service-lb-controller", "*")], MigrationLease),
        (
            &[("service-lb-controller", "cloud-controller-manager")],
            MigrationLease,
        ),
        (
            &[("service-lb-controller", "kube-controller-manager")],
            AnotherComponent,
        ),
        (&[("service", "*")], MigrationLease),
        (&[("service-controller", "*")], MigrationLease),
        (
            &[
                ("service", "*"),
                ("service-controller", "kube-controller-manager"),
            ],
            AnotherComponent,
        ),
        (
            &[
                ("service-lb-controller", "kube-controller-manager"),
                ("service", "*"),
            ],
            MigrationLease,
        ),
    ];
    for (entries, under) in table {
        assert_eq!(assigned(entries).of(service), under, "{entries:?}");
    }
}

#[test]
fn the_default_moves_what_it_means_to_move() {
    let assignment = Assignment::new(&LeaderMigration::default(), &CONTROLLERS.map(Into::into));
    for names in [
        SERVICE_CONTROLLER,
        ROUTE_CONTROLLER,
        NODE_LIFECYCLE_CONTROLLER,
    ] {
        assert_eq!(
            assignment.of(names.canonical),
            Under::MigrationLease,
            "{}",
            names.canonical
        );
    }
    assert_eq!(assignment.of(NODE_CONTROLLER.canonical), Under::MainLease);
    assert!(assignment.unknown().is_empty());
}

#[test]
fn entries_that_match_nothing_are_told() {
    let assignment = assigned(&[
        ("servce", "*"),
        ("service", "*"),
        ("Route", "kube-controller-manager"),
    ]);
    assert_eq!(assignment.unknown(), ["servce", "Route"]);
    assert_eq!(
        assignment.of("some-providers-own-controller"),
        Under::MainLease
    );
}

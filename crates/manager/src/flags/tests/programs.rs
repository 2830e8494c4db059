//! Names of the program, and what published manifests pass to it by the name of their vendor.
//!
//! Rules: FLAG-15, FLAG-60, FLAG-70, APP-22, D-12, D-370, D-371, D-372.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::flags::program::{PLUGIN, PROGRAMS, PROVIDERS_OF_OTHERS};
use crate::flags::report::ReportCommand;
use crate::flags::{Flags, Parsed, Program, without_entry_point};

/// Environment variable that rewrites the list of names instead of comparing it.
const WRITE: &str = "CCM_WRITE_REFERENCE";

fn parse(words: &[&str]) -> Parsed {
    Flags::parse(words.iter().map(OsString::from))
}

fn flags(words: &[&str]) -> Flags {
    match parse(words) {
        Parsed::Flags(flags) => *flags,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn wrong(words: &[&str]) -> String {
    match parse(words) {
        Parsed::Wrong(text) => text,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn notices(flags: &Flags) -> Vec<String> {
    flags
        .notices()
        .into_iter()
        .map(|notice| notice.text)
        .collect()
}

#[test]
fn image_has_a_link_for_every_program_whose_provider_it_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/image/programs");
    let written = std::fs::read_to_string(&path).unwrap();
    let comment: String = written
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(PROGRAMS.is_sorted_by_key(|(name, ..)| name));
    let of_this_project = PROGRAMS
        .iter()
        .filter(|(_, provider, _)| !PROVIDERS_OF_OTHERS.contains(provider));
    let mut names: Vec<_> = of_this_project.map(|(name, ..)| *name).collect();
    names.push(PLUGIN);
    names.sort_unstable();
    let list = comment + &names.join("\n") + "\n";
    if std::env::var_os(WRITE).is_some_and(|value| !value.is_empty()) {
        std::fs::write(&path, &list).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == list,
        "{} is out of date; run this test with {WRITE}=1",
        path.display()
    );
}

#[test]
fn path_of_a_program_before_the_flags_is_the_name_of_the_program() {
    let cases: [(&[&str], &str, &str); 6] = [
        (
            &[
                "/cloud-controller-manager",
                "/bin/openstack-cloud-controller-manager",
                "--v=1",
            ],
            "openstack",
            "openstack-cloud-controller-manager",
        ),
        (
            &[
                "/cloud-controller-manager",
                "/usr/local/bin/cce-cloud-controller-manager",
            ],
            "cce",
            "cce-cloud-controller-manager",
        ),
        (
            &["/cloud-controller-manager", "keepalived-cloud-provider"],
            "keepalived",
            "keepalived-cloud-provider",
        ),
        (
            &[
                "/hcloud-cloud-controller-manager",
                "/bin/aws-cloud-controller-manager",
            ],
            "aws",
            "aws-cloud-controller-manager",
        ),
        (
            &["/ccm", "/cloud-controller-manager", "--cloud-provider=gce"],
            "gce",
            "cloud-controller-manager",
        ),
        (
            &[
                "/cloud-controller-manager",
                "--log-file=/var/log/ccm.log",
                "--also-stdout=false",
                "--redirect-stderr=true",
                "/cloud-controller-manager",
                "--cloud-provider=gce",
            ],
            "gce",
            "cloud-controller-manager",
        ),
    ];
    for (words, provider, binary) in cases {
        let flags = flags(words);
        assert_eq!(
            (flags.cloud.cloud_provider.as_str(), flags.binary()),
            (provider, binary),
            "{words:?}"
        );
        let is_wrapped = words.iter().any(|word| word.starts_with("--log-file"));
        assert_eq!(
            flags
                .deprecations()
                .iter()
                .any(|text| text.contains("--log-file")),
            is_wrapped,
            "{words:?}"
        );
    }
}

#[test]
fn other_first_arguments_are_errors_as_before() {
    let said = wrong(&[
        "/hcloud-cloud-controller-manager",
        "/bin/some-controller-manager",
    ]);
    assert!(
        said.contains("does not take any arguments, got [\"/bin/some-controller-manager\"]"),
        "{said}"
    );
    let said = wrong(&[
        "/hcloud-cloud-controller-manager",
        "--v=1",
        "/bin/hcloud-cloud-controller-manager",
    ]);
    assert!(
        said.contains("does not take any arguments"),
        "only the first argument can be the program: {said}"
    );
    let said = wrong(&["/hcloud-cloud-controller-manager", "--also-stdout=false"]);
    assert!(
        said.starts_with("unknown flag: --also-stdout"),
        "a wrapper needs a program: {said}"
    );
    assert!(matches!(
        parse(&["/ccm", "/bin/openstack-cloud-controller-manager", "version"]),
        Parsed::Say(_)
    ));
}

#[test]
fn program_of_a_vendor_accepts_its_own_path_before_the_flags() {
    let arguments = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let shifted = without_entry_point(arguments(&["/x", "/acme-ccm", "--v=2"]), "acme-ccm");
    assert_eq!(shifted, arguments(&["/acme-ccm", "--v=2"]));
    for unchanged in [
        &[][..],
        &["/x"],
        &["/x", "/other", "--v=2"],
        &["/x", "--log-file=a"],
    ] {
        assert_eq!(
            without_entry_point(arguments(unchanged), "acme-ccm"),
            arguments(unchanged)
        );
    }
}

#[test]
fn plugin_of_kubectl_has_the_subcommands_and_starts_no_manager() {
    let said = |words: &[&str]| match parse(words) {
        Parsed::Say(text) => text,
        other => panic!("{words:?}: {other:?}"),
    };
    for words in [
        &["/usr/local/bin/kubectl-ccm"][..],
        &["kubectl-ccm", "help"],
        &["kubectl-ccm", "--help"],
    ] {
        let text = said(words);
        assert!(
            text.contains("Usage: kubectl ccm SUBCOMMAND") && text.contains("\n  doctor "),
            "{words:?}: {text}"
        );
    }
    assert!(said(&["kubectl-ccm", "version"]).contains("run as kubectl-ccm"));
    assert!(said(&["kubectl-ccm", "--version"]).contains("ccm-rs v"));
    assert!(
        said(&["/cloud-controller-manager", "/bin/kubectl-ccm", "version"])
            .contains("run as kubectl-ccm")
    );
    let text = wrong(&["kubectl-ccm", "plna", "--output=json"]);
    assert_eq!(text, "unknown subcommand \"plna\"; did you mean \"plan\"?");
    for words in [
        &["kubectl-ccm", "--cloud-provider=hcloud"][..],
        &["kubectl-ccm", "--version=false"],
    ] {
        let text = wrong(words);
        assert!(
            text.contains("kubectl-ccm runs no controllers: write one of the subcommands plan, "),
            "{words:?}: {text}"
        );
    }
}

#[test]
fn plugin_of_kubectl_reads_the_kubeconfig_of_kubectl() {
    let home = tempfile::tempdir().unwrap();
    let [usual, other] = [".kube/config", "other"].map(|name| home.path().join(name));
    std::fs::create_dir(home.path().join(".kube")).unwrap();
    for path in [&usual, &other] {
        std::fs::write(path, "").unwrap();
    }
    let kubeconfig = |name: &str, listed: &str, words: &[&str]| {
        let variable = |name: &str| match name {
            "HOME" => Some(home.path().into()),
            _ => Some(listed.into()),
        };
        let program = Program::called(OsStr::new(name)).with_configuration_of_kubectl(variable);
        let words = [&[name, "--cloud-provider=hcloud"], words].concat();
        let report = ReportCommand {
            name: "doctor",
            about: "",
            after_help: "",
        };
        match report.parse(&program, words.into_iter().map(OsString::from)) {
            Parsed::Flags(mut flags) => AsMut::<Flags>::as_mut(&mut flags)
                .misc
                .kubeconfig
                .to_path_buf(),
            Parsed::Say(text) | Parsed::Wrong(text) => panic!("{text}"),
        }
    };
    assert_eq!(kubeconfig("kubectl-ccm", "", &[]), Some(usual.clone()));
    let listed = std::env::join_paths([Path::new("/nowhere"), &other, &usual]).unwrap();
    assert_eq!(
        kubeconfig("kubectl-ccm", listed.to_str().unwrap(), &[]),
        Some(other.clone())
    );
    assert_eq!(
        kubeconfig("kubectl-ccm", "", &["--kubeconfig=/mine"]),
        Some("/mine".into()),
        "the flag wins"
    );
    assert_eq!(
        kubeconfig("cloud-controller-manager", "", &[]),
        None,
        "a manager in a Pod has its service account"
    );
}

/// The name of the program takes precedence over the preset of the image, and the flag over both.
#[test]
fn preset_provider_counts_where_the_name_says_none() {
    let table = [
        ("/cloud-controller-manager", "linode", "", "linode"),
        ("/cloud-controller-manager", "mine", "", "mine"),
        (
            "/cloud-controller-manager",
            "linode",
            "--cloud-provider=gce",
            "gce",
        ),
        (
            "/bin/hcloud-cloud-controller-manager",
            "linode",
            "",
            "hcloud",
        ),
        (
            "/bin/hcloud-cloud-controller-manager",
            "linode",
            "--cloud-provider=gce",
            "gce",
        ),
    ];
    for (name, preset, flag, provider) in table {
        let program = Program::called_with_preset(OsStr::new(name), preset);
        let Parsed::Flags(flags) = Flags::parse_as(&program, [name, flag].map(OsString::from))
        else {
            panic!("{name} {preset} {flag}")
        };
        assert_eq!(
            flags.cloud.cloud_provider, provider,
            "{name} {preset} {flag}"
        );
    }
    let none = Program::called_with_preset(OsStr::new("ccm"), "");
    let Parsed::Wrong(text) = Flags::parse_as(&none, ["ccm".into()]) else {
        panic!("no provider")
    };
    assert!(
        text.contains("--cloud-provider") && text.contains("CCM_CLOUD_PROVIDER"),
        "{text}"
    );
}

#[test]
fn preset_provider_brings_the_defaults_of_its_vendors_program() {
    let configuration = |preset: &str| {
        let program = Program::called_with_preset(OsStr::new("/cloud-controller-manager"), preset);
        match Flags::parse_as(&program, ["/cloud-controller-manager".into()]) {
            Parsed::Flags(flags) => flags.configuration(),
            other => panic!("{preset}: {other:?}"),
        }
    };
    assert!(
        configuration("linode").authentication.skip_lookup
            && !configuration("gce").authentication.skip_lookup
    );
    let health = configuration("keepalived").health_listener.unwrap();
    assert_eq!((health.address.port(), health.is_required), (10252, false));
    assert!(configuration("linode").health_listener.is_none());
}

#[test]
fn only_providers_whose_manifests_probe_without_tls_serve_health_without_tls() {
    let plain = |provider: &str| {
        flags(&["ccm", &format!("--cloud-provider={provider}")])
            .configuration()
            .plain_health
    };
    assert!(plain("alibabacloud") && plain("alicloud"));
    let mut others: Vec<_> = PROGRAMS.map(|(_, provider, _)| provider).to_vec();
    others.retain(|provider| !provider.starts_with("ali"));
    assert!(!others.iter().any(|provider| plain(provider)), "{others:?}");
    let off = flags(&["keepalived-cloud-provider", "--health-bind-address="]);
    assert!(off.configuration().health_listener.is_none());
}

#[test]
fn controllers_of_alibabas_program_are_accepted_with_a_notice_on_alibaba_alone() {
    for provider in ["alibabacloud", "alicloud"] {
        let provider = format!("--cloud-provider={provider}");
        let list = "--controllers=node,route,service,ingress,pvtz";
        let flags = flags(&["/cloud-controller-manager", &provider, list]);
        for name in ["ingress", "pvtz"] {
            let said = notices(&flags)
                .into_iter()
                .find(|text| text.contains(&format!("controller {name};")));
            assert!(
                said.is_some_and(
                    |text| text.starts_with("--controllers: this program has no controller")
                ),
                "{name}"
            );
        }
        assert!(matches!(
            parse(&["/ccm", &provider, "--controllers=*,-ingress"]),
            Parsed::Flags(_)
        ));
        assert!(
            wrong(&["/ccm", &provider, "--controllers=node,ingres"])
                .contains("\"ingres\" is not in the list")
        );
    }
    for provider in ["hcloud", "openstack", "gce"] {
        let said = wrong(&[
            "/ccm",
            &format!("--cloud-provider={provider}"),
            "--controllers=service,ingress,-pvtz",
        ]);
        assert!(
            said.contains("\"ingress\" is not in the list") && said.contains("\"pvtz\" is not"),
            "{said}"
        );
    }
}

#[test]
fn historic_gates_are_accepted_with_a_notice_where_manifests_set_them() {
    let gates = "--feature-gates=ServiceNodeExclusion=true,LegacyNodeRoleBehavior=false,CSIMigrationOpenStack=true,\
                 CloudDualStackNodeIPs=true";
    for provider in [
        "alicloud",
        "alibabacloud",
        "aws",
        "azure",
        "gce",
        "openstack",
    ] {
        let flags = flags(&[
            "/cloud-controller-manager",
            &format!("--cloud-provider={provider}"),
            gates,
        ]);
        for name in [
            "ServiceNodeExclusion",
            "LegacyNodeRoleBehavior",
            "CSIMigrationOpenStack",
            "CloudDualStackNodeIPs",
        ] {
            let expected = format!(
                "feature gate {name} has no effect here: Kubernetes no longer has it; remove it"
            );
            assert!(
                notices(&flags).contains(&expected),
                "{provider}: {:?}",
                notices(&flags)
            );
        }
    }
    for provider in ["hcloud", "digitalocean", "linode", "simulated"] {
        let said = wrong(&["/ccm", &format!("--cloud-provider={provider}"), gates]);
        assert!(
            said.contains("unrecognized feature gate: ServiceNodeExclusion; known are AllAlpha"),
            "{said}"
        );
    }
    let misspelt = wrong(&[
        "/ccm",
        "--cloud-provider=alicloud",
        "--feature-gates=ServiceNodesExclusion=true",
    ]);
    assert!(
        misspelt.contains("unrecognized feature gate: ServiceNodesExclusion"),
        "{misspelt}"
    );
}

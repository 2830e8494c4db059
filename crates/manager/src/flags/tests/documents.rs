//! Documents that are generated from the declared flags, and names of the program.
//!
//! Rules: FLAG-12, FLAG-15, FLAG-16.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};

use super::flags;
use super::rows::{declared, default};
use crate::flags::program::PROGRAMS;
use crate::flags::{Flags, Parsed, Program, VendorFlag, markdown};

/// Environment variable that rewrites the reference page instead of comparing it.
const WRITE: &str = "CCM_WRITE_REFERENCE";

fn said(arguments: &[&str]) -> String {
    match Flags::parse(arguments.iter().map(Into::into)) {
        Parsed::Say(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reference_page_is_generated_from_the_declared_flags() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/flags.md");
    let page = markdown();
    if std::env::var_os(WRITE).is_some_and(|value| !value.is_empty()) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{} is out of date; run this test with {WRITE}=1",
        path.display()
    );
}

#[test]
fn completion_scripts_have_flags_and_subcommands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&["hcloud-cloud-controller-manager", "completion", shell]);
        for word in [
            "hcloud-cloud-controller-manager",
            "leader-elect-lease-duration",
            "plan",
            "completion",
        ] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(
            !script.contains("logtostderr"),
            "{shell}: what is only accepted is not offered"
        );
    }
    let wrong = Flags::parse(["ccm", "completion", "powershell"].map(OsString::from));
    assert!(
        matches!(wrong, Parsed::Wrong(text) if text.contains("bash, zsh and fish, not for \"powershell\""))
    );
}

/// Runs a shell with these arguments and returns its standard output; `None` if the shell is not installed.
fn shell(program: &str, arguments: &[&str]) -> Option<String> {
    match std::process::Command::new(program).args(arguments).output() {
        Ok(output) => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && complaint.is_empty(),
                "{program}: {complaint}"
            );
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            assert!(
                std::env::var_os("CI").is_none(),
                "{program} is not installed"
            );
            eprintln!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Words before the cursor as bash splits them, and a completion that is offered.
const COMPLETED: [(&[&str], &str); 15] = [
    (&["check", "--file"], "--filename"),
    (&["expl"], "explain"),
    (&["explain", "no"], "node"),
    (&["doc"], "doctor"),
    (&["doctor", "--cloud-conf"], "--cloud-config"),
    (&["doctor", "--time"], "--timeout"),
    (&["plan", "--time"], "--timeout"),
    (&["explain", "--cloud-conf"], "--cloud-config"),
    (&["explain", "node", "--cloud-conf"], "--cloud-config"),
    (&["explain", "service", "--names"], "--namespace"),
    (&["play", "--spe"], "--speed"),
    (&["completion", "fi"], "fish"),
    (&["--cloud-provider", "ac"], "acme"),
    (&["--cloud-provider", "=", "ac"], "acme"),
    (&["plan", "--cloud-provider", "="], "acme"),
];

fn completions(name: &str) -> String {
    let own = Command::new("play").arg(Arg::new("speed").long("speed"));
    let program = Program::new("ccm-test")
        .with_providers(["acme", "simulated"])
        .with_subcommand(own);
    match Flags::parse_as(
        &program,
        ["ccm-test", "completion", name].map(OsString::from),
    ) {
        Parsed::Say(script) => script,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bash_completes_subcommands_their_flags_and_values() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), completions("bash")).unwrap();
    for (words, expected) in COMPLETED {
        let quoted = words
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" ");
        let last = words[words.len() - 1];
        let before = if words.len() > 1 {
            words[words.len() - 2]
        } else {
            "ccm-test"
        };
        // The script is longer than an argument may be.
        let run = format!(
            "source '{}'\nCOMP_WORDS=(ccm-test {quoted}); COMP_CWORD={}\n_ccm__test ccm-test '{last}' '{before}'\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.path().display(),
            words.len()
        );
        let offered = shell("bash", &["-c", &run]).unwrap();
        assert!(
            offered.lines().any(|line| line == expected),
            "{words:?}: {offered}"
        );
    }
}

#[test]
fn fish_completes_subcommands_their_flags_and_values() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), completions("fish")).unwrap();
    let path = file.path().display();
    for (words, expected) in COMPLETED {
        // Nothing is completed after a flag without its value, because the generated script rejects such a line first.
        let line = words
            .join(" ")
            .replace(" = ", "=")
            .replace(" =", "=")
            .replace("provider ac", "provider=ac");
        let line = format!("ccm-test {line}");
        let Some(offered) = shell(
            "fish",
            &[
                "--no-config",
                "-c",
                &format!("source '{path}'; complete -C '{line}'"),
            ],
        ) else {
            return;
        };
        let offered: Vec<_> = offered
            .lines()
            .map(|line| line.split('\t').next().unwrap_or_default())
            .collect();
        assert!(
            offered
                .iter()
                .any(|word| *word == expected || word.ends_with(&format!("={expected}"))),
            "{line}: {offered:?}"
        );
    }
}

#[test]
fn zsh_loads_the_completion_script() {
    let run = format!(
        "autoload -Uz compinit; compinit -u -D\n{}\nprint $_comps[ccm-test]",
        completions("zsh")
    );
    let Some(function) = shell("zsh", &["-f", "-c", &run]) else {
        return;
    };
    assert_eq!(function.trim(), "_ccm-test");
}

#[test]
fn manual_page_has_flags_and_synopsis() {
    let page = said(&["cloud-controller-manager", "man"]);
    for word in ["leader\\-elect", "SYNOPSIS", "Joins a Kubernetes cluster"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    let footer = page
        .lines()
        .find(|line| line.starts_with(".TH"))
        .unwrap_or_default();
    assert!(
        footer.contains(&format!("ccm-rs v{}", env!("CARGO_PKG_VERSION"))),
        "{footer}"
    );
}

#[test]
fn name_of_the_program_sets_defaults() {
    for (name, provider, defaults) in PROGRAMS {
        let Parsed::Flags(flags) = Flags::parse([OsString::from(format!("/usr/bin/{name}"))])
        else {
            panic!("{name} needs no flag")
        };
        assert_eq!(flags.cloud.cloud_provider, provider, "{name}");
        let has = |flag: &str| defaults.contains(&(flag, "true"));
        assert_eq!(
            flags.configuration().authentication.skip_lookup,
            has("authentication-skip-lookup"),
            "{name}"
        );
        assert!(
            !flags.cloud.allow_untagged_cloud,
            "{name}: its provider says whether it needs a cluster ID"
        );
        let health = flags
            .configuration()
            .health_listener
            .map(|health| health.address.to_string());
        assert_eq!(
            health,
            (provider == "keepalived").then(|| "0.0.0.0:10252".to_owned()),
            "{name}"
        );
        let agent = flags
            .configuration()
            .client_options
            .user_agent
            .with_suffix("");
        assert!(agent.starts_with(&format!("{name}/v1.")), "{agent}");
    }
    // The command line takes precedence; another name of the program changes only the user agent.
    let Parsed::Flags(other) = Flags::parse(
        [
            "ccm-linode",
            "--cloud-provider=x",
            "--authentication-skip-lookup=false",
        ]
        .map(OsString::from),
    ) else {
        panic!("they can be used")
    };
    assert_eq!(
        (
            other.cloud.cloud_provider.as_str(),
            other.configuration().authentication.skip_lookup
        ),
        ("x", false)
    );
    let Parsed::Flags(own) =
        Flags::parse(["/opt/my-ccm", "--cloud-provider=x"].map(OsString::from))
    else {
        panic!("they can be used")
    };
    assert_eq!(own.binary(), "my-ccm");
    assert_eq!(
        Program::called(OsStr::new("")).name(),
        "cloud-controller-manager"
    );
}

#[test]
fn program_of_a_vendor_sets_defaults_and_its_name() {
    let program = Program::new("acme-ccm")
        .with_default("cloud-provider", "acme")
        .with_default("webhook-bind-address", "127.0.0.1")
        .with_default("webhook-secure-port", "0");
    let parse = |arguments: &[&str]| {
        Flags::parse_as(&program, ["x"].iter().chain(arguments).map(OsString::from))
    };
    let Parsed::Flags(flags) = parse(&[]) else {
        panic!("they can be used")
    };
    assert_eq!(flags.cloud.cloud_provider, "acme");
    assert!(
        flags
            .configuration()
            .webhook_serving
            .bind_address
            .is_loopback()
            && flags.configuration().webhook_serving.port == 0
    );
    assert_eq!(flags.binary(), "acme-ccm");
    assert!(
        matches!(parse(&["x"]), Parsed::Wrong(text) if text.starts_with("\"acme-ccm\" does not take any arguments, got [\"x\"]"))
    );
    assert!(
        matches!(parse(&["--help"]), Parsed::Say(text) if text.contains("Usage: acme-ccm ") && text.contains("[default: acme]"))
    );
}

#[test]
fn flag_dump_has_each_shown_flag_in_order_with_its_value() {
    let dump = flags(&["--master=https://admin:s3cr3t@10.0.0.1:6443"]).dump();
    assert!(dump.contains(&("master".to_owned(), "https://10.0.0.1:6443".to_owned())));
    let dump = flags(&[
        "--min-resync-period=90m",
        "--controllers=*,-route",
        "--tls_cipher_suites=",
    ])
    .dump();
    assert!(dump.is_sorted());
    let value = |name: &str| {
        dump.iter()
            .find(|(flag, _)| flag == name)
            .map(|(_, value)| value.as_str())
    };
    let set = [
        ("cloud-provider", "simulated"),
        ("controllers", "[*,-route]"),
        ("min-resync-period", "1h30m0s"),
        ("tls-cipher-suites", "[]"),
        ("help", "false"),
    ];
    for flag in declared()
        .get_arguments()
        .filter(|flag| !flag.is_positional() && !flag.is_hide_set())
    {
        let name = flag.get_long().unwrap();
        let expected = set.into_iter().find(|(set, _)| *set == name);
        let dumped = value(name).unwrap_or_else(|| panic!("--{name} is missing"));
        match expected {
            Some((_, expected)) => assert_eq!(dumped, expected, "--{name}"),
            None => assert_eq!(dumped.trim_matches(['[', ']']), default(flag), "--{name}"),
        }
    }
    assert_eq!(value("logtostderr"), None);
}

#[test]
fn program_of_a_vendor_has_flags_of_its_own_and_adjusts_all() {
    let token = VendorFlag {
        name: "acme-token",
        default: "",
        help: "The token.",
        secret: true,
    };
    let agent = VendorFlag {
        name: "user-agent",
        default: "acme",
        help: "The agent.",
        secret: false,
    };
    let program = Program::new("acme-ccm")
        .with_default("cloud-provider", "acme")
        .with_flag(token)
        .with_flag(agent)
        .adjusted(|flags| flags.secure_serving.secure_port = 10270);
    let parse = |arguments: &[&str]| {
        Flags::parse_as(&program, ["x"].iter().chain(arguments).map(OsString::from))
    };
    let Parsed::Flags(flags) = parse(&["--acme-token=hunter2", "--user-agent=a"]) else {
        panic!("they can be used")
    };
    assert_eq!(
        (flags.value("acme-token"), flags.value("user-agent")),
        (Some("hunter2"), Some("a"))
    );
    assert_eq!(flags.configuration().serving.port, 10270);
    assert!(flags.notices().is_empty());
    assert!(
        flags
            .dump()
            .contains(&("acme-token".to_owned(), "REDACTED".to_owned()))
    );
    assert!(!format!("{flags:?}").contains("hunter2"), "INV-5");
    let Parsed::Say(help) = parse(&["--help"]) else {
        panic!("no help")
    };
    assert!(help.find("\nGlobal:") < help.find("\nacme-ccm:"), "{help}");
    assert!(
        matches!(parse(&["--webhook-secure-port=10270"]), Parsed::Wrong(_)),
        "validated as adjusted"
    );
}

//! Tests of `check` as a user runs it: files in, findings and an exit code out, without a credential and without a
//! network.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_cloud-controller-manager");

struct Checked {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs `check` with these arguments, variables and standard input, and no other variables.
fn check(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Checked {
    let mut command = Command::new(BINARY);
    command
        .arg("check")
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that rejects its flags reads no input.
    _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Checked {
        code: status.code().unwrap(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

/// Arguments and environment variables of a program.
type Run<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

fn service(annotations: &[(&str, &str)], spec: Value) -> Value {
    let annotations: Value = annotations
        .iter()
        .map(|(key, value)| (*key, json!(value)))
        .collect();
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    if let (Value::Object(stated), Value::Object(spec)) = (&mut service["spec"], spec) {
        stated.extend(spec);
    }
    service
}

/// Reviews each Service in a document of its own, and returns the findings of each.
fn findings(provider: &str, services: &[Value]) -> Vec<Vec<String>> {
    let documents: Vec<_> = services.iter().map(Value::to_string).collect();
    let provider = format!("--cloud-provider={provider}");
    let checked = check(
        &["-f", "-", "--output=json", &provider],
        &[],
        &documents.join("\n---\n"),
    );
    assert!(
        checked.code < 2 && checked.stderr.is_empty(),
        "{} {}",
        checked.stdout,
        checked.stderr
    );
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(report["summary"]["services"], services.len(), "{report}");
    let mut found = vec![Vec::new(); services.len()];
    for finding in report["findings"].as_array().unwrap() {
        let document = usize::try_from(finding["document"].as_u64().unwrap()).unwrap();
        let text = |field: &str| finding[field].as_str().unwrap().to_owned();
        found[document - 1].push(format!("{}: {}", text("severity"), text("text")));
    }
    found
}

/// Annotations, fields of the spec, and the expected findings.
type Row<'a> = (&'a [(&'a str, &'a str)], Value, &'a [&'a str]);

fn compare(provider: &str, table: &[Row<'_>]) {
    let services: Vec<_> = table
        .iter()
        .map(|(annotations, spec, _)| service(annotations, spec.clone()))
        .collect();
    for ((annotations, spec, expected), found) in table.iter().zip(findings(provider, &services)) {
        assert_eq!(found, *expected, "{provider}: {annotations:?} {spec}");
    }
}

#[test]
fn simulated_services_are_reviewed() {
    compare(
        "simulated",
        &[
            (
                &[
                    ("simulated.ccm-rs/tier", "premium"),
                    ("acme.example/tier", "x"),
                ],
                json!({}),
                &[],
            ),
            (
                &[
                    ("simulated.ccm-rs/tier", "golden"),
                    ("simulated.ccm-rs/teir", "basic"),
                ],
                json!({"loadBalancerSourceRanges": ["10.0.0.1"], "ports": [{"port": 80, "protocol": "SCTP"}]}),
                &[
                    "error: annotation simulated.ccm-rs/tier: \"golden\" is not one of basic, premium",
                    "error: service.Spec.LoadBalancerSourceRanges: [10.0.0.1] is not valid. Expecting a list of IP ranges. For \
                     example, 10.0.0.0/24. Error msg: invalid CIDR address: 10.0.0.1",
                    "error: port 80: protocol \"SCTP\" is not one of TCP, UDP",
                    "warning: annotation simulated.ccm-rs/teir is not known: did you mean simulated.ccm-rs/tier?",
                ],
            ),
            (
                &[],
                json!({"allocateLoadBalancerNodePorts": false}),
                &["error: port 80: has no node port; set allocateLoadBalancerNodePorts"],
            ),
        ],
    );
}

#[test]
fn hetzner_services_are_reviewed() {
    compare(
        "hcloud",
        &[
            (
                &[
                    ("load-balancer.hetzner.cloud/type", "lb21"),
                    ("load-balancer.hetzner.cloud/location", "fsn1"),
                ],
                json!({}),
                &[],
            ),
            (
                &[
                    ("load-balancer.hetzner.cloud/algorithm-type", "fastest"),
                    ("load-balancer.hetzner.cloud/health-check-prot", "http"),
                ],
                json!({}),
                &[
                    "error: annotation load-balancer.hetzner.cloud/algorithm-type: \"fastest\" is not one of round_robin, \
                     least_connections",
                    "warning: annotation load-balancer.hetzner.cloud/health-check-prot is not known: did you mean \
                     load-balancer.hetzner.cloud/health-check-port?",
                ],
            ),
            (
                &[
                    ("load-balancer.hetzner.cloud/location", "fsn1"),
                    ("load-balancer.hetzner.cloud/network-zone", "eu-central"),
                    ("load-balancer.hetzner.cloud/http-redirect-http", "true"),
                ],
                json!({}),
                &[
                    "warning: annotation load-balancer.hetzner.cloud/http-redirect-http has no effect unless \
                     load-balancer.hetzner.cloud/protocol is https",
                    "warning: annotation load-balancer.hetzner.cloud/network-zone has no effect beside \
                     load-balancer.hetzner.cloud/location; remove one",
                ],
            ),
            (
                &[
                    ("load-balancer.hetzner.cloud/protocol", "https"),
                    ("load-balancer.hetzner.cloud/certificate-type", "managed"),
                ],
                json!({}),
                &[
                    "error: annotation load-balancer.hetzner.cloud/http-managed-certificate-domains: a managed certificate needs at \
                   least one domain",
                ],
            ),
            (
                &[],
                json!({
                    "ports": [{"port": 53, "protocol": "UDP"}, {"port": 80}], "loadBalancerSourceRanges": ["10.0.0.0/8"],
                }),
                &[
                    "warning: port 53/UDP is not served: load balancers of Hetzner Cloud speak TCP only",
                    "warning: loadBalancerSourceRanges have no effect: load balancers of Hetzner Cloud have no firewall, and \
                     everybody can reach this one",
                ],
            ),
        ],
    );
}

#[test]
fn openstack_services_are_reviewed() {
    compare(
        "openstack",
        &[
            // The classes are in a file that does not exist here.
            (
                &[
                    ("loadbalancer.openstack.org/class", "gold"),
                    ("loadbalancer.openstack.org/flavor-id", "f"),
                ],
                json!({}),
                &[],
            ),
            (
                &[
                    ("loadbalancer.openstack.org/proxy-protocol", "true"),
                    ("loadbalancer.openstack.org/x-forwarded-for", "true"),
                    ("loadbalancer.openstack.org/keep-floatingip", "yes"),
                    ("loadbalancer.openstack.org/lb-method", "FASTEST"),
                    ("loadbalancer.openstack.org/flavour-id", "f"),
                    (
                        "service.beta.kubernetes.io/openstack-internal-load-balancers",
                        "true",
                    ),
                ],
                json!({}),
                &[
                    "error: annotations loadbalancer.openstack.org/proxy-protocol and \
                     loadbalancer.openstack.org/x-forwarded-for cannot be used together; remove one",
                    "warning: annotation loadbalancer.openstack.org/flavour-id is not known: did you mean \
                     loadbalancer.openstack.org/flavor-id?",
                    "warning: annotation service.beta.kubernetes.io/openstack-internal-load-balancers is not known: did you mean \
                     service.beta.kubernetes.io/openstack-internal-load-balancer?",
                    "warning: annotation loadbalancer.openstack.org/keep-floatingip: \"yes\" is not one of true, false",
                    "warning: annotation loadbalancer.openstack.org/lb-method: \"FASTEST\" is no algorithm of Octavia's; \
                     ROUND_ROBIN is used",
                ],
            ),
            (
                &[],
                json!({"ports": [], "ipFamilies": ["IPv4"], "loadBalancerSourceRanges": ["2001:db8::/32"]}),
                &[
                    "error: none of the source ranges is of the load balancer's family; add one, such as 0.0.0.0/0",
                    "error: the Service has no ports",
                ],
            ),
        ],
    );
}

/// DigitalOcean Services are reviewed. The table's rows about wrong annotations are those that the webhook of the Go
/// DigitalOcean CCM denies by itself.
#[test]
fn digitalocean_services_are_reviewed() {
    const P: &str = "service.beta.kubernetes.io/do-loadbalancer-";
    let keys = |names: &[(&str, &'static str)]| -> Vec<(String, &'static str)> {
        names
            .iter()
            .map(|(name, value)| (format!("{P}{name}"), *value))
            .collect()
    };
    let both = |a: &str, b: &str| {
        format!("error: annotations {P}{a} and {P}{b} are both set: only one can be")
    };
    let wrong = |name: &str, why: &str| format!("error: annotation {P}{name}: {why}");
    let table = vec![
        (
            keys(&[("type", "REGIONAL_NETWORK"), ("name", "web")]),
            json!({"ports": [{"port": 53, "protocol": "UDP"}]}),
            vec![],
        ),
        (
            keys(&[
                ("type", "REGIONAL"),
                ("size-slug", "lb-huge"),
                ("protocol", "smtp"),
                ("healthcheck-check-interval-seconds", "1"),
            ]),
            json!({}),
            vec![
                wrong(
                    "protocol",
                    "\"smtp\" is not one of tcp, http, https, http2, http3",
                ),
                wrong(
                    "size-slug",
                    "\"lb-huge\" is not one of lb-small, lb-medium, lb-large",
                ),
                wrong(
                    "healthcheck-check-interval-seconds",
                    "\"1\" is not a whole number from 3 to 300",
                ),
            ],
        ),
        (
            keys(&[("size-slug", "lb-small"), ("size-unit", "2")]),
            json!({}),
            vec![both("size-slug", "size-unit")],
        ),
        (
            keys(&[
                ("type", "REGIONAL"),
                ("certificate-id", "c"),
                ("tls-passthrough", "true"),
                ("tls-ports", "443"),
            ]),
            json!({"ports": [{"port": 443}]}),
            vec![both("certificate-id", "tls-passthrough")],
        ),
        (
            keys(&[("tls-ports", "443")]),
            json!({"ports": [{"port": 443}]}),
            vec![format!(
                "warning: annotation {P}tls-ports has no effect unless {P}type is REGIONAL"
            )],
        ),
        (
            keys(&[("type", "REGIONAL"), ("tls-ports", "443")]),
            json!({"ports": [{"port": 443}]}),
            vec![format!(
                "error: port 443 speaks TLS: set annotation {P}certificate-id, {P}certificate-name or {P}tls-passthrough"
            )],
        ),
        (
            keys(&[
                ("type", "REGIONAL"),
                ("http-ports", "80"),
                ("tls-ports", "80,443"),
                ("certificate-id", "c"),
            ]),
            json!({}),
            vec![format!(
                "error: annotations {P}http-ports, {P}tls-ports and {P}http2-ports: ports 80 are in two of them"
            )],
        ),
        (
            keys(&[
                ("sticky-sessions-type", "cookies"),
                ("sticky-sessions-cookie-name", "lb"),
            ]),
            json!({}),
            vec![format!(
                "error: annotation {P}sticky-sessions-cookie-ttl is required with annotation {P}sticky-sessions-type: cookies"
            )],
        ),
        (
            keys(&[("network", "INTERNAL"), ("network-stack", "DUALSTACK")]),
            json!({}),
            vec![wrong(
                "network-stack",
                &format!("DUALSTACK is not possible with annotation {P}network: INTERNAL"),
            )],
        ),
        (
            keys(&[]),
            json!({"ports": [{"port": 80, "protocol": "SCTP"}]}),
            vec!["error: port 80: protocol \"SCTP\" is not one of TCP, UDP".to_owned()],
        ),
        (
            vec![
                (format!("{P}typ"), "REGIONAL"),
                (
                    "kubernetes.digitalocean.com/firewall-manged".to_owned(),
                    "false",
                ),
                (
                    "service.kubernetes.io/do-loadbalancer-disowned".to_owned(),
                    "true",
                ),
            ],
            json!({}),
            [
                (format!("{P}typ"), format!("{P}type")),
                (
                    "service.kubernetes.io/do-loadbalancer-disowned".to_owned(),
                    "service.kubernetes.io/do-loadbalancer-disown".to_owned(),
                ),
                (
                    "kubernetes.digitalocean.com/firewall-manged".to_owned(),
                    "kubernetes.digitalocean.com/firewall-managed".to_owned(),
                ),
            ]
            .map(|(key, meant)| {
                format!("warning: annotation {key} is not known: did you mean {meant}?")
            })
            .into(),
        ),
    ];
    let borrowed =
        |(annotations, spec, expected): &(Vec<(String, &'static str)>, Value, Vec<String>)| {
            let annotations: Vec<_> = annotations
                .iter()
                .map(|(key, value)| (key.as_str(), *value))
                .collect();
            (service(&annotations, spec.clone()), expected.clone())
        };
    let (services, expected): (Vec<_>, Vec<_>) = table.iter().map(borrowed).unzip();
    assert_eq!(findings("digitalocean", &services), expected);
}

#[test]
fn mycloud_services_are_reviewed() {
    const P: &str = "service.beta.kubernetes.io/dlb-";
    let bandwidth = format!("{P}bandwidth-mbps");
    let misspelt = format!("{P}listener-idle-timeot.http");
    let keys = [(bandwidth.as_str(), "10"), (misspelt.as_str(), "30s")];
    let ports = json!({"ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "SCTP"}]});
    let found = findings("mycloud", &[service(&keys, ports)]).remove(0);
    assert_eq!(
        found,
        [
            format!("error: annotation {bandwidth} needs {P}network-type: internet"),
            "error: port 53: protocol \"SCTP\" is not one of TCP, UDP".to_owned(),
            format!(
                "warning: annotation {P}listener-idle-timeot is not known: did you mean {P}listener-idle-timeout?"
            ),
        ]
    );
}

/// Returns the names of this binary's cloud providers.
fn providers() -> Vec<String> {
    let unknown = check(&["--cloud-provider=nowhere", "-f", "-"], &[], "");
    let names = unknown
        .stderr
        .trim()
        .rsplit_once("this binary has: ")
        .unwrap()
        .1
        .to_owned();
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn no_provider_needs_a_credential_or_a_configuration() {
    let providers = providers();
    assert!(providers.len() >= 4, "{providers:?}");
    for provider in providers {
        assert_eq!(
            findings(&provider, &[service(&[], json!({}))]),
            [[""; 0]],
            "{provider}"
        );
    }
}

#[test]
fn no_provider_connects() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let directory = TempDir::with_prefix("ccm-check-").unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("--cloud-config={}", path.display())
    };
    let simulated = file(
        "cloud.yaml",
        format!("endpoint: {url}\ntokenFile: /nowhere\n"),
    );
    let openstack = file(
        "cloud.conf",
        format!("[Global]\nauth-url={url}/v3\nusername=ccm\nca-file=/nowhere\n"),
    );
    let web = service(&[], json!({})).to_string();
    let table: [Run<'_>; 5] = [
        (&["--cloud-provider=simulated", &simulated], &[]),
        (
            &["--cloud-provider=mycloud"],
            &[
                ("MYCLOUD_GLOBAL_ENDPOINT", &url),
                ("MYCLOUD_GLOBAL_TOKEN_FILE", "/nowhere"),
            ],
        ),
        (&["--cloud-provider=openstack", &openstack], &[]),
        (
            &["--cloud-provider=hcloud"],
            &[("HCLOUD_ENDPOINT", &url), ("HCLOUD_TOKEN_FILE", "/nowhere")],
        ),
        (
            &["--cloud-provider=digitalocean"],
            &[("DO_OVERRIDE_URL", &url)],
        ),
    ];
    for (arguments, variables) in table {
        let checked = check(&[&["-f", "-"], arguments].concat(), variables, &web);
        assert_eq!(
            (checked.code, checked.stderr.as_str()),
            (0, ""),
            "{arguments:?}"
        );
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "{arguments:?}"
        );
    }
}

const FILE: &str = "\
# Two Services, and something else.
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  annotations:
    simulated.ccm-rs/tier: golden
    simulated.ccm-rs/teir: basic
spec:
  type: LoadBalancer
  ports:
  - {port: 80}
  - name: dns
    port: 53
    protocol: SCTP
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: inner}, spec: {type: ClusterIP}}
- {apiVersion: v1, kind: Service, metadata: {name: other}, spec: {type: LoadBalancer, loadBalancerClass: acme.example/x}}
- apiVersion: v1
  kind: Service
  metadata:
    name: api
    annotations:
      simulated.ccm-rs/tier: true
  spec: {type: LoadBalancer}
";

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn findings_name_file_and_line_and_decide_about_the_exit_code() {
    let directory = TempDir::with_prefix("ccm-check-").unwrap();
    let all = write(directory.path(), "all.yaml", FILE);
    let warned = FILE
        .replace("golden", "basic")
        .replace("SCTP", "UDP")
        .replace("tier: true", "tier: 'basic'");
    let warned = write(directory.path(), "warned.yml", &warned);
    write(directory.path(), "notes.txt", "no: [yaml");
    let run = |arguments: &[&str]| {
        check(
            &[&["--cloud-provider=simulated"], arguments].concat(),
            &[],
            "",
        )
    };

    let checked = run(&["-f", &all]);
    let expected = format!(
        "{all}:12: error: Service shop/web: annotation simulated.ccm-rs/tier: \"golden\" is not one of basic, premium\n\
         {all}:19: error: Service shop/web: port 53: protocol \"SCTP\" is not one of TCP, UDP\n\
         {all}:13: warning: Service shop/web: annotation simulated.ccm-rs/teir is not known: did you mean simulated.ccm-rs/tier?\n\
         {all}:32: error: Service api: metadata.annotations.simulated.ccm-rs/tier: invalid type: boolean `true`, expected a \
         string; put the value in quotes\n\
         2 Services checked: 3 errors, 1 warning; 3 other objects skipped\n"
    );
    assert_eq!(
        (checked.stdout, checked.stderr.as_str(), checked.code),
        (expected, "", 1)
    );

    let of_directory = run(&["-f", &directory.path().display().to_string()]);
    assert!(
        of_directory
            .stdout
            .ends_with("4 Services checked: 3 errors, 2 warnings; 6 other objects skipped\n")
    );
    let table: [(&[&str], i32); 4] = [
        (&["-f", &warned], 0),
        (&["-f", &warned, "--strict"], 1),
        (&["-f", &warned, "--filename", &all], 1),
        (
            &[
                "-f",
                &all,
                "--load-balancer-classes=acme.example/x",
                "--default-load-balancer=false",
            ],
            1,
        ),
    ];
    for (arguments, code) in table {
        let checked = run(arguments);
        assert_eq!(
            (checked.code, checked.stderr.as_str()),
            (code, ""),
            "{arguments:?} {}",
            checked.stdout
        );
    }
}

#[test]
fn input_that_cannot_be_used_ends_with_2_and_the_rest_is_checked() {
    let directory = TempDir::with_prefix("ccm-check-").unwrap();
    let all = write(directory.path(), "all.yaml", FILE);
    let broken = write(
        directory.path(),
        "broken.yaml",
        "kind: Service\nmetadata: {name: s3cret\n",
    );
    let table: [(&[&str], &str); 6] = [
        (
            &["-f", &broken, "-f", &all],
            "broken.yaml: no valid YAML in line ",
        ),
        (
            &["-f", "/nowhere.yaml"],
            "Error: cannot read /nowhere.yaml: No such file or directory",
        ),
        (
            &[],
            "Error: no files: name files or directories with -f, or - for standard input",
        ),
        (
            &["-f", &all, "--cloud-provider=nowhere"],
            "unknown cloud provider \"nowhere\"",
        ),
        (
            &["-f", &all, "--cloud-provider=external"],
            "--cloud-provider=external is not a provider of this binary",
        ),
        (&["-f", &all, "--strikt"], "did you mean --strict?"),
    ];
    for (arguments, expected) in table {
        let checked = check(
            &[&["--cloud-provider=simulated"], arguments].concat(),
            &[],
            "",
        );
        assert_eq!(checked.code, 2, "{arguments:?}: {}", checked.stderr);
        assert!(
            checked.stderr.contains(expected) && !checked.stderr.contains("s3cret"),
            "{}",
            checked.stderr
        );
        assert_eq!(
            checked.stdout.contains("3 errors"),
            arguments.contains(&broken.as_str()),
            "{}",
            checked.stdout
        );
    }
    let json = check(
        &["--cloud-provider=hcloud", "-f", &broken, "--output=json"],
        &[("HCLOUD_DEBUG", "maybe")],
        "",
    );
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    let error = report["errors"][0].as_str().unwrap();
    assert!(
        json.code == 2 && error.contains("HCLOUD_DEBUG: \"maybe\" is not true or false"),
        "{error}"
    );
    let off = [("HCLOUD_LOAD_BALANCERS_ENABLED", "false")];
    let off = check(&["--cloud-provider=hcloud", "-f", &all], &off, "");
    assert!(
        off.code == 2 && off.stderr.contains("runs no load balancers"),
        "{}",
        off.stderr
    );
}

#[test]
fn json_says_the_same_as_the_text() {
    let checked = check(
        &["--cloud-provider=simulated", "-f", "-", "--output=json"],
        &[],
        FILE,
    );
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    let first = json!({
        "file": "stdin", "line": 12, "document": 2, "service": "shop/web", "severity": "error",
        "text": "annotation simulated.ccm-rs/tier: \"golden\" is not one of basic, premium",
    });
    assert_eq!(
        (
            &report["version"],
            &report["provider"],
            &report["findings"][0]
        ),
        (&json!(1), &json!("simulated"), &first)
    );
    let summary = json!({"services": 2, "skipped": 3, "errors": 3, "warnings": 1, "exitCode": 1});
    assert_eq!(
        (&report["errors"], &report["summary"]),
        (&json!([]), &summary)
    );
    assert_eq!(checked.code, 1);
}

#[test]
fn help_shows_what_concerns_the_check() {
    let help = check(&["--help"], &[], "");
    assert_eq!(help.code, 0, "{}", help.stderr);
    for word in [
        "-f, --filename",
        "-R, --recursive",
        "--strict",
        "--output",
        "--cloud-provider",
        "Exit code: 0 nothing",
    ] {
        assert!(
            help.stdout.contains(word),
            "{word} is missing in:\n{}",
            help.stdout
        );
    }
    assert!(
        !help.stdout.contains("--leader-elect") && !help.stdout.contains("--concurrent"),
        "{}",
        help.stdout
    );
    let output = Command::new(BINARY)
        .args(["help", "check"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), help.stdout);
}

#[test]
fn each_annotation_of_a_providers_page_is_warned_of_when_it_is_misspelt() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers");
    let pages: Vec<_> = std::fs::read_dir(pages)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let mut with_page = 0;
    for provider in providers() {
        let is_about = |page: &&String| page.contains(&format!("--cloud-provider={provider}"));
        let Some(page) = pages
            .iter()
            .filter(|page| !page.starts_with("# Writing"))
            .find(is_about)
        else {
            continue;
        };
        with_page += 1;
        let tables = page
            .split("annotations begins")
            .skip(1)
            .filter_map(|part| part.split("annotations ends").next());
        let rows = tables
            .flat_map(str::lines)
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let keys: Vec<_> = rows.map(|(key, _)| key).collect();
        assert!(!keys.is_empty(), "{provider}: its page lists no annotation");
        for key in keys {
            let misspelt = format!("{key}z");
            let found = findings(&provider, &[service(&[(&misspelt, "x")], json!({}))]).remove(0);
            let expected =
                format!("warning: annotation {misspelt} is not known: did you mean {key}?");
            assert_eq!(found, [expected], "{provider}");
        }
    }
    assert!(with_page >= 4, "{with_page} providers have a page");
}

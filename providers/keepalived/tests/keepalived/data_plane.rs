//! Real keepalived in network namespaces: what the provider writes becomes an address that packets reach.
//!
//! `CCM_TEST_NETNS` names the directory of the test bed: `etc/vips.conf` has one address in each line, and
//! `run/keepalived-lb1.pid` the process to signal. The namespaces are `tb-client`, `tb-lb1` and `tb-lb2`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cloud_provider::Service;

use crate::harness::Harness;

const BALANCERS: [&str; 2] = ["lb1", "lb2"];

/// A stand-in for kube-keepalived-vip: it turns the ConfigMap into the configuration of keepalived on each Node.
struct DataPlane {
    directory: PathBuf,
    /// Lines that were there before.
    before: String,
}

impl DataPlane {
    fn new() -> Self {
        let directory = PathBuf::from(std::env::var_os("CCM_TEST_NETNS").expect("CCM_TEST_NETNS"));
        let before = std::fs::read_to_string(directory.join("etc/vips.conf"))
            .expect("the test bed's addresses");
        Self { directory, before }
    }

    fn process(&self, balancer: &str) -> String {
        let file = self
            .directory
            .join(format!("run/keepalived-{balancer}.pid"));
        let text = std::fs::read_to_string(file).expect("a running keepalived");
        text.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    fn follow(&self, harness: &Harness) {
        let lines = harness
            .addresses()
            .into_iter()
            .map(|(ip, _)| format!("{ip}/24 dev eth0\n"));
        let text = std::iter::once(self.before.clone())
            .chain(lines)
            .collect::<String>();
        std::fs::write(self.directory.join("etc/vips.conf"), text).expect("written addresses");
        self.signal();
    }

    /// Lets each keepalived read its addresses again.
    fn signal(&self) {
        BALANCERS
            .iter()
            .for_each(|balancer| _ = run("kill", &["-HUP", &self.process(balancer)]));
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        _ = std::fs::write(self.directory.join("etc/vips.conf"), &self.before);
        self.signal();
    }
}

/// Runs a command, and returns its output; `None` if it failed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stderr(Stdio::null())
        .output()
        .expect("a program");
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the load balancers that carry an address.
fn holders(address: &str) -> Vec<&'static str> {
    let has = |balancer: &&str| {
        let shown = run(
            "ip",
            &[
                "netns",
                "exec",
                &format!("tb-{balancer}"),
                "ip",
                "-br",
                "addr",
                "show",
                "eth0",
            ],
        );
        shown.is_some_and(|text| {
            text.split_whitespace()
                .any(|word| word == format!("{address}/24"))
        })
    };
    BALANCERS.into_iter().filter(has).collect()
}

/// Returns `true` if a packet of the client is answered.
fn arrives(address: &str) -> bool {
    run(
        "ip",
        &[
            "netns",
            "exec",
            "tb-client",
            "ping",
            "-c",
            "1",
            "-W",
            "1",
            address,
        ],
    )
    .is_some()
}

/// Waits until the condition holds, and prints how long that took.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what}: not within 30 s"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{what}: after {:.1} s", start.elapsed().as_secs_f64());
}

#[tokio::test]
#[ignore = "needs the network namespaces of a test bed, whose directory is in CCM_TEST_NETNS"]
async fn packets_reach_an_address_before_and_after_a_keepalived_is_killed_and_no_more_after_its_deletion()
 {
    let harness = Harness::new("10.99.0.150-10.99.0.159");
    let plane = DataPlane::new();
    let program = harness.start(None).await;
    let services = ["web", "api"].map(|name| harness.service(name));
    for service in &services {
        program
            .ensure(service)
            .await
            .expect("an answer")
            .expect("an address");
    }
    assert!(
        !arrives("10.99.0.150"),
        "the address is up before keepalived has it"
    );
    plane.follow(&harness);
    for address in ["10.99.0.150", "10.99.0.151"] {
        until(&format!("a packet to {address} arrives"), || {
            arrives(address)
        })
        .await;
    }
    let first = holders("10.99.0.150");
    assert_eq!(first.len(), 1, "one carries the address");
    run("kill", &["-TERM", &plane.process(first[0])]).expect("a running keepalived");
    until("the other keepalived carries the address", || {
        holders("10.99.0.150")
            .iter()
            .all(|holder| *holder != first[0])
            && !holders("10.99.0.150").is_empty()
    })
    .await;
    until("a packet to 10.99.0.150 arrives again", || {
        arrives("10.99.0.150")
    })
    .await;
    let api: &Service = &services[1];
    program
        .delete(api)
        .await
        .expect("an answer")
        .expect("a deletion");
    plane.follow(&harness);
    until("nobody carries the address of the deleted Service", || {
        holders("10.99.0.151").is_empty()
    })
    .await;
    assert!(arrives("10.99.0.150"), "the other Service's address stays");
}

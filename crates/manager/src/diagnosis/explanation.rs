//! Explanation of an error of the Kubernetes client in one paragraph.

use std::net::IpAddr;
use std::time::Duration;

use runtime::client::{Attempt, NoApiServer};

use super::cause::{Cause, TlsProblem, words};
use super::{Origin, Situation};

/// Directory with a Pod's credential.
const POD_CREDENTIAL: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Explains an error as one paragraph without a full stop at the end: the failure, the attempts and the remedy.
#[must_use]
pub fn explain(error: &kube::Error, situation: &Situation) -> String {
    let cause = Cause::of(error);
    let server = if situation.server.is_empty() {
        "the API server".to_owned()
    } else {
        situation.server.clone()
    };
    let tried = tried(situation.tried_for);
    let from = &situation.origin;
    let words = words(error);
    if let Some(none) = NoApiServer::of(error) {
        return nowhere(none, &tried);
    }
    match cause {
        Cause::Dns => dns(situation, &tried, &words),
        Cause::Refused => not_there(
            situation,
            &format!("nothing listens at {server} (from {from}){tried}: {words}"),
        ),
        Cause::Unreachable => not_there(
            situation,
            &format!("there is no route to {server} (from {from}){tried}: {words}"),
        ),
        Cause::TimedOut => not_there(
            situation,
            &format!("the API server at {server} (from {from}) gave no answer{tried}: {words}"),
        ),
        Cause::Cut => format!(
            "the connection to the API server at {server} was cut{tried}: {words}. A proxy, a load balancer or a firewall \
             in between does that, or an API server that stops: check whether another client gets an answer there"
        ),
        Cause::Tls(problem) => tls(&problem, situation, &server, &words),
        Cause::Credential => format!(
            "the credential in {from} cannot be read: {words}. Run the exec plugin, or read the file, that it names \
             by hand, as this user"
        ),
        Cause::Unauthorized => unauthorized(situation, &server, &words),
        Cause::Forbidden => format!(
            "the API server at {server} does not allow the request: {words}. The role of this identity lacks a rule; \
             `cloud-controller-manager doctor` lists all that are missing, with the text to add"
        ),
        Cause::Busy(code) => format!(
            "the API server at {server} answers {code}{tried}: {words}. It is starting, overloaded or has lost its \
             storage: read {server}/readyz?verbose and its log"
        ),
        Cause::NotAnApi => format!(
            "the server at {server} (from {from}) is no Kubernetes API server: {words}. Check scheme, host and port \
             there"
        ),
        Cause::Other => {
            format!("the API server at {server} (from {from}) could not be asked{tried}: {words}")
        }
    }
}

fn tried(time: Duration) -> String {
    if time.is_zero() {
        String::new()
    } else {
        format!(", tried for {} s", time.as_secs())
    }
}

fn dns(situation: &Situation, tried: &str, words: &str) -> String {
    let asked = match situation.resolvers.as_slice() {
        [] => "/etc/resolv.conf names no server".to_owned(),
        servers => format!("asked {}, from /etc/resolv.conf", servers.join(" and ")),
    };
    format!(
        "the API server's name {:?} (from {}) could not be resolved ({asked}){tried}: {words}. If the name is right, the \
         DNS is not: a Pod that is to start before the cluster's DNS needs `dnsPolicy: Default` (with `hostNetwork: true`), \
         which takes the node's own servers; or give an address instead of a name",
        situation.host(),
        situation.origin,
    )
}

/// Explains that no server is reachable. In a cluster, the usual cause is the Service address before kube-proxy works
/// (DEP-43).
fn not_there(situation: &Situation, what: &str) -> String {
    if situation.origin != Origin::Pod {
        return format!(
            "{what}. Check that the API server runs there, and that host, port and the firewalls between are right"
        );
    }
    let is_loopback = situation
        .host()
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_loopback());
    if is_loopback {
        return format!(
            "{what}. On this node no API server listens there: KUBERNETES_SERVICE_HOST=127.0.0.1 is right only on \
             control-plane nodes, with `hostNetwork: true` and KUBERNETES_SERVICE_PORT the API server's port (6443); \
             elsewhere name a control-plane node's address"
        );
    }
    format!(
        "{what}. The address of Service \"kubernetes\" works only where kube-proxy (or what replaces it) runs already. To \
         do without, set KUBERNETES_SERVICE_HOST=127.0.0.1 (or the address of a control-plane node) and \
         KUBERNETES_SERVICE_PORT=6443 in the Pod's environment, with `hostNetwork: true`"
    )
}

/// Explains that no candidate for the API server can be used (APP-175).
fn nowhere(none: &NoApiServer, tried: &str) -> String {
    format!("{none}{tried}. {}", remedy_of(&none.attempts))
}

/// Returns the remedy for candidates that cannot be used.
pub(crate) fn remedy_of(attempts: &[Attempt]) -> String {
    let refused = attempts.iter().find(|attempt| attempt.is_refused);
    let refused = refused.map(|attempt| {
        format!(
            "The server at {} is not of this cluster, or its certificate lacks the name kubernetes.default.svc or has \
             expired: the CA is that in {POD_CREDENTIAL}/ca.crt. ",
            attempt.url
        )
    });
    format!(
        "{}The address of Service \"kubernetes\" works only where kube-proxy (or what replaces it) runs already. Where the \
         node has an API server, or a load balancer for one, run the Pod with `hostNetwork: true` and name its port in \
         --api-server-candidates=https://127.0.0.1:PORT; elsewhere set KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT \
         in the Pod's environment",
        refused.unwrap_or_default()
    )
}

fn tls(problem: &TlsProblem, situation: &Situation, server: &str, words: &str) -> String {
    let authority = match &situation.origin {
        Origin::Pod | Origin::Candidate => format!("{POD_CREDENTIAL}/ca.crt"),
        Origin::Kubeconfig(path) => {
            format!(
                "certificate-authority-data or certificate-authority in {}",
                path.display()
            )
        }
        Origin::Master => {
            "the machine's own list, as --master without a kubeconfig names none".to_owned()
        }
    };
    let (what, remedy) = match problem {
        TlsProblem::UnknownIssuer => (
            "is not signed by the CA that this process trusts",
            format!(
                "The CA comes from {authority}: it belongs to another cluster, or is older than the server's CA; or a \
                 proxy in between presents a certificate of its own"
            ),
        ),
        TlsProblem::Expired => (
            "has expired",
            "Renew it (`kubeadm certs renew apiserver`, or as your distribution does), or set this machine's clock right".to_owned(),
        ),
        TlsProblem::NotValidYet => ("is not valid yet", "Set this machine's clock right, or the API server's".to_owned()),
        TlsProblem::WrongName => (
            "is for other names",
            format!(
                "Ask for one of these names, add {:?} to the certificate (`--apiserver-cert-extra-sans`), or set \
                 tls-server-name in the kubeconfig",
                situation.host()
            ),
        ),
        TlsProblem::PlainHttp => {
            return format!(
                "the server at {server} does not speak TLS: {words}. Check scheme and port in {}",
                situation.origin
            );
        }
        TlsProblem::Other => ("is refused, or TLS fails", format!("The trusted CA comes from {authority}")),
    };
    format!("the certificate of the API server at {server} {what}: {words}. {remedy}")
}

fn unauthorized(situation: &Situation, server: &str, words: &str) -> String {
    let remedy = match &situation.origin {
        Origin::Pod | Origin::Candidate => format!(
            "The token in {POD_CREDENTIAL}/token has expired, or is another cluster's, or its ServiceAccount was deleted: see \
             that the Pod's ServiceAccount exists, and restart the Pod"
        ),
        Origin::Kubeconfig(path) => format!(
            "The token or client certificate in {} has expired, belongs to another cluster, or does not exist: create \
             a new one",
            path.display()
        ),
        Origin::Master => {
            "--master alone provides no credential: pass --kubeconfig with a valid one as well"
                .to_owned()
        }
    };
    format!(
        "the API server at {server} does not know who asks (401): {words}. {remedy}. A clock that is wrong, here or there, has \
         the same effect"
    )
}

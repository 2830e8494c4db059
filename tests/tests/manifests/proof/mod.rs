//! Proof that the program needs every permission of the manifests, and no others: it runs through a scenario of all
//! controllers as the manifests' account.

mod proxy;
pub(crate) mod scenario;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ccm_tests::api_requests::ApiRequest;
use ccm_tests::wait::until;
use kube::Client;
use serde_json::{Value, json};

use crate::accounts;
use crate::atom::{ACCOUNT, Atom, granted, of_rules, wanted};
use crate::cluster::connect;
use crate::cluster_objects::{apply, remove};
use crate::documents::read;
use crate::environment::Environment;
use crate::helm::Helm;
use crate::rules::everything;
use scenario::{Cast, SCRAPER, Scenario};

/// Time until a change of roles applies, and until a refusal shows.
const LIMIT: Duration = Duration::from_secs(300);
/// Time to wait for a refusal when everything else is done.
const LAST: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// The role of the Go cloud-controller-manager (DEP-5), and nothing more.
const REFERENCE: &str = r#"
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, update, patch, delete]}
- {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
- {apiGroups: [""], resources: [services], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [services/status], verbs: [patch]}
- {apiGroups: [""], resources: [events], verbs: [create, patch, update]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch, update]}
"#;
const REFERENCE_LEASES: &str = r#"
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [cloud-controller-manager], verbs: [get, update]}
"#;

/// Returns the account, and roles that grant it exactly these permissions.
fn roles(atoms: &BTreeSet<Atom>) -> Vec<Value> {
    let mut documents = vec![accounts::document(ACCOUNT)];
    let namespaces: BTreeSet<_> = atoms.iter().map(|atom| atom.namespace.clone()).collect();
    for namespace in namespaces {
        let rules: Vec<_> = atoms
            .iter()
            .filter(|atom| atom.namespace == namespace)
            .map(Atom::rule)
            .collect();
        documents.extend(bound("e2e-ccm", &namespace, &json!(rules), ACCOUNT));
    }
    documents
}

/// Returns a role and its binding to an account.
fn bound(name: &str, namespace: &str, rules: &Value, account: &str) -> [Value; 2] {
    let (home, subject) = account.split_once('/').unwrap_or_default();
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    let mut metadata = json!({"name": name});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    let version = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
        json!({"apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": home, "name": subject}]}),
    ]
}

/// Returns an account that may scrape the metrics.
fn scraper() -> Vec<Value> {
    let rules = json!([{"nonResourceURLs": ["/metrics", "/metrics/slis"], "verbs": ["get"]}]);
    [
        vec![accounts::document(SCRAPER)],
        bound("e2e-scraper", "", &rules, SCRAPER).to_vec(),
    ]
    .concat()
}

/// Applies roles, waits until they count, plays, and removes them whatever happened.
async fn with_roles<T>(
    environment: &Environment,
    documents: Vec<Value>,
    play: impl AsyncFnOnce(&Client) -> Result<T>,
) -> Result<T> {
    let admin = connect(environment).await?;
    let all = [documents, scraper()].concat();
    remove(&admin, &all).await?;
    apply(&admin, &all, false).await?;
    let played = async {
        let mut granted = granted(&all)?;
        may_do(
            environment,
            &admin,
            &granted.remove(ACCOUNT).unwrap_or_default(),
        )
        .await?;
        for (account, atoms) in granted.iter().filter(|(account, _)| *account != SCRAPER) {
            may_do_at_least(environment, account, atoms).await?;
        }
        play(&admin).await
    };
    let played = played.await;
    let cleaned = scenario::clean_up(&admin).await.context("cleaning up");
    let removed = remove(&admin, &all).await;
    played.and_then(|played| cleaned.and(removed).map(|()| played))
}

/// Returns the permissions that apply in a namespace. The result does not name the namespace.
fn within(atoms: &BTreeSet<Atom>, namespace: &str) -> BTreeSet<Atom> {
    let counts = atoms
        .iter()
        .filter(|atom| atom.namespace.is_empty() || atom.namespace == namespace);
    counts
        .map(|atom| Atom {
            namespace: String::new(),
            ..atom.clone()
        })
        .collect()
}

fn say<'a>(atoms: impl Iterator<Item = &'a Atom>) -> String {
    atoms
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

const NAMESPACES: [&str; 2] = ["kube-system", "default"];

/// Waits until the account has exactly these permissions, apart from those of all users. New accounts and roles apply
/// after a delay.
async fn may_do(environment: &Environment, admin: &Client, atoms: &BTreeSet<Atom>) -> Result<()> {
    let account = accounts::client(environment, admin, ACCOUNT).await?;
    let nobody = accounts::client(environment, admin, SCRAPER).await?;
    for namespace in NAMESPACES {
        let expected = within(atoms, namespace);
        until(
            &format!("the account's permissions in {namespace}"),
            LIMIT,
            async || {
                let everybody = accounts::may(&nobody, namespace).await?;
                let has: BTreeSet<_> = accounts::may(&account, namespace)
                    .await?
                    .difference(&everybody)
                    .cloned()
                    .collect();
                ensure!(
                    has == expected,
                    "in {namespace} the account may also: {}; and may not: {}",
                    say(has.difference(&expected)),
                    say(expected.difference(&has))
                );
                Ok(())
            },
        )
        .await?;
    }
    Ok(())
}

/// Waits until another account may do this.
async fn may_do_at_least(
    environment: &Environment,
    account: &str,
    atoms: &BTreeSet<Atom>,
) -> Result<()> {
    let client = accounts::acting_as(environment, account).await?;
    for namespace in NAMESPACES {
        let expected = within(atoms, namespace);
        until(
            &format!("{account}'s permissions in {namespace}"),
            LIMIT,
            async || {
                let has = accounts::may(&client, namespace).await?;
                ensure!(
                    expected.is_subset(&has),
                    "it may not: {}",
                    say(expected.difference(&has))
                );
                Ok(())
            },
        )
        .await?;
    }
    Ok(())
}

/// Checks that `can-i --list` of the account is what the program needs (acceptance check 1 of the deployment rules).
pub(crate) async fn the_account_may_do_what_is_needed_and_nothing_else(
    environment: &Environment,
) -> Result<()> {
    let documents = read(&["manifests/rbac.yaml", "manifests/rbac-volumes.yaml"])?;
    let needed = wanted(&everything()).remove(ACCOUNT).unwrap_or_default();
    with_roles(environment, documents, async |admin| {
        may_do(environment, admin, &needed).await
    })
    .await
}

/// Runs the whole scenario, and returns the refused requests.
async fn live(environment: &Environment, cast: Cast, label: &str) -> Result<Vec<ApiRequest>> {
    let mut scenario = Scenario::set(environment, cast, label).await?;
    let played = scenario.play().await;
    let refused = scenario.refused();
    let ended = match played {
        Ok(()) => scenario.end().await,
        Err(error) => Err(error),
    };
    ended.map_err(|error| {
        anyhow!(
            "{error:#}\n\nrefused: {refused:?}\n\nits last lines:\n{}",
            scenario.tail()
        )
    })?;
    Ok(scenario.refused())
}

pub(crate) async fn as_the_account_of_the_manifests_nothing_is_refused(
    environment: &Environment,
) -> Result<()> {
    for streams in [true, false] {
        let documents = read(&["manifests/rbac.yaml", "manifests/rbac-volumes.yaml"])?;
        with_roles(environment, documents, async |_| {
            let refused = live(
                environment,
                Cast {
                    streams,
                    vanishes: streams,
                    ..Cast::default()
                },
                "ours",
            )
            .await?;
            ensure!(refused.is_empty(), "it was refused: {refused:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Accounts that the controllers act as; kube-controller-manager creates some of them, if it runs.
const CONTROLLERS: [&str; 4] = [
    "node-controller",
    "route-controller",
    "service-controller",
    "pvl-controller",
];

pub(crate) async fn with_an_account_for_each_controller_nothing_is_refused(
    environment: &Environment,
    helm: &Helm,
) -> Result<()> {
    let values = [
        "cloudProvider=simulated",
        "clusterCIDR=10.244.0.0/16",
        "controllers.volume=true",
    ];
    let values = values
        .into_iter()
        .chain(["useServiceAccountCredentials=true"])
        .map(str::to_owned);
    let mut documents = helm.render(&values.collect::<Vec<_>>())?;
    documents.retain(|document| {
        document["kind"]
            .as_str()
            .is_some_and(|kind| kind.contains("Role") || kind == "ServiceAccount")
    });
    let admin = connect(environment).await?;
    let accounts = CONTROLLERS.map(|name| accounts::document(&format!("kube-system/{name}")));
    // The program creates missing accounts.
    remove(&admin, &accounts[..3]).await?;
    with_roles(environment, documents, async |_| {
        let refused = live(
            environment,
            Cast {
                accounts: true,
                ..Cast::default()
            },
            "accounts",
        )
        .await?;
        ensure!(refused.is_empty(), "it was refused: {refused:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn the_role_of_the_reference_is_enough(environment: &Environment) -> Result<()> {
    let rules = |text: &str| -> Result<Value> { Ok(serde_saphyr::from_str(text)?) };
    let mut atoms = of_rules(&rules(REFERENCE)?, "");
    atoms.extend(of_rules(&rules(REFERENCE_LEASES)?, "kube-system"));
    // The two bindings to roles of every cluster are part of it.
    atoms.extend(
        wanted(&everything())
            .remove(ACCOUNT)
            .unwrap_or_default()
            .into_iter()
            .filter(|atom| {
                ["tokenreviews", "subjectaccessreviews", "configmaps"].contains(&&*atom.resource)
            }),
    );
    with_roles(environment, roles(&atoms), async |_| {
        let refused = live(
            environment,
            Cast {
                volumes: false,
                vanishes: true,
                ..Cast::default()
            },
            "reference",
        )
        .await?;
        let kinds: BTreeSet<_> = refused
            .iter()
            .map(|request| format!("{} {} {}", request.verb, request.resource, request.name))
            .collect();
        println!("with the reference's role it works; refused were: {kinds:?}");
        let known = |text: &str| {
            text.starts_with("GET namespaces")
                || text.starts_with("WATCH leases")
                || text.starts_with("LIST leases")
        };
        ensure!(
            kinds.iter().all(|kind| known(kind)),
            "it was refused: {kinds:?}"
        );
        Ok(())
    })
    .await
}

/// Returns the RBAC verb of a request.
fn verb(request: &ApiRequest) -> &'static str {
    match request.verb {
        "GET" => "get",
        "LIST" => "list",
        "WATCH" => "watch",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Plays with one permission less until it is missed.
async fn missed(environment: &Environment, atom: &Atom, number: usize) -> Result<ApiRequest> {
    let all = wanted(&everything()).remove(ACCOUNT).unwrap_or_default();
    let without: BTreeSet<_> = all.into_iter().filter(|other| other != atom).collect();
    with_roles(environment, roles(&without), async |_| {
        // A server that streams lists is never asked for one; and a Lease is only created if it does not exist.
        let vanishes = atom.verb == "create" && atom.resource == "leases";
        let cast = Cast {
            streams: atom.verb != "list",
            vanishes,
            ..Cast::default()
        };
        let scenario = Scenario::set(environment, cast, &format!("without-{number}")).await?;
        let refusal = async || loop {
            let fits = |request: &ApiRequest| {
                verb(request) == atom.verb && request.resource == atom.resource
            };
            if let Some(refused) = scenario.refused().into_iter().find(fits) {
                return refused;
            }
            tokio::time::sleep(PAUSE).await;
        };
        let played = tokio::select! {
            refused = refusal() => return Ok(refused),
            played = scenario.play() => played,
            () = tokio::time::sleep(LIMIT) => Err(anyhow!("nothing happened for {LIMIT:?}")),
        };
        if let Ok(refused) = tokio::time::timeout(LAST, refusal()).await {
            return Ok(refused);
        }
        let others = scenario.refused();
        match played {
            Ok(()) => bail!("without it all went well; refused: {others:?}"),
            Err(error) => bail!(
                "it was not refused, but: {error:#}; refused: {others:?}\n{}",
                scenario.tail()
            ),
        }
    })
    .await
}

pub(crate) async fn without_any_one_permission_something_is_refused(
    environment: &Environment,
) -> Result<()> {
    let needed = wanted(&everything())
        .remove(ACCOUNT)
        .context("no permissions")?;
    let only = std::env::var("CCM_TEST_PERMISSION").unwrap_or_default();
    let mut superfluous = Vec::new();
    println!("| permission that is removed | what is refused then |\n|---|---|");
    for (number, atom) in needed
        .iter()
        .enumerate()
        .filter(|(_, atom)| atom.to_string().contains(&only))
    {
        match missed(environment, atom, number).await {
            Ok(request) => {
                let name = if request.name.is_empty() {
                    String::new()
                } else {
                    format!(" {}", request.name)
                };
                println!("| {atom} | {} {}{name} |", request.verb, request.resource);
            }
            Err(error) => {
                println!("| {atom} | NOTHING |");
                superfluous.push(format!("{atom}: {error:#}"));
            }
        }
    }
    ensure!(superfluous.is_empty(), "{}", superfluous.join("\n\n"));
    Ok(())
}

//! Virtual IP addresses as load balancers of Services.

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{
    Cluster, Error, Goal, LoadBalancerDescription, LoadBalancerIngress, LoadBalancerRequest,
    LoadBalancerStatus, LoadBalancers, OwnedResource, Owner, Ownership, Plan, PlanAction, PlanStep,
    RemovalOutcome, Result, Service, ServiceReview, TargetIdentity, async_trait,
};
use provider_kit::shared_document::{DocumentStore, SharedDocuments};

use crate::address_book::{AddressBook, Entry};
use crate::assignment::desired;
use crate::config::Config;
use crate::config_map::ConfigMapStore;
use crate::services::{KnownServices, Services};

/// Addresses of Services in one ConfigMap. Nodes do not matter: each of them runs keepalived.
#[derive(Clone)]
pub(crate) struct VirtualAddresses {
    pub(crate) config: Arc<Config>,
    pub(crate) books: SharedDocuments<ConfigMapStore>,
}

impl VirtualAddresses {
    /// Returns a change of the document that gives the Service what it requests, or takes everything from it.
    fn change(
        &self,
        service: &Service,
        goal: Goal,
        services: KnownServices,
    ) -> Result<impl Fn(&mut AddressBook) -> Result<()> + Send + Sync + use<>> {
        let parsed = desired(service, &self.config);
        if goal == Goal::Ensured {
            parsed.check()?;
        }
        if parsed.spec.uid.is_empty() {
            return Err(Error::invalid("metadata.uid: the Service has none yet"));
        }
        let desired = parsed.spec;
        let config = Arc::clone(&self.config);
        Ok(move |book: &mut AddressBook| match goal {
            Goal::Ensured => desired.assign(book, &config.pools, || services.services()),
            Goal::Deleted => {
                desired.release(book);
                Ok(())
            }
        })
    }

    /// Brings the Service to the goal, and returns the document with which it is there. Writes nothing if it is there already.
    async fn reach(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<AddressBook> {
        let uid = uid(request.service);
        // The edit reads the document anyway. Only if the last one shows nothing to do, it is read here.
        let last = self.books.store().last.lock().clone();
        let mut before = match last {
            Some(last) => last,
            None => self.books.store().read(&()).await?.document,
        };
        let change = self.change(
            request.service,
            goal,
            self.known_services(&before, &request).await?,
        )?;
        let mut plan = planned(&before, &change, uid).unwrap_or_default();
        if plan.is_empty() {
            before = self.books.store().read(&()).await?.document;
            plan = planned(&before, &change, uid)?;
            if plan.is_empty() {
                return Ok(before);
            }
        }
        request.callbacks.on_plan(&plan);
        // Another writer may have come between: the outcome is what was written, not what was planned.
        let written = Arc::new(parking_lot::Mutex::new(AddressBook::default()));
        let shown = Arc::clone(&written);
        let edit = move |book: &mut AddressBook| {
            change(book)?;
            *shown.lock() = book.clone();
            Ok(())
        };
        self.books.edit(&(), edit).await?;
        let book = written.lock().clone();
        Ok(book)
    }

    /// Returns the Services of the cluster. Commands have no cache, and list them for a Service without an address.
    async fn known_services(
        &self,
        book: &AddressBook,
        request: &LoadBalancerRequest<'_>,
    ) -> Result<KnownServices> {
        let cluster = &self.books.store().cluster;
        if cluster.services().is_some() || book.has(uid(request.service)) {
            return Ok(KnownServices::Cached(cluster.clone()));
        }
        let mut services = Services::list(cluster).await?;
        request
            .nodes
            .iter()
            .for_each(|node| services.add_node(node));
        Ok(KnownServices::Listed(Arc::new(services)))
    }

    fn resource(&self, cluster: &Cluster, entry: &Entry) -> OwnedResource {
        let is_named = !entry.name.is_empty();
        OwnedResource {
            kind: "virtual IP address",
            id: id(entry),
            name: entry.ip.to_string(),
            // The ConfigMap is an object of the cluster: all of its entries are the cluster's.
            cluster: cluster.id.clone().unwrap_or_else(|| cluster.name.clone()),
            owner: Owner::Service(entry.uid.clone()),
            owner_name: is_named.then(|| format!("{}/{}", entry.namespace, entry.name)),
            addresses: vec![entry.ip.to_string()],
            details: vec![("config map".to_owned(), self.config.place())],
            ..OwnedResource::default()
        }
    }
}

fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
}

fn id(entry: &Entry) -> String {
    format!("{}/{}", entry.uid, entry.ip)
}

fn status(book: &AddressBook, uid: &str) -> Option<LoadBalancerStatus> {
    let ingress = |ip: IpAddr| LoadBalancerIngress {
        ip: Some(ip.to_string()),
        ip_mode: Some("VIP".to_owned()),
        ..LoadBalancerIngress::default()
    };
    let ingress: Vec<_> = book.of(uid).map(|entry| ingress(entry.ip)).collect();
    (!ingress.is_empty()).then_some(LoadBalancerStatus {
        ingress: Some(ingress),
    })
}

/// Returns the steps that a change of the document takes for one Service.
fn planned(
    before: &AddressBook,
    change: &impl Fn(&mut AddressBook) -> Result<()>,
    uid: &str,
) -> Result<Plan> {
    let mut after = before.clone();
    change(&mut after)?;
    Ok(steps(before, &after, uid))
}

/// Returns the steps between two states of the document, for one Service.
fn steps(before: &AddressBook, after: &AddressBook, uid: &str) -> Plan {
    let what = |entry: &Entry| format!("virtual IP address {}", entry.ip);
    let word = |entry: &Entry| {
        if entry.method.is_empty() {
            "the default".to_owned()
        } else {
            entry.method.clone()
        }
    };
    let mut steps = Vec::new();
    for entry in after.of(uid) {
        let detail = format!("forward method {}", word(entry));
        match before.of(uid).find(|object| object.ip == entry.ip) {
            None => steps.push(PlanStep {
                action: PlanAction::Create,
                what: what(entry),
                detail,
            }),
            Some(other_current) if other_current == entry => {}
            Some(other_object) if other_object.method == entry.method => {
                let detail = format!("{} → {}", other_object.service(), entry.service());
                steps.push(PlanStep {
                    action: PlanAction::Update,
                    what: what(entry),
                    detail,
                });
            }
            Some(current) => {
                let detail = format!("forward method {} → {}", word(current), word(entry));
                steps.push(PlanStep {
                    action: PlanAction::Update,
                    what: what(entry),
                    detail,
                });
            }
        }
    }
    let is_gone = |entry: &&Entry| !after.of(uid).any(|object| object.ip == entry.ip);
    let deleted = |entry| PlanStep {
        action: PlanAction::Delete,
        what: what(entry),
        detail: String::new(),
    };
    steps.extend(before.of(uid).filter(is_gone).map(deleted));
    Plan {
        steps,
        ..Plan::default()
    }
}

#[async_trait]
impl LoadBalancers for VirtualAddresses {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        Ok(status(
            &self.books.store().read(&()).await?.document,
            uid(request.service),
        ))
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        Ok(status(
            &self.reach(request, Goal::Ensured).await?,
            uid(request.service),
        ))
    }

    async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
        Ok(())
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.reach(request, Goal::Deleted).await.map(drop)
    }

    fn target_identity(&self) -> TargetIdentity {
        TargetIdentity::None
    }

    fn orphans(&self, _: &Cluster, service_exists: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        let last = self.books.store().last.lock();
        let orphans = last
            .as_ref()?
            .entries
            .iter()
            .filter(|entry| !service_exists(&entry.uid));
        Some(
            orphans
                .map(|entry| format!("virtual IP address {} of {}", entry.ip, entry.service()))
                .collect(),
        )
    }

    fn review(&self, service: &Service) -> ServiceReview {
        desired(service, &self.config).review()
    }

    async fn owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        let book = self.books.store().read(&()).await?.document;
        Ok(book
            .entries
            .iter()
            .map(|entry| self.resource(cluster, entry))
            .collect())
    }

    async fn read_owned(
        &self,
        cluster: &Cluster,
        wanted: &str,
        _: &[Arc<Service>],
    ) -> Result<Option<OwnedResource>> {
        let book = self.books.store().read(&()).await?.document;
        Ok(book
            .entries
            .iter()
            .find(|entry| id(entry) == wanted)
            .map(|entry| self.resource(cluster, entry)))
    }

    async fn delete_owned(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
        services: &[Arc<Service>],
    ) -> Result<RemovalOutcome> {
        let Some(found) = self.read_owned(cluster, &resource.id, services).await? else {
            return Ok(RemovalOutcome::NotFound);
        };
        let Owner::Service(owner) = found.owner else {
            return Ok(RemovalOutcome::NotFound);
        };
        if services.iter().any(|service| uid(service) == owner) {
            return Err(Error::invalid(format!(
                "{resource} belongs to a Service that exists"
            )));
        }
        let released = move |book: &mut AddressBook| {
            book.release(&owner);
            Ok(())
        };
        self.books.edit(&(), released).await?;
        Ok(RemovalOutcome::Deleted)
    }

    fn has_plans(&self) -> bool {
        true
    }

    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        let book = self.books.store().read(&()).await?.document;
        let uid = uid(request.service);
        let change = self.change(
            request.service,
            goal,
            self.known_services(&book, &request).await?,
        )?;
        planned(&book, &change, uid)
    }

    async fn describe(
        &self,
        request: LoadBalancerRequest<'_>,
    ) -> Result<Vec<LoadBalancerDescription>> {
        let book = self.books.store().read(&()).await?.document;
        let ports = request
            .service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten());
        let listeners: Vec<_> = ports
            .map(|port| {
                format!(
                    "{}/{}",
                    port.port,
                    port.protocol.as_deref().unwrap_or("TCP")
                )
            })
            .collect();
        let described = |entry: &Entry| LoadBalancerDescription {
            id: id(entry),
            name: entry.ip.to_string(),
            ownership: Ownership::Own,
            state: "given out; kube-keepalived-vip brings it up".to_owned(),
            addresses: vec![entry.ip.to_string()],
            listeners: listeners.clone(),
            ..LoadBalancerDescription::default()
        };
        Ok(book.of(uid(request.service)).map(described).collect())
    }
}

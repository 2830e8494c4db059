//! The users of the cluster, who create and change Services.

use cloud_provider::Service;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use runtime::api_error::{api_error, is_conflict};
use serde_json::json;

/// Maximum number of attempts of an update that conflicts with another.
const ATTEMPTS: u32 = 10;

/// Creates, changes and deletes Services in the namespace `default`.
pub(super) struct User(Api<Service>);

impl User {
    pub(super) fn new(client: Client) -> Self {
        Self(Api::namespaced(client, "default"))
    }

    /// Creates a Service of type LoadBalancer.
    ///
    /// # Errors
    /// The API server's error, with the name of the Service.
    pub(super) async fn create(&self, name: &str, port: u16) -> Result<(), String> {
        let service = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "type": "LoadBalancer",
                "selector": {"app": name},
                "ports": [{"name": "web", "port": port, "protocol": "TCP"}],
            },
        });
        let service =
            serde_json::from_value(service).map_err(|error| format!("Service {name}: {error}"))?;
        let created = self.0.create(&PostParams::default(), &service).await;
        created.map(drop).map_err(|error| about(name, &error))
    }

    /// Changes the port of a Service; its node port stays.
    ///
    /// # Errors
    /// The API server's error, with the name of the Service.
    pub(super) async fn change_port(&self, name: &str, port: u16) -> Result<(), String> {
        let change = |service: &mut Service| {
            let spec = service.spec.get_or_insert_default();
            spec.ports
                .iter_mut()
                .flatten()
                .for_each(|other_port| other_port.port = port.into());
        };
        self.edit(name, change).await
    }

    /// Changes the type of a Service.
    ///
    /// # Errors
    /// The API server's error, with the name of the Service.
    pub(super) async fn change_type(&self, name: &str, kind: &str) -> Result<(), String> {
        self.edit(name, |service| {
            service.spec.get_or_insert_default().type_ = Some(kind.to_owned());
        })
        .await
    }

    /// Deletes a Service, which exists until its finalizers are removed.
    ///
    /// # Errors
    /// The API server's error, with the name of the Service.
    pub(super) async fn delete(&self, name: &str) -> Result<(), String> {
        self.0
            .delete(name, &DeleteParams::default())
            .await
            .map(drop)
            .map_err(|error| about(name, &error))
    }

    /// Reads, changes and replaces a Service like `kubectl edit`, and retries on conflicts.
    async fn edit(&self, name: &str, change: impl Fn(&mut Service)) -> Result<(), String> {
        for attempt in 1.. {
            let mut service = self
                .0
                .get(name)
                .await
                .map_err(|error| about(name, &error))?;
            change(&mut service);
            match self.0.replace(name, &PostParams::default(), &service).await {
                Ok(_) => break,
                Err(error) if is_conflict(&error) && attempt < ATTEMPTS => {}
                Err(error) => return Err(about(name, &error)),
            }
        }
        Ok(())
    }
}

fn about(name: &str, error: &kube::Error) -> String {
    format!("Service {name}: {}", api_error(error))
}

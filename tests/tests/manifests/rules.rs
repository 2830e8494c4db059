//! The rules of the manifests and of the chart are what the program needs, no less and no more.

use anyhow::{Context, Result};
use cloud_provider::names::{
    ControllerNames, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
    SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER,
};
use manager::permissions::{Election, Features};

use crate::atom::{granted, same, wanted};
use crate::documents::read;
use crate::helm::Helm;

/// The controllers and their values in the chart.
const CONTROLLERS: [(ControllerNames, &str); 5] = [
    (NODE_CONTROLLER, "node"),
    (NODE_LIFECYCLE_CONTROLLER, "nodeLifecycle"),
    (ROUTE_CONTROLLER, "route"),
    (SERVICE_CONTROLLER, "service"),
    (VOLUME_LABEL_CONTROLLER, "volume"),
];

/// An installation of the chart, with the values that its permissions depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installation {
    /// A bit for each of [`CONTROLLERS`].
    controllers: u8,
    election: bool,
    accounts: bool,
    auth: bool,
}

impl Installation {
    /// Returns every set of controllers with the defaults, and every other switch with some of them.
    pub(crate) fn all() -> Vec<Self> {
        let default = Self {
            controllers: 0,
            election: true,
            accounts: false,
            auth: true,
        };
        let mut all: Vec<_> = (1..32)
            .map(|controllers| Self {
                controllers,
                ..default
            })
            .collect();
        for controllers in [0b1, 0b100, 0b1111, 0b10000, 0b11111] {
            for switches in 1..8_u8 {
                let on = |bit: u8| switches & bit != 0;
                all.push(Self {
                    controllers,
                    election: !on(1),
                    accounts: on(2),
                    auth: !on(4),
                });
            }
        }
        all
    }

    fn runs(self, index: usize) -> bool {
        self.controllers & (1 << index) != 0
    }

    /// Returns each controller, and `true` if it is enabled.
    pub(crate) fn controllers(self) -> impl Iterator<Item = (ControllerNames, bool)> {
        CONTROLLERS
            .into_iter()
            .enumerate()
            .map(move |(i, (names, _))| (names, self.runs(i)))
    }

    pub(crate) fn values(self) -> Vec<String> {
        let mut values = vec![
            "cloudProvider=simulated".to_owned(),
            "clusterCIDR=10.244.0.0/16".to_owned(),
        ];
        values.extend(
            CONTROLLERS
                .iter()
                .enumerate()
                .map(|(i, (_, name))| format!("controllers.{name}={}", self.runs(i))),
        );
        values.push(format!("leaderElection.enabled={}", self.election));
        if !self.election {
            values.extend(["kind=Deployment".to_owned(), "replicas=1".to_owned()]);
        }
        values.push(format!("useServiceAccountCredentials={}", self.accounts));
        values.push(format!("auth.enabled={}", self.auth));
        values
    }

    fn features(self) -> Features {
        let controllers = CONTROLLERS
            .iter()
            .enumerate()
            .filter(|(i, _)| self.runs(*i))
            .map(|(_, (names, _))| *names);
        Features {
            controllers: controllers.collect(),
            election: self.election.then(Election::default),
            service_account_credentials: self.accounts,
            caller_reviews: self.auth,
            authentication_lookup: self.auth,
            ..Features::default()
        }
    }
}

/// Returns the features with all controllers, the one for volumes included.
pub(crate) fn everything() -> Features {
    Features {
        controllers: CONTROLLERS.iter().map(|(names, _)| *names).collect(),
        ..Features::default()
    }
}

pub(crate) fn the_plain_manifests_grant_what_is_needed_and_nothing_else() -> Result<()> {
    let plain = granted(&read(&["manifests/rbac.yaml"])?)?;
    same(&plain, &wanted(&Features::default()), "rbac.yaml")?;
    let with_volumes = granted(&read(&[
        "manifests/rbac.yaml",
        "manifests/rbac-volumes.yaml",
    ])?)?;
    same(
        &with_volumes,
        &wanted(&everything()),
        "rbac.yaml and rbac-volumes.yaml",
    )?;
    let three = Features {
        controllers: vec![
            NODE_CONTROLLER,
            NODE_LIFECYCLE_CONTROLLER,
            SERVICE_CONTROLLER,
        ],
        election: None,
        ..Features::default()
    };
    same(
        &granted(&read(&["manifests/simulated.yaml"])?)?,
        &wanted(&three),
        "simulated.yaml",
    )?;
    let elected = Features {
        election: Features::default().election,
        ..three
    };
    same(
        &granted(&read(&["manifests/hcloud.yaml"])?)?,
        &wanted(&elected),
        "hcloud.yaml",
    )?;
    let networks = granted(&read(&["manifests/hcloud-networks.yaml"])?)?;
    same(
        &networks,
        &wanted(&Features::default()),
        "hcloud-networks.yaml",
    )
}

pub(crate) fn the_chart_grants_each_installation_what_it_needs_and_nothing_else(
    helm: &Helm,
) -> Result<()> {
    for installation in Installation::all() {
        let documents = helm.render(&installation.values())?;
        let granted = granted(&documents).with_context(|| format!("{installation:?}"))?;
        same(
            &granted,
            &wanted(&installation.features()),
            &format!("{installation:?}"),
        )?;
    }
    Ok(())
}

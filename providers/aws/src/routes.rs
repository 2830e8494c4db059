//! Routes for Pod ranges: routes of a VPC route table that lead to instances.

use aws_protocol::Query;
use cloud_provider::{Error, Node, Result, Route, async_trait};
use parking_lot::Mutex;
use provider_kit::inventory::{Found, Inventory, Key};
use provider_kit::routes::{Change, CloudRoute, IpNet, RouteCloud, Target};
use provider_kit::transport::Priority;
use serde::de::IgnoredAny;

use crate::api::{Api, Tag, all, wire};
use crate::instances::{Source, machine_id};

/// Tables of a page: EC2 takes no more.
const MOST: usize = 100;
/// Code of EC2 where another route has the range.
const EXISTS: &str = "RouteAlreadyExists";

wire! { "camelCase";
    Table { route_table_id: String, tag_set: Vec<Tag>, route_set: Vec<RouteAnswer> }
    RouteAnswer {
        destination_cidr_block: String, destination_ipv6_cidr_block: String, instance_id: String, state: String,
    }
}

impl RouteAnswer {
    /// Returns the route, if it leads to an instance or nowhere. Gateways and the like are others'.
    fn route(self) -> Option<CloudRoute> {
        let Self {
            destination_cidr_block: ipv4,
            destination_ipv6_cidr_block: ipv6,
            instance_id: id,
            state,
        } = self;
        let destination = if ipv4.is_empty() { ipv6 } else { ipv4 };
        let target = match (&*state, id.is_empty()) {
            ("blackhole", _) => Target::Gone(id),
            (_, true) => return None,
            (_, false) => Target::Machine {
                id,
                name: String::new(),
            },
        };
        let name = destination.clone();
        (!destination.is_empty()).then_some(CloudRoute {
            name,
            destination,
            target,
            ..CloudRoute::default()
        })
    }
}

/// The route table of the cluster.
pub(crate) struct VpcRoutes {
    api: Api,
    inventory: Inventory<Source>,
    /// ID of the table that was listed last.
    table: Mutex<Option<String>>,
}

impl VpcRoutes {
    pub(crate) fn new(api: Api, inventory: Inventory<Source>) -> Self {
        Self {
            api,
            inventory,
            table: Mutex::default(),
        }
    }

    /// Reads `RouteTableID`, or else the one table of the VPC with the cluster's tag.
    async fn read(&self) -> Result<Table> {
        let identity = self.api.identity().await?;
        let forced = self.api.config.route_table.as_ref();
        let query = Query::new("DescribeRouteTables");
        let query = match forced {
            Some(id) => query.filter("route-table-id", [id]),
            None => query.filter("vpc-id", [&identity.vpc]).page(MOST),
        };
        let mut tables = all(
            &self.api.aws.ec2,
            query,
            "routeTableSet",
            |entry: &Table| entry.route_table_id.clone(),
        )
        .await?;
        tables.retain(|entry| forced.is_some() || identity.has(&entry.tag_set));
        match (tables.pop(), &tables[..]) {
            (Some(table), []) => Ok(table),
            (last, others) => {
                let found = others.len() + usize::from(last.is_some());
                let wanted = match forced {
                    Some(id) => {
                        format!("{found} route tables are {id}; correct RouteTableID in [Global]")
                    }
                    None => format!(
                        "{found} route tables of VPC {} have the tag {}; tag exactly one, or set RouteTableID in [Global]",
                        identity.vpc,
                        identity.tag_key().unwrap_or_default()
                    ),
                };
                Err(Error::invalid(wanted))
            }
        }
    }

    async fn table(&self) -> Result<String> {
        let known = self.table.lock().clone();
        match known {
            Some(id) => Ok(id),
            None => Ok(self.read().await?.route_table_id),
        }
    }

    /// Returns a request for this route.
    async fn query(&self, action: &'static str, route: &CloudRoute) -> Result<Query> {
        let key = if route.destination.contains(':') {
            "DestinationIpv6CidrBlock"
        } else {
            "DestinationCidrBlock"
        };
        let query = Query::new(action)
            .set("RouteTableId", self.table().await?)
            .set(key, &route.destination);
        Ok(match &route.target {
            Target::Machine { id, .. } => query.set("InstanceId", id),
            _ => query,
        })
    }

    /// Leads a range elsewhere that leads to another instance, or nowhere. A gateway stays.
    async fn replace(&self, route: &CloudRoute, error: Error) -> Result<()> {
        let listed = self.list().await?;
        match listed
            .iter()
            .find(|other_route| other_route.has_destination_of(route))
        {
            Some(same) if same.target == route.target => Ok(()),
            Some(_) => self
                .api
                .aws
                .ec2
                .change(self.query("ReplaceRoute", route).await?.repeatable())
                .await
                .map(ignore),
            None => Err(error),
        }
    }
}

fn ignore(_: IgnoredAny) {}

#[async_trait]
impl RouteCloud for VpcRoutes {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let table = self.read().await?;
        *self.table.lock() = Some(table.route_table_id);
        Ok(table
            .route_set
            .into_iter()
            .filter_map(RouteAnswer::route)
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        machine_id(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        _route: &Route,
        _destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let key = match node.provider_id() {
            Some(id) => {
                return Ok((
                    Vec::new(),
                    Target::Machine {
                        id: machine_id(id)?.to_owned(),
                        name: String::new(),
                    },
                ));
            }
            None => Key::Name(&node.name),
        };
        match self.inventory.find(key, false, Priority::Ordinary).await? {
            Found::Present(machine_ref) => Ok((
                Vec::new(),
                Target::Machine {
                    id: machine_ref.instance_id.to_string(),
                    name: String::new(),
                },
            )),
            Found::Gone(gone) => Err(Error::other(format!(
                "no route to Node {}: {}",
                node.name,
                gone.reason()
            ))),
        }
    }

    /// Lets the instance take packets for other addresses than its own. The setting stays when the route goes.
    async fn change_auxiliaries(&self, change: Change, route: &CloudRoute) -> Result<bool> {
        let Target::Machine { id, .. } = &route.target else {
            return Ok(false);
        };
        if change == Change::Remove {
            return Ok(false);
        }
        let is_done = match self
            .inventory
            .find(Key::Id(id), false, Priority::Ordinary)
            .await?
        {
            Found::Present(instance) => instance.source_dest_check == Some(false),
            Found::Gone(_) => false,
        };
        if !is_done {
            let query = Query::new("ModifyInstanceAttribute")
                .set("InstanceId", id)
                .set("SourceDestCheck.Value", false);
            self.api
                .aws
                .ec2
                .change(query.repeatable())
                .await
                .map(ignore)?;
        }
        Ok(false)
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        if change == Change::Remove {
            return self
                .api
                .aws
                .ec2
                .remove(self.query("DeleteRoute", route).await?)
                .await;
        }
        match self
            .api
            .aws
            .ec2
            .change(self.query("CreateRoute", route).await?)
            .await
            .map(ignore)
        {
            Err(error) if error.code() == EXISTS => self.replace(route, error).await,
            answer => answer,
        }
    }
}

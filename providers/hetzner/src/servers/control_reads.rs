//! Control reads for each product: a machine of Hetzner Cloud that is found proves nothing about the credential of
//! Robot, nor the reverse (INV-1).
//!
//! The deletion guard accepts an absence only if other Nodes are found in the same read. In a cluster with machines of
//! both products, all of these may be of the other product. So in such a cluster an absence is reported only if the
//! same credential also shows another machine of the cluster.

use std::sync::Arc;

use cloud_provider::{ConditionStatus, Error, Node};
use provider_kit::inventory::Found;
use provider_kit::transport::Priority;

use super::{CloudAnswer, RobotAnswer, Servers};
use crate::id::MachineId;
use crate::robot::Robot;

/// Number of other cloud servers that are read as controls.
const QUESTIONS: usize = 3;

type Nodes = Vec<Arc<Node>>;

impl Servers {
    pub(super) async fn verify_cloud_absences(
        &self,
        nodes: &[Arc<Node>],
        mut answers: Vec<CloudAnswer>,
    ) -> Vec<CloudAnswer> {
        if answers
            .iter()
            .any(|answer| matches!(answer, Ok(Found::Present(_))))
            || !has_absences(&answers)
        {
            return answers;
        }
        let Some((mut cloud, _)) = self.mixed_cluster() else {
            return answers;
        };
        cloud.retain(|node| !nodes.iter().any(|asked| asked.uid == node.uid));
        cloud.sort_by_key(|node| node.ready != ConditionStatus::True);
        cloud.truncate(QUESTIONS);
        let found = self.cloud.find_all(&cloud, true, Priority::Urgent).await;
        if !found
            .iter()
            .any(|entry| matches!(entry, Ok(Found::Present(_))))
        {
            turn_absences_into_errors(
                &mut answers,
                "HCLOUD_TOKEN shows no other cloud server of this cluster",
            );
        }
        answers
    }

    pub(super) async fn verify_robot_absences(&self, robot: &Robot, answers: &mut [RobotAnswer]) {
        let cluster = if has_absences(answers) {
            self.mixed_cluster()
        } else {
            None
        };
        let Some((_, dedicated)) = cluster else {
            return;
        };
        // The list that was read a moment ago, whose absences these are.
        let list = robot.inventory().snapshot(Priority::Urgent).await;
        let is_listed = |node: &Arc<Node>| match (&list, MachineId::read(&node.provider_id)) {
            (Ok(list), Ok(MachineId::Robot(number))) => list.by_id(&number.to_string()).is_some(),
            _ => false,
        };
        if !dedicated.iter().any(is_listed) {
            turn_absences_into_errors(
                answers,
                "ROBOT_USER shows no other dedicated server of this cluster",
            );
        }
    }

    /// Returns the Nodes on machines of each product. `None` if the Nodes are not known, or if all are of one product:
    /// then the deletion guard's own check is enough.
    fn mixed_cluster(&self) -> Option<(Nodes, Nodes)> {
        self.robot.as_ref()?;
        let mut cloud = Nodes::new();
        let mut dedicated = Nodes::new();
        for node in self
            .cluster
            .nodes()?
            .into_iter()
            .filter(|node| !node.terminating)
        {
            match MachineId::read(&node.provider_id) {
                Ok(MachineId::Cloud(_)) => cloud.push(node),
                Ok(MachineId::Robot(_)) => dedicated.push(node),
                Err(_) => {}
            }
        }
        (!cloud.is_empty() && !dedicated.is_empty()).then_some((cloud, dedicated))
    }
}

fn has_absences<M>(answers: &[cloud_provider::Result<Found<M>>]) -> bool {
    answers
        .iter()
        .any(|answer| matches!(answer, Ok(Found::Gone(_))))
}

/// Turns absences into errors.
fn turn_absences_into_errors<M>(answers: &mut [cloud_provider::Result<Found<M>>], why: &str) {
    for answer in answers {
        if let Ok(Found::Gone(gone)) = answer {
            let text = format!(
                "{}, but {why}, so the Node is kept. Check the credential; if it is correct, delete the Node",
                gone.reason()
            );
            *answer = Err(Error::unauthorized(text));
        }
    }
}

pub(crate) struct Robot;
pub(crate) struct RobotServer {
    pub(crate) number: u64,
    pub(crate) ipv4: Option<std::net::Ipv4Addr>,
}
pub(crate) struct Snapshot(Vec<RobotServer>);
impl Snapshot {
    pub(crate) fn machines(&self) -> &[RobotServer] {
        &self.0
    }
}
impl Robot {
    pub(crate) async fn servers(&self) -> cloud_provider::Result<Snapshot> {
        Ok(Snapshot(Vec::new()))
    }
}

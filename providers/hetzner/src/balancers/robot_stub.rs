pub(crate) struct Robot;
pub(crate) struct RobotServer {
    pub(crate) number: u64,
    pub(crate) ip: String,
}
impl Robot {
    pub(crate) async fn servers(&self) -> cloud_provider::Result<Vec<RobotServer>> {
        Ok(Vec::new())
    }
}

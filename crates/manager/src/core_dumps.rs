//! Disables core dumps, because the memory of this process holds credentials of a cloud and of a cluster.

use std::io::Write as _;

use rustix::io::Result;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Keeps the kernel from writing this process's memory to a file or to a program that collects dumps.
///
/// The resource limit alone does not stop a collector, because the kernel pipes dumps to it whatever the limit. Child
/// processes inherit only the limit. Other processes of the same user can no longer read the memory; root with
/// `CAP_SYS_PTRACE` can. Profiles, which the process writes itself, are not affected.
pub(crate) fn forbid() {
    if let Err(error) = no_dumps() {
        _ = writeln!(
            std::io::stderr(),
            "Warning: core dumps cannot be switched off, and one would hold credentials: {error}"
        );
    }
}

fn no_dumps() -> Result<()> {
    setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            ..getrlimit(Resource::Core)
        },
    )?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn neither_a_file_nor_a_collector_gets_the_memory() {
        // The program calls this first. The call does not affect other tests.
        forbid();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}

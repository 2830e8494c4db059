//! No core dumps: the memory of this process holds the credentials of a cloud and of a cluster.

use rustix::io::Result;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Keeps the kernel from writing this process's memory to a file, or to a program that collects dumps.
///
/// The limit alone does not stop a collector, to which the kernel pipes a dump whatever the limit. Programs that this process
/// starts inherit the limit only. Processes of the same user cannot read the memory any more; root with `CAP_SYS_PTRACE` can,
/// and profiles, which the process makes itself, stay as they are.
pub(crate) fn forbid() {
    if let Err(error) = no_dumps() {
        eprintln!("Warning: core dumps cannot be switched off, and one would hold credentials: {error}");
    }
}

fn no_dumps() -> Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn neither_a_file_nor_a_collector_gets_the_memory() {
        // The program's first act. It does no harm to other tests.
        forbid();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}

//! Sets the build information of the program: the compiler, and the revision if `CCM_REVISION` is set.
//!
//! The revision is not read from git, because a build would then depend on more than its sources, or report an old
//! revision.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CCM_REVISION");
    let revision = env::var("CCM_REVISION").unwrap_or_default();
    println!("cargo::rustc-env=CCM_REVISION={}", revision.trim());
    let version =
        env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("-V").output().ok());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo::rustc-env=CCM_RUSTC={}", version.unwrap_or_default());
}

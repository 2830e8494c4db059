//! Tells the program what it is built from: the revision, if whoever builds says so in `CCM_REVISION`, and the compiler.
//!
//! The revision is not asked of git: that would make a build depend on more than its sources, or go stale.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CCM_REVISION");
    let revision = env::var("CCM_REVISION").unwrap_or_default();
    println!("cargo::rustc-env=CCM_REVISION={}", revision.trim());
    let version = env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("-V").output().ok());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo::rustc-env=CCM_RUSTC={}", version.unwrap_or_default());
}

//! How the program is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A static program may be loaded anywhere, and lists all its own addresses for that: 0.6 MB, on disk and in memory, or a
    // thirtieth of it in the packed form. musl has understood that form since 1.2.4; of other C libraries this cannot be known.
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

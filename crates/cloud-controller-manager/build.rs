//! Options of the linker.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A static program may be loaded anywhere and therefore lists all its own addresses: 0.6 MB on disk and in memory,
    // or a thirtieth of it in the packed form. musl understands that form since 1.2.4; for other C libraries this is
    // unknown.
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        fold_identical_code();
    }
}

/// Links functions that are identical for several types only once, which saves a twentieth of the program's size. The
/// linker of the Rust toolchain is needed for that; without it, the program is larger.
fn fold_identical_code() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let host = env::var("HOST").unwrap_or_default();
    let Ok(sysroot) = Command::new(rustc).args(["--print", "sysroot"]).output() else {
        return;
    };
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    let linkers = Path::new(&sysroot)
        .join("lib/rustlib")
        .join(host)
        .join("bin/gcc-ld");
    if linkers.join("ld.lld").exists() {
        println!("cargo::rustc-link-arg-bins=-B{}", linkers.display());
        println!("cargo::rustc-link-arg-bins=-fuse-ld=lld");
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

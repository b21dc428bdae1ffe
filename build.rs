//! Has the linker lay the functions that a start runs through side by side, as `start.ld` names them: less of the
//! program is loaded then, which counts as memory and takes time.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=start.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && !has_own_linker() {
        let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/start.ld");
    }
}

/// Whether whoever builds has chosen a linker, or options for it: not every linker reads scripts.
fn has_own_linker() -> bool {
    env::var("RUSTC_LINKER").is_ok()
        || env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"))
}

// SPDX-License-Identifier: Apache-2.0
//! Compiles the SDK's writer (c/ is part of spanprof's sdk/), and what tests compare src/layout.rs with.

const WRITER: [&str; 5] = ["context.c", "local.c", "name.c", "otel.c", "ring.c"];

fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.include("c/include").include("c/src").std("gnu11").opt_level(2).flag("-fvisibility=hidden");
    build
}

fn main() {
    println!("cargo:rerun-if-changed=c");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        panic!("spanprof-otel: profilers read contexts on Linux alone");
    }
    compiler().files(WRITER.map(|name| format!("c/src/{name}"))).compile("spanprof_context");
    compiler().file("c/layout.c").compile("spanprof_layout");
    // of this crate's own programs; a service says it in its build.rs (README.md)
    println!("cargo:rustc-link-arg-tests=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
    println!("cargo:rustc-link-arg-benches=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
}

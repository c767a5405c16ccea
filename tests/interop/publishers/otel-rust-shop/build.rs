// SPDX-License-Identifier: Apache-2.0
//! Exports the variable of thread contexts, as sdk/rust/README.md has it.
fn main() {
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
}

// SPDX-License-Identifier: Apache-2.0
// Readers find the variable by its name, which an executable does not export by itself.
fn main() {
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
}

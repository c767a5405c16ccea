// SPDX-License-Identifier: Apache-2.0
fn main() {
    if std::env::var_os("CARGO_FEATURE_EXPORT").is_some() {
        println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
    }
}

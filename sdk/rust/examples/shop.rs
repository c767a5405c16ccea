// SPDX-License-Identifier: Apache-2.0
//! A service with two operations, traced by `tracing`. One line publishes its spans:
//!
//!     cargo build --release --example shop
//!     sudo spanprof record -- target/release/examples/shop 10
use std::hint::black_box;
use std::time::{Duration, Instant};

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt;

fn hash(rounds: u64) -> u64 {
    (0..rounds).fold(1, |x: u64, _| black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407)))
}

#[tracing::instrument]
fn checkout() -> u64 {
    hash(300_000)
}

#[tracing::instrument]
fn search() -> u64 {
    hash(100_000)
}

fn main() {
    spanprof_otel::install(); // this is the line

    let tracer = SdkTracerProvider::builder().build().tracer("shop");
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();

    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        black_box((checkout(), search()));
    }
    println!("checkout is three quarters of it");
}

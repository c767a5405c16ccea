// SPDX-License-Identifier: Apache-2.0
//! A shop of axum, with spans of tracing as tower-http makes them and tracing-opentelemetry's layer. It says
//! `listens PORT`, and at the end of standard input what each route has used: `used ROUTE MICROSECONDS`.
//! tests/integration/host/spans/test-long-otel-rust.py is its customer.
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Mutex;

use axum::extract::{MatchedPath, Path, Request};
use axum::routing::get;
use axum::Router;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::io::AsyncReadExt;
use tower_http::trace::TraceLayer;
use tracing_subscriber::layer::SubscriberExt;

const THREAD_CPU: i32 = 3;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

static USED: Mutex<Option<HashMap<&str, u64>>> = Mutex::new(None);

fn thread_microseconds() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(THREAD_CPU, &mut time) };
    time.seconds as u64 * 1_000_000 + time.nanoseconds as u64 / 1000
}

/// Uses the CPU for some milliseconds of its thread's own time.
fn work(route: &'static str, milliseconds: u64) {
    let begin = thread_microseconds();
    let mut x: u64 = 1;
    while thread_microseconds() < begin + milliseconds * 1000 {
        for _ in 0..10000 {
            x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        }
    }
    let mut used = USED.lock().unwrap();
    *used.get_or_insert_default().entry(route).or_default() += thread_microseconds() - begin;
}

async fn cart(Path(id): Path<String>) -> String {
    work("/cart/{id}", 30);
    id
}

async fn search() -> &'static str {
    work("/search", 10);
    "none"
}

fn span_of(request: &Request) -> tracing::Span {
    let route = request.extensions().get::<MatchedPath>().map_or("", |path| path.as_str());
    tracing::info_span!("request", otel.name = format!("{} {route}", request.method()), http.route = route)
}

#[tokio::main]
async fn main() {
    if spanprof_otel::install() {
        let resource = opentelemetry_sdk::Resource::builder().with_service_name("shop").build();
        spanprof_otel::publish_resource(&resource).unwrap();
    }
    let provider = spanprof_otel::wrap(SdkTracerProvider::builder().build());
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    let shop = Router::new()
        .route("/cart/{id}", get(cart))
        .route("/search", get(search))
        .layer(TraceLayer::new_for_http().make_span_with(span_of));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listens {}", listener.local_addr().unwrap().port());
    tokio::spawn(async { axum::serve(listener, shop).await });
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await.unwrap();
    for (route, microseconds) in USED.lock().unwrap().take().unwrap_or_default() {
        println!("used {route} {microseconds}");
    }
    std::process::exit(0);
}

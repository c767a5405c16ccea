// SPDX-License-Identifier: Apache-2.0
//! With OpenTelemetry's crates and sdk/rust: otel-requests CPU-SECONDS MODE…; a MODE is contexts (attached on two threads), tasks (of
//! tokio, with spans of tracing) or fork (contexts, in a child). Each prints what it did without a pause between:
//!
//!     busy TRACE SPAN THREAD BEGIN END        CLOCK_MONOTONIC, ns; TRACE and SPAN are `-` outside of all spans
//!
//! tests/integration/host/spans/test-otel-rust.py reads it.
use std::hint::black_box;
use std::io::Write;
use std::time::Duration;

use opentelemetry::trace::{mark_span_as_active, Span, SpanContext, TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use opentelemetry_sdk::Resource;
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

const MONOTONIC: i32 = 1;
const PROCESS_CPU: i32 = 2;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn gettid() -> i32;
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

fn now(clock: i32) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(clock, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

fn text_of(span: Option<&SpanContext>) -> String {
    span.map_or("- -".to_string(), |span| format!("{} {}", span.trace_id(), span.span_id()))
}

/// Work for `span`, as the program itself knows it; no look at the current context.
fn burn(milliseconds: u64, span: Option<&SpanContext>) {
    let begin = now(MONOTONIC);
    let end = begin + milliseconds * 1_000_000;
    let mut x: u64 = 1;
    while now(MONOTONIC) < end {
        for _ in 0..1000 {
            x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        }
    }
    let line = format!("busy {} {} {begin} {}\n", text_of(span), unsafe { gettid() }, now(MONOTONIC));
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

fn request(tracer: &SdkTracer) {
    let outer = tracer.start("outer");
    let outer_ids = outer.span_context().clone();
    let guard = mark_span_as_active(outer);
    burn(15, Some(&outer_ids));
    tracer.in_span("inner", |context| burn(15, Some(context.span().span_context())));
    burn(10, Some(&outer_ids));
    drop(guard);
    burn(10, None);
}

fn contexts(tracer: &SdkTracer, until: u64) {
    let requests = || {
        while now(PROCESS_CPU) < until {
            request(tracer);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(requests);
        scope.spawn(requests);
    });
}

fn forked(tracer: &SdkTracer, until: u64) {
    let span = tracer.start("before");
    let ids = span.span_context().clone();
    let guard = mark_span_as_active(span);
    let child = unsafe { fork() };
    if child == 0 {
        println!("pid {}", std::process::id());
        burn(50, Some(&ids)); // the span that was current
        drop(guard);
        let before = now(PROCESS_CPU);
        while now(PROCESS_CPU) < before + until {
            request(tracer);
        }
        std::process::exit(0);
    }
    let mut status = 1;
    unsafe { waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
}

/// Ids of a span of tracing that was entered.
fn ids_of(span: &tracing::Span) -> SpanContext {
    span.context().span().span_context().clone()
}

async fn step() {
    let ids = ids_of(&tracing::Span::current());
    burn(8, Some(&ids));
    tokio::time::sleep(Duration::from_millis(2)).await;
    burn(8, Some(&ids));
}

async fn task(until: u64) {
    while now(PROCESS_CPU) < until {
        async {
            let outer = ids_of(&tracing::Span::current());
            burn(5, Some(&outer));
            step().instrument(tracing::info_span!("inner")).await;
            tokio::task::yield_now().await;
            burn(5, Some(&outer));
        }
        .instrument(tracing::info_span!("outer"))
        .await;
        burn(5, None);
    }
}

fn tasks(tracer: &SdkTracer, until: u64) {
    let layer = tracing_opentelemetry::layer().with_tracer(tracer.clone());
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let tasks: Vec<_> = (0..5).map(|_| runtime.spawn(task(until))).collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().unwrap().parse().unwrap();
    let resource = Resource::builder().with_service_name("shop").build();
    if spanprof_otel::install() {
        spanprof_otel::publish_resource(&resource).unwrap();
    }
    let tracer = SdkTracerProvider::builder().with_resource(resource).build().tracer("requests");
    for mode in arguments {
        let (each, now) = ((seconds * 1e9) as u64, now(PROCESS_CPU));
        match mode.as_str() {
            "contexts" => contexts(&tracer, now + each),
            "fork" => forked(&tracer, each),
            "tasks" => tasks(&tracer, now + each),
            _ => panic!("no mode {mode}"),
        }
    }
}

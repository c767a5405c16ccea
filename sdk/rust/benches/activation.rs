// SPDX-License-Identifier: Apache-2.0
//! What an activation costs in ns, and the memory of a process, with the observer and without: `cargo bench`. The lowest of turns;
//! each side is a process.
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use opentelemetry::trace::{mark_span_as_active, Span, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::Context;
use opentelemetry_sdk::trace::SdkTracerProvider;

const TURNS: u32 = 300;
const N: u32 = 5_000;

fn lowest_ns(mut call: impl FnMut()) -> f64 {
    let turn = |_| {
        let begin = Instant::now();
        (0..N).for_each(|_| call());
        begin.elapsed().as_nanos() as f64 / f64::from(N)
    };
    (0..TURNS).map(turn).fold(f64::INFINITY, f64::min)
}

fn private_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let lines = text.lines().filter(|line| line.starts_with("Private_Clean:") || line.starts_with("Private_Dirty:"));
    lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

fn measure(tracer: impl Tracer<Span = impl Span + Send + Sync + 'static>) {
    let context = Context::new().with_span(tracer.start("x"));
    println!("attach and drop\t{}", lowest_ns(|| drop(black_box(context.clone().attach()))));
    println!("whole span\t{}", lowest_ns(|| drop(mark_span_as_active(tracer.start("x")))));
    println!("memory, KiB\t{}", private_kib());
}

/// The rows of one side, by their order.
fn side(name: &str) -> Vec<(String, f64)> {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = |line: &str| line.split_once('\t').map(|(what, value)| (what.to_string(), value.parse().unwrap()));
    String::from_utf8(output.stdout).unwrap().lines().filter_map(row).collect()
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("with") => {
            assert!(spanprof_otel::install());
            measure(spanprof_otel::wrap(SdkTracerProvider::builder().build()).tracer("bench"));
        }
        Some("without") => measure(SdkTracerProvider::builder().build().tracer("bench")),
        _ => compare(),
    }
}

fn compare() {
    let turns: Vec<_> = (0..5).map(|_| (side("without"), side("with"))).collect();
    for (i, (what, _)) in turns[0].0.iter().enumerate() {
        let lowest = |side: fn(&(Vec<(String, f64)>, Vec<(String, f64)>)) -> &Vec<(String, f64)>| {
            turns.iter().map(|turn| side(turn)[i].1).fold(f64::INFINITY, f64::min)
        };
        let (without, with) = (lowest(|turn| &turn.0), lowest(|turn| &turn.1));
        println!("{what:16} {without:8.1} without {with:8.1} with {:+8.1}", with - without);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What spans are named by, in the record of the thread. One test, since a process has room for a thousand names.
use std::ffi::{c_char, c_void};
use std::process::Command;

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use spanprof_otel::{install, layout, names_refused, wrap};
use tracing_subscriber::layer::SubscriberExt;

extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The attributes of the record as `index=value`, or none where the thread publishes no span.
fn attributes() -> Option<Vec<String>> {
    // SAFETY: the variable leads to the record of this thread, or is NULL; its attributes follow it
    let bytes = unsafe {
        let variable = dlsym(std::ptr::null_mut(), layout::THREAD_SYMBOL.as_ptr()) as *const *const layout::Record;
        let record = (*variable).as_ref()?;
        assert_eq!(record.valid, layout::VALID);
        std::slice::from_raw_parts((*variable).add(1) as *const u8, record.attributes_size.into()).to_vec()
    };
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while let [index, size, more @ ..] = rest {
        let (value, next) = more.split_at((*size).into());
        found.push(format!("{index}={}", std::str::from_utf8(value).unwrap()));
        rest = next;
    }
    Some(found)
}

#[track_caller]
fn expect<const N: usize>(expected: [&str; N]) {
    let off = std::env::var_os("SPANPROF_SPAN_NAMES").is_some();
    assert_eq!(attributes().unwrap(), if off { Vec::new() } else { expected.to_vec() });
}

fn remote(is_remote: bool) -> Context {
    let (trace, span) = (TraceId::from(5), SpanId::from(6));
    Context::new().with_remote_span_context(SpanContext::new(trace, span, TraceFlags::SAMPLED, is_remote, TraceState::NONE))
}

fn entry_span(tracer: &impl Tracer<Span = impl opentelemetry::trace::Span + Send + Sync + 'static>) {
    let entry = Context::new().with_span(tracer.start("GET"));
    let guard = entry.clone().attach();
    expect(["0=GET"]);
    tracer.in_span("query", |inner| {
        expect(["0=GET"]);
        inner.span().update_name("other query");
        inner.span().set_attribute(KeyValue::new("http.route", "/inner"));
        expect(["0=GET"]);
        entry.span().set_attribute(KeyValue::new("http.route", "/cart/{id}"));
        expect(["0=GET /cart/{id}", "1=/cart/{id}"]);
        let context = Context::current();
        let (begun, is_begun) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let _guard = context.attach();
            begun.send(()).unwrap();
            may_go.recv().unwrap();
            expect(["0=cart", "1=/cart/{id}"]);
        });
        is_begun.recv().unwrap();
        entry.span().update_name("cart");
        go.send(()).unwrap();
        other.join().unwrap();
        expect(["0=cart", "1=/cart/{id}"]);
    });
    expect(["0=cart", "1=/cart/{id}"]);
    drop(guard);
    assert_eq!(attributes(), None);
}

fn parents(tracer: &impl Tracer<Span = impl opentelemetry::trace::Span + Send + Sync + 'static>) {
    let order = tracer.span_builder("order").with_attributes([KeyValue::new("http.route", "/order")]);
    tracer.in_span_with_builder_and_context(order, &remote(true), |_| expect(["0=order", "1=/order"]));
    tracer.in_span_with_context("of nobody", &remote(false), |_| expect([]));
    let unsampled = wrap(SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOff).build()).tracer("test");
    unsampled.in_span("not sampled", |_| unsampled.in_span("below", |_| expect(["0=not sampled"])));
    SdkTracerProvider::builder().build().tracer("test").in_span("not wrapped", |_| expect([]));
}

fn tracing_layer() {
    let tracer = wrap(SdkTracerProvider::builder().build()).tracer("test");
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let request = tracing::info_span!("request", otel.name = "GET", http.route = tracing::field::Empty);
        let _request = request.clone().entered();
        expect(["0=GET"]);
        let _inner = tracing::info_span!("inner").entered();
        expect(["0=GET"]);
        request.record("http.route", "/cart/{id}");
        expect(["0=GET /cart/{id}", "1=/cart/{id}"]);
    });
}

fn bounds(tracer: &impl Tracer<Span = impl opentelemetry::trace::Span + Send + Sync + 'static>) {
    tracer.in_span("\u{20ac}".repeat(100), |_| expect([&format!("0={}", "\u{20ac}".repeat(42))]));
    (0..1000).for_each(|i| tracer.in_span(format!("name {i}"), |_| ()));
    tracer.in_span("one more", |_| expect([]));
    let off = std::env::var_os("SPANPROF_SPAN_NAMES").is_some();
    assert_eq!(names_refused() > 0, !off);
}

#[test]
fn spans_have_the_name_of_their_entry_span_also_when_it_comes_late() {
    assert!(install());
    let tracer = wrap(SdkTracerProvider::builder().build()).tracer("test");
    entry_span(&tracer);
    parents(&tracer);
    tracing_layer();
    bounds(&tracer);
    if std::env::var_os("SPANPROF_SPAN_NAMES").is_none() {
        let again = Command::new(std::env::current_exe().unwrap()).env("SPANPROF_SPAN_NAMES", "off").output().unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What a thread publishes beside the span that must be current, wherever contexts change.
use std::ffi::{c_char, c_void};
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use opentelemetry::context::FutureExt;
use opentelemetry::trace::{
    mark_span_as_active, Span, SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::Context;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use spanprof_otel::{install, layout, published};
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

fn tracer() -> opentelemetry_sdk::trace::SdkTracer {
    assert!(install());
    SdkTracerProvider::builder().build().tracer("test")
}

fn ids(span: &SpanContext) -> Option<(TraceId, SpanId)> {
    Some((span.trace_id(), span.span_id()))
}

fn current() -> Option<(TraceId, SpanId)> {
    Context::map_current(|context| context.has_active_span().then(|| ids(context.span().span_context())).flatten())
}

/// That the current span is published, and is another one than `not`.
#[track_caller]
fn expect_current(not: Option<(TraceId, SpanId)>) -> Option<(TraceId, SpanId)> {
    assert!(current().is_some());
    assert_eq!(published(), current());
    assert_ne!(current(), not);
    current()
}

#[test]
fn nested_and_out_of_order() {
    let tracer = tracer();
    let (a, b) = (tracer.start("a"), tracer.start("b"));
    let (a_ids, b_ids) = (ids(a.span_context()), ids(b.span_context()));
    assert_eq!(published(), None);
    let outer = mark_span_as_active(a);
    assert_eq!(published(), a_ids);
    let inner = mark_span_as_active(b);
    assert_eq!(published(), b_ids);
    let again = Context::current().with_value(1u8).attach();
    assert_eq!(published(), b_ids);
    drop(inner); // not the last: what is current stays so
    assert_eq!(published(), b_ids);
    drop(again);
    assert_eq!(published(), a_ids);
    let none = Context::new().attach();
    assert_eq!(published(), None);
    drop(none);
    Context::map_current(|context| context.span().end());
    assert_eq!(published(), a_ids); // current until its guard is gone
    drop(outer);
    assert_eq!(published(), None);
}

#[test]
fn a_panic_leaves_no_span() {
    let tracer = tracer();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tracer.in_span("a", |context| {
            assert_eq!(published(), ids(context.span().span_context()));
            std::panic::resume_unwind(Box::new("away"));
        })
    }));
    assert!(result.is_err());
    assert_eq!(published(), None);
}

#[test]
fn threads_have_their_own() {
    let tracer = tracer();
    let context = Context::new().with_span(tracer.start("a"));
    let expected = ids(context.span().span_context());
    let guard = context.clone().attach();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(published(), None);
            let there = context.clone().attach();
            assert_eq!(published(), expected);
            drop(there);
            assert_eq!(published(), None);
        });
    });
    assert_eq!(published(), expected);
    drop(guard);
}

#[test]
fn spans_of_others_are_not_published_and_those_not_sampled_are() {
    assert!(install());
    let ids_of_other = (TraceId::from_bytes([0xa1; 16]), SpanId::from_bytes([0xb3; 8]));
    let span = |is_remote| {
        SpanContext::new(ids_of_other.0, ids_of_other.1, TraceFlags::default(), is_remote, TraceState::default())
    };
    let remote = Context::new().with_remote_span_context(span(true)).attach();
    assert_eq!(published(), None);
    let local = Context::new().with_remote_span_context(span(false)).attach();
    assert_eq!(published(), Some(ids_of_other));
    drop((local, remote));
    let provider = SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOff).build();
    provider.tracer("test").in_span("off", |_| expect_current(None));
    assert_eq!(published(), None);
}

fn subscriber() -> tracing::subscriber::DefaultGuard {
    let layer = tracing_opentelemetry::layer().with_tracer(tracer());
    tracing::subscriber::set_default(tracing_subscriber::registry().with(layer))
}

#[test]
fn spans_of_tracing() {
    let _subscriber = subscriber();
    let outer = tracing::info_span!("outer");
    assert_eq!(published(), None);
    let entered = outer.enter();
    let outer_ids = expect_current(None);
    tracing::info_span!("inner").in_scope(|| expect_current(outer_ids));
    assert_eq!(published(), outer_ids);
    let again = outer.enter();
    assert_eq!(published(), outer_ids);
    drop(again);
    assert_eq!(published(), outer_ids);
    drop(entered);
    assert_eq!(published(), None);
}

/// Ready at the second poll.
#[derive(Default)]
struct Once(bool);

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn two_awaits(not: Option<(TraceId, SpanId)>) -> Option<(TraceId, SpanId)> {
    let first = expect_current(not);
    Once::default().await;
    assert_eq!(expect_current(not), first);
    first
}

#[test]
fn futures_of_opentelemetry_between_polls() {
    let context = Context::new().with_span(tracer().start("a"));
    let expected = ids(context.span().span_context());
    let mut future = Box::pin(two_awaits(None).with_context(context));
    let mut poll = std::task::Context::from_waker(futures_waker());
    assert!(future.as_mut().poll(&mut poll).is_pending());
    assert_eq!(published(), None);
    assert_eq!(future.as_mut().poll(&mut poll), Poll::Ready(expected));
    assert_eq!(published(), None);
}

fn futures_waker() -> &'static std::task::Waker {
    static WAKER: std::sync::OnceLock<std::task::Waker> = std::sync::OnceLock::new();
    struct Nobody;
    impl std::task::Wake for Nobody {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    WAKER.get_or_init(|| std::sync::Arc::new(Nobody).into())
}

#[test]
fn tasks_that_move_between_threads() {
    assert!(install());
    let layer = tracing_opentelemetry::layer().with_tracer(tracer());
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
    let tasks: Vec<_> = (0..20).map(|_| runtime.spawn(task().instrument(tracing::info_span!("task")))).collect();
    let threads: std::collections::HashSet<_> =
        tasks.into_iter().flat_map(|task| runtime.block_on(task).unwrap()).collect();
    assert!(threads.len() > 1);
}

async fn task() -> Vec<std::thread::ThreadId> {
    let outer = expect_current(None);
    let mut threads = Vec::new();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_micros(200)).await;
        assert_eq!(expect_current(None), outer);
        two_awaits(outer).instrument(tracing::info_span!("inner")).await;
        assert_eq!(expect_current(None), outer);
        tokio::task::yield_now().await;
        threads.push(std::thread::current().id());
    }
    threads
}

/// What readers find: the thread's variable leads to a record of the layout that they know.
#[test]
fn the_record_of_a_thread_context() {
    extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    tracer().in_span("a", |context| {
        // SAFETY: the address of this thread's variable, and then of its record, which this thread alone writes
        let record = unsafe {
            let variable = dlsym(std::ptr::null_mut(), layout::THREAD_SYMBOL.as_ptr());
            assert!(!variable.is_null(), "the variable is not exported");
            **variable.cast::<*const layout::Record>()
        };
        let span = context.span();
        assert_eq!(record.valid, layout::VALID);
        assert_eq!(record.attributes_size, 0);
        assert_eq!(TraceId::from_bytes(record.trace_id), span.span_context().trace_id());
        assert_eq!(SpanId::from_bytes(record.span_id), span.span_context().span_id());
    });
}

// SPDX-License-Identifier: Apache-2.0
//! Names of spans: those of the span that a request began with in this process.
//!
//! A span of the crate `opentelemetry` has no name that can be read. So a provider stands before the SDK's: its spans know their
//! name, and that of the spans below them is found by the id of the parent. Observers of contexts see ids alone, so that table
//! serves them, too; a thread keeps the last answer.
use std::borrow::Cow;
use std::cell::{RefCell, UnsafeCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use opentelemetry::trace::{
    Span, SpanBuilder, SpanContext, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue, Value};

use crate::layout;

const ROUTE: &str = "http.route";
const SHARDS: usize = 16;

/// What the spans of one request share.
pub(crate) struct Root {
    entry: u64,
    native: UnsafeCell<layout::Root>,
    texts: Mutex<Texts>,
}

struct Texts {
    name: Cow<'static, str>,
    route: String,
}

// SAFETY: the writer changes `native` by atomic operations, but for its name, which the lock of `texts` is for
unsafe impl Send for Root {}
unsafe impl Sync for Root {}

impl Root {
    fn new(entry: u64, texts: Texts) -> Arc<Root> {
        let native = layout::Root { number: 0, name: std::ptr::null(), thread: std::ptr::null() };
        let root = Arc::new(Root { entry, native: UnsafeCell::new(native), texts: Mutex::new(texts) });
        root.change(|_| ());
        root
    }

    fn change(&self, how: impl FnOnce(&mut Texts)) {
        let mut texts = lock(&self.texts);
        how(&mut texts);
        // SAFETY: texts live until it returns; the lock keeps others from naming
        unsafe {
            layout::spanprof_otel_name(
                self.native.get(),
                texts.name.as_ptr().cast(),
                texts.name.len(),
                texts.route.as_ptr().cast(),
                texts.route.len(),
            )
        }
    }

    pub(crate) fn native(&self) -> *mut layout::Root {
        self.native.get()
    }
}

type Shard = HashMap<u64, Arc<Root>>;

/// Roots of spans that live, by the id of the span.
static ROOTS: OnceLock<[Mutex<Shard>; SHARDS]> = OnceLock::new();
static IS_USED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The last span that was asked for.
    static LAST: RefCell<(u64, Option<Arc<Root>>)> = const { RefCell::new((0, None)) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard(span: u64) -> MutexGuard<'static, Shard> {
    let shards = ROOTS.get_or_init(|| std::array::from_fn(|_| Mutex::default()));
    lock(&shards[span as usize % SHARDS])
}

/// Calls `f` with the root of this span, NULL if it has none.
pub(crate) fn with_root<T>(span: u64, f: impl FnOnce(*mut layout::Root) -> T) -> T {
    if !IS_USED.load(Ordering::Relaxed) {
        return f(std::ptr::null_mut());
    }
    let of = |root: &Option<Arc<Root>>| root.as_ref().map_or(std::ptr::null_mut(), |root| root.native());
    let found = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        if last.0 != span {
            *last = (span, shard(span).get(&span).cloned());
        }
        of(&last.1)
    });
    // a pointer: LAST keeps the root, which nobody changes in between
    f(found.unwrap_or(std::ptr::null_mut()))
}

/// In a forked child, in which another thread may have had the lock of a shard: the last span's alone.
pub(crate) fn last_root(span: u64) -> *mut layout::Root {
    let of = |last: &(u64, Option<Arc<Root>>)| last.1.as_ref().filter(|_| last.0 == span).map(|root| root.native());
    let found = LAST.try_with(|last| last.try_borrow().ok().and_then(|last| of(&last)));
    found.ok().flatten().unwrap_or(std::ptr::null_mut())
}

fn are_off() -> bool {
    static OFF: OnceLock<bool> = OnceLock::new();
    *OFF.get_or_init(|| std::env::var("SPANPROF_SPAN_NAMES").is_ok_and(|word| word.eq_ignore_ascii_case("off")))
}

fn id_of(span: &SpanContext) -> u64 {
    u64::from_be_bytes(span.span_id().to_bytes())
}

fn route_of(attribute: &KeyValue) -> Option<&str> {
    match &attribute.value {
        Value::String(text) if attribute.key.as_str() == ROUTE => Some(text.as_str()),
        _ => None,
    }
}

/// How often a name was not published, since the process had a thousand others.
pub fn names_refused() -> u64 {
    // SAFETY: it reads a number
    unsafe { layout::spanprof_otel_names_refused() }
}

/// Returns a provider whose spans have names:
///
/// ```
/// use opentelemetry::trace::{Tracer, TracerProvider};
/// let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
/// opentelemetry::global::set_tracer_provider(spanprof_otel::wrap(provider.clone()));
/// ```
///
/// For `tracing` the layer takes a tracer of it. What is the SDK's own, as `shutdown()`, stays with the provider that is given.
pub fn wrap<P: TracerProvider>(provider: P) -> Named<P> {
    IS_USED.store(true, Ordering::Relaxed);
    Named(provider)
}

/// A provider, tracer or span of [`wrap`].
#[derive(Debug)]
pub struct Named<T>(T);

impl<P: TracerProvider> TracerProvider for Named<P> {
    type Tracer = Named<P::Tracer>;

    fn tracer_with_scope(&self, scope: InstrumentationScope) -> Self::Tracer {
        Named(self.0.tracer_with_scope(scope))
    }
}

impl<T: Tracer> Tracer for Named<T> {
    type Span = NamedSpan<T::Span>;

    fn build_with_context(&self, builder: SpanBuilder, parent_cx: &Context) -> Self::Span {
        let route = builder.attributes.iter().flatten().find_map(route_of);
        let texts = Texts { name: builder.name.clone(), route: route.unwrap_or_default().to_string() };
        let span = self.0.build_with_context(builder, parent_cx);
        NamedSpan::new(span, texts, parent_cx)
    }
}

/// A span of [`wrap`].
#[derive(Debug)]
pub struct NamedSpan<S: Span> {
    span: S,
    /// Of an entry span, and whether one is in the table.
    entry: Option<Arc<Root>>,
    is_kept: bool,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "root of span {:016x}", self.entry)
    }
}

impl<S: Span> NamedSpan<S> {
    fn new(span: S, texts: Texts, parent_cx: &Context) -> Self {
        let ids = span.span_context();
        if are_off() || !ids.is_valid() {
            return NamedSpan { span, entry: None, is_kept: false };
        }
        let id = id_of(ids);
        let above = match parent_cx.has_active_span() {
            true => parent_cx.span().span_context().clone(),
            false => SpanContext::empty_context(),
        };
        let (root, entry) = if above.is_valid() && !above.is_remote() {
            let parent = id_of(&above);
            (shard(parent).get(&parent).cloned(), None)
        } else {
            let root = Root::new(id, texts);
            (Some(root.clone()), Some(root))
        };
        let is_kept = root.is_some();
        if let Some(root) = root {
            shard(id).insert(id, root);
        }
        NamedSpan { span, entry, is_kept }
    }
}

/// Not at its end: it may be current longer.
impl<S: Span> Drop for NamedSpan<S> {
    fn drop(&mut self) {
        if self.is_kept {
            let id = id_of(self.span.span_context());
            let root = shard(id).remove(&id);
            drop(root); // behind the lock
        }
    }
}

impl<S: Span> Span for NamedSpan<S> {
    fn add_event_with_timestamp<T>(&mut self, name: T, timestamp: SystemTime, attributes: Vec<KeyValue>)
    where
        T: Into<Cow<'static, str>>,
    {
        self.span.add_event_with_timestamp(name, timestamp, attributes);
    }

    fn span_context(&self) -> &SpanContext {
        self.span.span_context()
    }

    fn is_recording(&self) -> bool {
        self.span.is_recording()
    }

    fn set_attribute(&mut self, attribute: KeyValue) {
        if let (Some(root), Some(route)) = (&self.entry, route_of(&attribute)) {
            root.change(|texts| texts.route = route.to_string());
        }
        self.span.set_attribute(attribute);
    }

    fn set_status(&mut self, status: Status) {
        self.span.set_status(status);
    }

    fn update_name<T>(&mut self, new_name: T)
    where
        T: Into<Cow<'static, str>>,
    {
        let name = new_name.into();
        if let Some(root) = &self.entry {
            root.change(|texts| texts.name = name.clone());
        }
        self.span.update_name(name);
    }

    fn add_link(&mut self, span_context: SpanContext, attributes: Vec<KeyValue>) {
        self.span.add_link(span_context, attributes);
    }

    fn end_with_timestamp(&mut self, timestamp: SystemTime) {
        self.span.end_with_timestamp(timestamp);
    }
}

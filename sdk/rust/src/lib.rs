// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! The crate `opentelemetry` keeps the current `Context` of each thread, and tells one observer whenever another becomes
//! current. The observer here hands the ids of that context's span to spanprof's writer. Everything that attaches a context
//! comes by: `Context::attach`, `mark_span_as_active`, `FutureExt::with_context` at each poll, and spans of `tracing`, which
//! tracing-opentelemetry attaches when they are entered.
//!
//! The observer is called while the thread's stack of contexts is borrowed, so it must not ask for the current one.
pub mod layout;
mod names;

pub use names::{names_refused, wrap, Named, NamedSpan};

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::sync::{Arc, OnceLock};

use opentelemetry::context::{ContextObserver, GlobalContextObserver};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceId};
use opentelemetry::{Context, Key, Value};

/// Halves of the trace id, and the span id; zeros are no span.
type Ids = [u64; 3];

thread_local! {
    /// What this thread publishes: for a forked child, in which contexts may be borrowed.
    static NOW: Cell<Ids> = const { Cell::new([0; 3]) };
    static IS_SEEN: Cell<bool> = const { Cell::new(false) };
}

/// A remote span is the caller's: this thread will work for a child of it.
fn ids_of(span: &SpanContext) -> Ids {
    if !span.is_valid() || span.is_remote() {
        return [0; 3];
    }
    let trace = u128::from_be_bytes(span.trace_id().to_bytes());
    [(trace >> 64) as u64, trace as u64, u64::from_be_bytes(span.span_id().to_bytes())]
}

fn write(ids: Ids) {
    // SAFETY: these may be called at any time, by any thread
    match ids {
        [0, 0, 0] => unsafe { layout::spanprof_context_clear() },
        [high, low, span] => names::with_root(span, |root| unsafe {
            layout::spanprof_context_set_root(high, low, span, root)
        }),
    }
}

fn publish(context: &Context) {
    let ids = match context.has_active_span() {
        true => ids_of(context.span().span_context()),
        false => [0; 3],
    };
    NOW.with(|now| now.set(ids));
    write(ids);
}

struct Observer;

impl ContextObserver for Observer {
    fn on_context_enter(&self, _: &Context, to: &Context) {
        IS_SEEN.with(|seen| seen.set(true));
        publish(to);
    }

    fn on_context_exit(&self, _: &Context, to: &Context) {
        publish(to);
    }
}

/// A child's thread works on for the span that is current in it.
extern "C" fn fork_child() {
    let [high, low, span] = NOW.with(Cell::get);
    if span != 0 {
        // SAFETY: as above; a root is kept by the thread
        unsafe { layout::spanprof_context_set_root(high, low, span, names::last_root(span)) }
    }
}

/// Thread contexts, which other profilers read, too, if this program exports the variable that leads to them; the ring, which
/// is found without names, if not.
fn choose() -> u32 {
    // SAFETY: a name with its terminator; NULL is RTLD_DEFAULT
    let variable = unsafe { layout::dlsym(std::ptr::null_mut(), layout::THREAD_SYMBOL.as_ptr()) };
    match (std::env::var_os(layout::ENVIRONMENT), variable.is_null()) {
        (Some(_), _) => 0, // as it says
        (None, true) => layout::RING,
        (None, false) => layout::THREAD,
    }
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number.abs())),
    }
}

fn start() -> io::Result<()> {
    const EALREADY: i32 = 114;
    let options = layout::Options { size: std::mem::size_of::<layout::Options>() as u32, capacity: 0, storage: choose() };
    // SAFETY: the options are copied
    match check(unsafe { layout::spanprof_context_start(&options) }) {
        Err(error) if error.raw_os_error() == Some(EALREADY) => Ok(()),
        result => result,
    }
}

/// OpenTelemetry takes one observer, and does not say whether it is this one: so a context is attached to see.
fn observe() -> io::Result<()> {
    GlobalContextObserver::set(Arc::new(Observer));
    drop(Context::current().attach());
    match IS_SEEN.with(Cell::get) {
        true => Ok(()),
        false => Err(io::Error::other("another observer of contexts is in place")),
    }
}

fn try_install() -> io::Result<()> {
    if matches!(std::env::var("SPANPROF_OTEL_DISABLED").as_deref(), Ok("1" | "true")) {
        return Err(io::Error::other("SPANPROF_OTEL_DISABLED is set"));
    }
    start()?;
    observe()?;
    // SAFETY: the function touches a cell of its thread and the writer, which may be called in a forked child
    check(unsafe { layout::pthread_atfork(None, None, Some(fork_child)) })
}

/// Publishes spans from now on: whether it does. Further calls do nothing. If it cannot be done, one line on standard error says
/// why, and the program runs as before. A thread that has a current span already publishes the next one.
pub fn install() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();

    *INSTALLED.get_or_init(|| match try_install() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("spanprof: spans are not published: {error}");
            false
        }
    })
}

/// Publishes attributes of the process that are text, in place of those that were published before:
///
/// ```
/// let resource = opentelemetry_sdk::Resource::builder().with_service_name("shop").build();
/// spanprof_otel::publish_resource(&resource)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// An error says that they are over 64 KiB in all, or that there is no memory.
pub fn publish_resource<'a>(attributes: impl IntoIterator<Item = (&'a Key, &'a Value)>) -> io::Result<()> {
    let texts: Vec<(CString, CString)> = attributes
        .into_iter()
        .filter_map(|(key, value)| match value {
            Value::String(text) => Some((CString::new(key.as_str()).ok()?, CString::new(text.as_str()).ok()?)),
            _ => None,
        })
        .collect();
    let attributes: Vec<layout::Attribute> = texts
        .iter()
        .map(|(key, value)| layout::Attribute { key: key.as_ptr(), value: value.as_ptr() })
        .collect();
    let process = layout::Process {
        size: std::mem::size_of::<layout::Process>(),
        n_attributes: attributes.len(),
        attributes: attributes.as_ptr(),
        n_keys: 0,
        keys: std::ptr::null(),
    };
    // SAFETY: everything is copied, and lives until then
    check(unsafe { layout::spanprof_otel_publish(&process) })
}

/// What the calling thread publishes, for tests of a program.
pub fn published() -> Option<(TraceId, SpanId)> {
    let (mut high, mut low, mut span) = (0, 0, 0);
    // SAFETY: three numbers to write to
    let is_set = unsafe { layout::spanprof_api_get_otel(&mut high, &mut low, &mut span) };
    is_set.then(|| {
        let trace = u128::from(high) << 64 | u128::from(low);
        (TraceId::from_bytes(trace.to_be_bytes()), SpanId::from_bytes(span.to_be_bytes()))
    })
}

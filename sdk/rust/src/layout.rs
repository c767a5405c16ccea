// SPDX-License-Identifier: Apache-2.0
//! What a thread publishes, for readers in Rust; and the SDK's functions and structures (spanprof/context.h and otel.h), as this
//! crate calls them. The test below compares each size, offset and constant with what a compiler of C makes of the headers.
use std::ffi::{c_char, c_int, c_void, CStr};

pub(crate) const RING: u32 = 1;
pub(crate) const THREAD: u32 = 2;
pub(crate) const ENVIRONMENT: &str = "SPANPROF_CONTEXT";
/// [`Record::valid`] of a record that may be read.
pub const VALID: u8 = 1;

/// Variable of a thread that leads to its [`Record`].
pub const THREAD_SYMBOL: &CStr = match CStr::from_bytes_with_nul(b"otel_thread_ctx_v1\0") {
    Ok(text) => text,
    Err(_) => panic!("no terminator"),
};

#[repr(C)]
pub(crate) struct Options {
    pub(crate) size: u32,
    pub(crate) capacity: u32,
    pub(crate) storage: u32,
}

#[repr(C)]
pub(crate) struct Attribute {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

#[repr(C)]
pub(crate) struct Process {
    pub(crate) size: usize,
    pub(crate) n_attributes: usize,
    pub(crate) attributes: *const Attribute,
    pub(crate) n_keys: usize,
    pub(crate) keys: *const *const c_char,
}

/// What the spans of one request are named by; all zero: it has no name yet.
#[repr(C)]
pub(crate) struct Root {
    pub(crate) number: u64,
    pub(crate) name: *const c_void,
    pub(crate) thread: *const c_void,
}

/// What a thread publishes, as readers find it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Record {
    /// The first byte is the highest.
    pub trace_id: [u8; 16],
    /// The first byte is the highest.
    pub span_id: [u8; 8],
    /// Anything but [`VALID`]: no span, or it is being written.
    pub valid: u8,
    /// Not written here.
    pub trace_flags: u8,
    /// Bytes that follow.
    pub attributes_size: u16,
}

extern "C" {
    pub(crate) fn spanprof_context_start(options: *const Options) -> c_int;
    pub(crate) fn spanprof_context_set_root(trace_high: u64, trace_low: u64, span: u64, root: *mut Root);
    pub(crate) fn spanprof_context_clear();
    pub(crate) fn spanprof_otel_name(
        root: *mut Root,
        name: *const c_char,
        name_size: usize,
        route: *const c_char,
        route_size: usize,
    );
    pub(crate) fn spanprof_otel_names_refused() -> u64;
    pub(crate) fn spanprof_api_get_otel(trace_high: *mut u64, trace_low: *mut u64, span: *mut u64) -> bool;
    pub(crate) fn spanprof_otel_publish(process: *const Process) -> c_int;
    pub(crate) fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(crate) fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    extern "C" {
        static spanprof_rust_layout: [usize; 26];
        static spanprof_rust_n_layout: usize;
        static spanprof_rust_thread_symbol: c_char;
        static spanprof_rust_environment: c_char;
    }

    /// Offset of a field, also for compilers before offset_of!().
    macro_rules! offset {
        ($kind:ty, $field:ident) => {{
            let place = std::mem::MaybeUninit::<$kind>::uninit();
            let base = place.as_ptr();
            unsafe { std::ptr::addr_of!((*base).$field) as usize - base as usize }
        }};
    }

    #[test]
    fn layout_is_that_of_the_headers() {
        let ours = [
            RING as usize,
            THREAD as usize,
            size_of::<Options>(),
            offset!(Options, size),
            offset!(Options, capacity),
            offset!(Options, storage),
            size_of::<Attribute>(),
            offset!(Attribute, key),
            offset!(Attribute, value),
            size_of::<Process>(),
            offset!(Process, size),
            offset!(Process, n_attributes),
            offset!(Process, attributes),
            offset!(Process, n_keys),
            offset!(Process, keys),
            size_of::<Root>(),
            offset!(Root, number),
            offset!(Root, name),
            offset!(Root, thread),
            size_of::<Record>(),
            offset!(Record, trace_id),
            offset!(Record, span_id),
            offset!(Record, valid),
            offset!(Record, trace_flags),
            offset!(Record, attributes_size),
            VALID as usize,
        ];
        unsafe {
            assert_eq!(spanprof_rust_n_layout, ours.len());
            assert_eq!(spanprof_rust_layout, ours);
            assert_eq!(CStr::from_ptr(&spanprof_rust_thread_symbol), THREAD_SYMBOL);
            assert_eq!(CStr::from_ptr(&spanprof_rust_environment).to_str(), Ok(ENVIRONMENT));
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Burns the CPU in serve(), until a line comes on standard input. Then it crashes in crash_here(), in span 1234 of trace
//! (4711, 4712): `null` writes to address 0x1234, `bounds` takes an index behind the end, `panic` panics. Both panics
//! abort: it is compiled with panic=abort.
use std::hint::black_box;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};

#[link(name = "spanprof-context")]
extern "C" {
    fn spanprof_context_start(options: *const u8) -> i32;
    fn spanprof_context_set(trace_high: u64, trace_low: u64, span: u64);
}

static HAS_ORDER: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn crash_here(how: &str) -> usize {
    match how {
        "null" => unsafe { *(black_box(0x1234) as *mut i32) = 1 },
        "bounds" => return black_box(&[1usize][..])[black_box(4711)] + 1,
        _ => panic!("asked for"),
    }
    1
}

#[inline(never)]
fn serve(order: std::sync::mpsc::Receiver<String>) -> usize {
    let mut sum = 0u64;
    while !HAS_ORDER.load(Ordering::Relaxed) {
        sum = black_box(sum * 31 + 7);
    }
    unsafe { spanprof_context_set(4711, 4712, 1234) };
    crash_here(&order.recv().unwrap()) + 1
}

fn main() {
    let (send, order) = std::sync::mpsc::channel();
    assert!(unsafe { spanprof_context_start(std::ptr::null()) } == 0);
    println!("pid {}", std::process::id());
    std::thread::spawn(move || {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).unwrap();
        send.send(line.trim().to_string()).unwrap();
        HAS_ORDER.store(true, Ordering::Relaxed);
    });
    println!("{}", serve(order));
}

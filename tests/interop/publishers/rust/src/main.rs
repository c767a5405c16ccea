// SPDX-License-Identifier: Apache-2.0
//! With Datadog's library for Rust: publisher SECONDS. Prints lines as Agent.java does; every other request updates the
//! record that is attached, in place.
use libdd_otel_thread_ctx::linux::OwnedThreadContext;
use std::hint::black_box;
use std::thread;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

fn now() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(1, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

fn burn(end: u64) {
    let mut x: u64 = 1;
    while now() < end {
        for _ in 0..10_000 {
            x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        }
    }
}

fn work(worker: u64, end: u64) {
    let mut request = 0u64;
    while now() < end {
        request += 1;
        let high = 0x0057_0000_0000_0000u64 | worker;
        let span = worker << 32 | request;
        let mut trace = [0u8; 16];
        trace[..8].copy_from_slice(&high.to_be_bytes());
        trace[8..].copy_from_slice(&request.to_be_bytes());
        let ids = (trace, span.to_be_bytes(), worker.to_be_bytes());
        if request % 2 == 1 {
            let _ = OwnedThreadContext::detach();
            OwnedThreadContext::new(ids.0, ids.1, 1, ids.2, &[(1, "GET")]).attach();
        } else {
            OwnedThreadContext::update(ids.0, ids.1, 1, ids.2, &[(1, "POST")]);
        }
        let begin = now();
        burn(begin + 100_000_000);
        println!("span {high:016x}{request:016x} {span:016x} worker-{worker} {begin} {}", now());
        if request % 2 == 0 {
            let _ = OwnedThreadContext::detach();
            burn(now() + 10_000_000);
        }
    }
    let _ = OwnedThreadContext::detach();
}

fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|x| x.parse().ok()).unwrap_or(10);
    let end = now() + seconds * 1_000_000_000;
    println!("ready");
    let threads: Vec<_> = (1..3)
        .map(|worker| thread::Builder::new().name(format!("worker-{worker}")).spawn(move || work(worker, end)).unwrap())
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

// SPDX-License-Identifier: Apache-2.0
//! With Polar Signals' custom-labels: publisher-labels SECONDS. Prints lines as Agent.java does. A set of labels is made
//! whole and then entered, or changed in place while it counts.
use custom_labels::Labelset;
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
        let trace = format!("{:016x}{request:016x}", 0x0057_0000_0000_0000u64 | worker);
        let span = format!("{:016x}", worker << 32 | request);
        let mut labels = Labelset::new();
        labels.set("trace_id", trace.as_bytes());
        labels.set("span_id", span.as_bytes());
        labels.set("tenant", "blue");
        labels.enter(|| {
            let begin = now();
            let method = if request % 2 == 1 { "GET" } else { "POST" };
            custom_labels::with_label("http.method", method, || burn(begin + 100_000_000));
            println!("span {trace} {span} worker-{worker} {begin} {}", now());
        });
        burn(now() + 10_000_000);
    }
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

// SPDX-License-Identifier: Apache-2.0
//! Threads that wait for locks which the first one has: a Mutex, and an RwLock to read and to write. Each says who
//! it is.
use std::sync::{Arc, Barrier, Mutex, RwLock};
use std::thread::{self, Builder};
use std::time::Duration;

fn say(name: &str) {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    println!("{name} {}", link.file_name().unwrap().to_str().unwrap());
}

fn start(name: &'static str, begun: &Arc<Barrier>, wait: impl FnOnce() + Send + 'static) {
    let begun = begun.clone();
    Builder::new()
        .name(name.into())
        .spawn(move || {
            say(name);
            begun.wait();
            wait();
        })
        .unwrap();
}

fn main() {
    let (mutex, lock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
    let (wanted, read, written) = (mutex.clone(), lock.clone(), lock.clone());
    let begun = Arc::new(Barrier::new(4));
    let _mutex = mutex.lock().unwrap();
    let _lock = lock.write().unwrap();
    start("mutex", &begun, move || *wanted.lock().unwrap() += 1);
    start("reader", &begun, move || println!("{}", read.read().unwrap()));
    start("writer", &begun, move || *written.write().unwrap() += 1);
    begun.wait();
    thread::sleep(Duration::from_millis(100));
    println!("ready");
    thread::sleep(Duration::from_secs(600));
}

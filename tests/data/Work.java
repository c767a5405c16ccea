// SPDX-License-Identifier: Apache-2.0
//
// A program whose recordings are known: main computes (Work.fib), work-0 and work-1 contend for a lock (Work.locked),
// work-2 waits on it and parks, work-3 allocates (Work.alloc).
//
//     java Work SECONDS
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

public class Work {
    static final Object LOCK = new Object();
    static volatile long sink;

    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    static void alloc() {
        List<byte[]> list = new ArrayList<>();
        for (int i = 0; i < 2000; i++)
            list.add(new byte[1000 + i]);
        sink += list.size();
    }

    static void locked() throws InterruptedException {
        synchronized (LOCK) {
            Thread.sleep(25);
        }
    }

    static void waiter() throws InterruptedException {
        synchronized (LOCK) {
            LOCK.wait(30);
        }
        LockSupport.parkNanos(30_000_000);
    }

    static void run(int kind, long end) {
        try {
            while (System.nanoTime() < end) {
                if (kind < 2)
                    locked();
                else if (kind == 2)
                    waiter();
                else
                    alloc();
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            int kind = i;
            threads[i] = new Thread(() -> run(kind, end), "work-" + i);
            threads[i].start();
        }
        while (System.nanoTime() < end)
            sink += fib(22);
        for (Thread thread : threads)
            thread.join();
    }
}

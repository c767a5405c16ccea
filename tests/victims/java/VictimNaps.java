// SPDX-License-Identifier: Apache-2.0

/**
 * Threads that wait again and again below `down`: `dozing` sleeps, `parked` parks, and `blocked` wants a monitor
 * that `keeper` has meanwhile. For test-run-waits-runtimes.py. Ends with its input.
 */
public class VictimNaps {
    private static final int NAP_MS = 50;
    private static final Object lock = new Object();

    static void down(int n, Runnable last) {
        if (n > 0) {
            down(n - 1, last);
        } else {
            last.run();
        }
    }

    static void doze() {
        try {
            Thread.sleep(NAP_MS);
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        }
    }

    static void park() {
        java.util.concurrent.locks.LockSupport.parkNanos(NAP_MS * 1000000L);
    }

    static void keep() {
        synchronized (lock) {
            doze();
        }
    }

    static void want() {
        synchronized (lock) {
            Thread.onSpinWait();
        }
    }

    static void start(String name, Runnable run) {
        Thread thread = new Thread(new Runnable() {
            public void run() {
                while (true) {
                    down(5, run);
                }
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws java.io.IOException {
        start("dozing", new Runnable() { public void run() { doze(); } });
        start("parked", new Runnable() { public void run() { park(); } });
        start("keeper", new Runnable() { public void run() { keep(); } });
        start("blocked", new Runnable() { public void run() { want(); } });
        System.out.println("ready");
        System.out.flush();
        System.in.read();
    }
}

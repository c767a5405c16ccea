// SPDX-License-Identifier: Apache-2.0

/** Threads that hang: `blocked` wants a monitor that the first one has, `parked` parks, `dozing` sleeps. */
public class VictimStill {
    private static final Object lock = new Object();

    static void down(int n, Runnable last) {
        if (n > 0) {
            down(n - 1, last);
        } else {
            last.run();
        }
    }

    static void hang() {
        synchronized (lock) {
            System.out.println("never");
        }
    }

    static void park() {
        while (true) {
            java.util.concurrent.locks.LockSupport.park();
        }
    }

    static void doze() {
        try {
            Thread.sleep(100000000);
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        }
    }

    static void start(String name, Runnable run) {
        Thread thread = new Thread(new Runnable() {
            public void run() {
                down(5, run);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) {
        synchronized (lock) {
            start("blocked", new Runnable() { public void run() { hang(); } });
            start("parked", new Runnable() { public void run() { park(); } });
            start("dozing", new Runnable() { public void run() { doze(); } });
            System.out.println("ready");
            System.out.flush();
            doze();
        }
    }
}

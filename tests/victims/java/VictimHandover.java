// SPDX-License-Identifier: Apache-2.0
import java.util.concurrent.locks.ReentrantLock;

/**
 * Locks that go from hand to hand. `keepCart` has the monitor of a Cart again and again, `keepTill` a
 * ReentrantLock; `buyer` wants the one and the other in turn, below a function for each. `noted` awaits the
 * notify() of a Note in vain. For test-run-wait-locks.py. Prints `bought` each time that `buyer` had both, and
 * ends with its input.
 */
public class VictimHandover {
    private static final int FREE_MS = 40;
    private static int keptMs = 300;    // or the first argument

    static final class Cart { }
    static final class Note { }

    private static final Object cart = new Cart(), note = new Note();
    private static final ReentrantLock till = new ReentrantLock();

    interface Step {
        void run() throws InterruptedException;
    }

    static void keepCart() throws InterruptedException {
        synchronized (cart) {
            Thread.sleep(keptMs);
        }
        Thread.sleep(FREE_MS);
    }

    static void keepTill() throws InterruptedException {
        till.lock();
        Thread.sleep(keptMs * 2 / 3);   // in step with keepCart, both would be free at once, and nobody waits
        till.unlock();
        Thread.sleep(FREE_MS);
    }

    static void wantCart() {
        synchronized (cart) {
            Thread.yield();
        }
    }

    static void wantTill() {
        till.lock();
        till.unlock();
    }

    static void buy() {
        wantCart();
        wantTill();
        System.out.println("bought");
    }

    static void awaitNote() throws InterruptedException {
        synchronized (note) {
            note.wait(keptMs);
        }
    }

    static void start(String name, Step step) {
        Thread thread = new Thread(() -> {
            try {
                while (true)
                    step.run();
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws java.io.IOException {
        if (arguments.length > 0)
            keptMs = Integer.parseInt(arguments[0]);
        start("keepCart", VictimHandover::keepCart);
        start("keepTill", VictimHandover::keepTill);
        start("buyer", VictimHandover::buy);
        start("noted", VictimHandover::awaitNote);
        System.out.println("ready");
        System.in.read();
    }
}

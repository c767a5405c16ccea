// SPDX-License-Identifier: Apache-2.0
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Two deadlocks, one of monitors and one of ReentrantLocks, and threads that wait for locks without one:
 *
 *   left, right    have a Left and a Right, and want each other's
 *   up, down       the same of two ReentrantLocks, of which one is fair
 *   heir           wants the monitor that idle has, which sleeps in it
 *   reader         wants to read what writer writes, which sleeps meanwhile
 *   noted          waits for notify() of a Note
 *   permit         wants one of a Semaphore that has none, and knows no owner
 */
final class VictimLocks {
    static final class Left { }
    static final class Right { }
    static final class Estate { }
    static final class Note { }

    interface Step {
        void run() throws InterruptedException;
    }

    static final ReentrantLock plain = new ReentrantLock(), fair = new ReentrantLock(true);
    static final List<Thread> threads = new ArrayList<>();

    static void start(String name, Step step) {
        Thread thread = new Thread(() -> {
            try {
                step.run();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
        threads.add(thread);
    }

    static void meet(CountDownLatch latch) throws InterruptedException {
        latch.countDown();
        latch.await();
    }

    static void enter(Object first, Object second, CountDownLatch both) throws InterruptedException {
        synchronized (first) {
            meet(both);
            synchronized (second) {
                System.out.println("cannot be");
            }
        }
    }

    static void lock(ReentrantLock first, ReentrantLock second, CountDownLatch both) throws InterruptedException {
        first.lock();
        meet(both);
        second.lock();
    }

    static void sleep() throws InterruptedException {
        Thread.sleep(600_000);
    }

    static void startDeadlocks() {
        CountDownLatch monitors = new CountDownLatch(2), locks = new CountDownLatch(2);
        Object left = new Left(), right = new Right();

        start("left", () -> enter(left, right, monitors));
        start("right", () -> enter(right, left, monitors));
        start("up", () -> lock(plain, fair, locks));
        start("down", () -> lock(fair, plain, locks));
    }

    static void startWaits() throws InterruptedException {
        CountDownLatch taken = new CountDownLatch(3);
        ReentrantReadWriteLock rw = new ReentrantReadWriteLock();
        Object estate = new Estate(), note = new Note();

        start("idle", () -> {
            synchronized (estate) {
                taken.countDown();
                sleep();
            }
        });
        start("writer", () -> {
            rw.writeLock().lock();
            taken.countDown();
            sleep();
        });
        meet(taken);
        start("heir", () -> {
            synchronized (estate) {
                System.out.println("cannot be");
            }
        });
        start("reader", () -> rw.readLock().lock());
        start("noted", () -> {
            synchronized (note) {
                note.wait();
            }
        });
        start("permit", () -> new Semaphore(0).acquire());
    }

    static boolean waits(Thread thread) {
        Thread.State state = thread.getState();

        if (thread.getName().matches("left|right|heir"))
            return state == Thread.State.BLOCKED;
        return state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING;
    }

    public static void main(String[] arguments) throws InterruptedException {
        startDeadlocks();
        startWaits();
        while (!plain.hasQueuedThreads() || !fair.hasQueuedThreads())
            Thread.sleep(1);
        for (Thread thread : threads)
            while (!waits(thread))
                Thread.sleep(1);
        System.out.println("ready");
        sleep();
    }
}

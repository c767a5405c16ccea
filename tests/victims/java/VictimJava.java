/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Threads of Java with known stacks, for test-hotspot.py. Each chain is run until it is compiled and then once
 * more on a thread of its own, `chain-NAME`, which sleeps at its leaf. When all sleep, it prints `ready`; at
 * the end of its input it exits.
 *
 * usage: java VictimJava [ROUNDS] [CHAIN…]         ROUNDS: of each chain before; 0: it stays interpreted
 */
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;

public class VictimJava {
    static final long FOREVER = 1L << 60;
    static volatile int sink;
    static CountDownLatch asleep;

    /** What a chain ends in: it sleeps for `nanos`, if that is not negative. */
    static final class Leaf {
        long nanos = -1;

        int run(int n) {
            if (nanos >= 0) {
                if (nanos == FOREVER) {
                    asleep.countDown();
                }
                LockSupport.parkNanos(this, nanos);
            }
            return sink += n;
        }
    }

    interface Chain {
        int run(Leaf leaf) throws Exception;
    }

    // ---- recursion ----

    static int deepA(Leaf leaf, int depth) {
        return depth == 0 ? leaf.run(1) : deepB(leaf, depth - 1) + 1;
    }

    static int deepB(Leaf leaf, int depth) {
        int more = depth & 3;

        return deepC(leaf, depth, more) - more;
    }

    static int deepC(Leaf leaf, int depth, int more) {
        return depth == 0
            ? leaf.run(more)
            : deepA(leaf, depth - 1);
    }

    static int deep(Leaf leaf) {
        return deepA(leaf, 90);
    }

    // ---- lambdas, streams, comparators ----

    static int lambda(Leaf leaf) {
        IntUnaryOperator inner = n -> leaf.run(n) + 1;
        IntUnaryOperator outer = n -> inner.applyAsInt(n) + 2;

        return outer.andThen(n -> n + 1).compose(n -> n - 1).applyAsInt(3);
    }

    static int stream(Leaf leaf) {
        return IntStream.range(0, 3)
            .map(n -> n + 1)
            .filter(n -> n != 2)
            .map(n -> n == 3 ? leaf.run(n) : n)
            .sum();
    }

    static int sort(Leaf leaf) {
        List<Integer> numbers = new ArrayList<>(Arrays.asList(5, 3, 9, 1));
        int[] left = { 3 };

        Collections.sort(numbers, (a, b) -> {
            if (--left[0] == 0) {
                leaf.run(a);
            }
            return Integer.compare(a, b);
        });
        return numbers.get(0);
    }

    // ---- one call, many targets ----

    interface Shape {
        int area(Leaf leaf, int depth);
    }

    static final Shape[] SHAPES = new Shape[5];

    static int next(Leaf leaf, int depth) {
        return depth == 0 ? leaf.run(7) : SHAPES[depth % SHAPES.length].area(leaf, depth - 1);
    }

    static class Square implements Shape {
        public int area(Leaf leaf, int depth) {
            return next(leaf, depth) + 1;
        }
    }

    static class Circle implements Shape {
        public int area(Leaf leaf, int depth) {
            return next(leaf, depth) + 2;
        }
    }

    static class Line implements Shape {
        public int area(Leaf leaf, int depth) {
            return next(leaf, depth) + 3;
        }
    }

    static class Point implements Shape {
        public int area(Leaf leaf, int depth) {
            return next(leaf, depth) + 4;
        }
    }

    static class Ring extends Circle {
        public int area(Leaf leaf, int depth) {
            return super.area(leaf, depth) + 5;
        }
    }

    static int shapes(Leaf leaf) {
        return next(leaf, 30);
    }

    // ---- exceptions ----

    static int thrower(Leaf leaf, int n) throws Exception {
        if (n == 0) {
            throw new Exception("known");
        }
        return thrower(leaf, n - 1) + 1;
    }

    static int catcher(Leaf leaf) {
        int n = 0;

        try {
            n = thrower(leaf, 4);
        } catch (Exception e) {
            n = leaf.run(2);
        } finally {
            n++;
        }
        return n;
    }

    // ---- through the VM and back ----

    public static int reflected(Leaf leaf) {
        return leaf.run(4);
    }

    static int reflection(Leaf leaf) throws Exception {
        Method method = VictimJava.class.getDeclaredMethod("reflected", Leaf.class);

        return (Integer) method.invoke(null, leaf);
    }

    static Leaf initialLeaf;

    static class Initial {
        static int value = deepA(initialLeaf, 9);
    }

    static int initializer(Leaf leaf) {
        if (leaf.nanos != FOREVER) {
            return 0;
        }
        initialLeaf = leaf;
        return Initial.value;
    }

    // ---- entered within a loop ----

    static int loop(Leaf leaf) {
        long nanos = leaf.nanos;
        int sum = 0;

        leaf.nanos = -1;
        for (int i = 0; i < 200000; i++) {
            if (i == 199999) {
                leaf.nanos = nanos;
            }
            sum += leaf.run(i);
        }
        return sum;
    }

    // ---- code that is thrown away while it has frames ----

    static class Base {
        int next(Leaf leaf) {
            return leaf.run(1);
        }
    }

    static class Other extends Base {
        int next(Leaf leaf) {
            return leaf.run(2);
        }
    }

    static int viaBase(Leaf leaf, Base base, int depth) {
        return depth == 0 ? base.next(leaf) : viaBase(leaf, base, depth - 1) + 1;
    }

    static final Base BASE = new Base();
    static Base made = BASE;

    static int thrownAway(Leaf leaf) {
        return viaBase(leaf, made, 12);
    }

    // ---- the whole ----

    static final Map<String, Chain> CHAINS = new LinkedHashMap<>();

    static {
        SHAPES[0] = new Square();
        SHAPES[1] = new Circle();
        SHAPES[2] = new Line();
        SHAPES[3] = new Point();
        SHAPES[4] = new Ring();
        CHAINS.put("deep", VictimJava::deep);
        CHAINS.put("lambda", VictimJava::lambda);
        CHAINS.put("stream", VictimJava::stream);
        CHAINS.put("sort", VictimJava::sort);
        CHAINS.put("shapes", VictimJava::shapes);
        CHAINS.put("catcher", VictimJava::catcher);
        CHAINS.put("reflection", VictimJava::reflection);
        CHAINS.put("initializer", VictimJava::initializer);
        CHAINS.put("loop", VictimJava::loop);
        CHAINS.put("thrown-away", VictimJava::thrownAway);
    }

    static void warm(Chain chain, int rounds) throws Exception {
        Leaf leaf = new Leaf();

        for (int i = 0; i < rounds; i++) {
            leaf.nanos = i % 64 == 0 ? 1 : -1;
            chain.run(leaf);
        }
    }

    static void start(String name, Chain chain) {
        Leaf leaf = new Leaf();
        Thread thread = new Thread(() -> {
            leaf.nanos = FOREVER;
            try {
                chain.run(leaf);
            } catch (Exception e) {
                e.printStackTrace();
            }
        }, "chain-" + name);

        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] args) throws Exception {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 20000;

        if (args.length > 1) {
            CHAINS.keySet().retainAll(Arrays.asList(args).subList(1, args.length));
        }
        asleep = new CountDownLatch(CHAINS.size());
        for (Map.Entry<String, Chain> entry : CHAINS.entrySet()) {
            boolean isLoop = entry.getKey().equals("loop");

            warm(entry.getValue(), isLoop ? Math.min(rounds, 2) : rounds);
        }
        for (Map.Entry<String, Chain> entry : CHAINS.entrySet()) {
            start(entry.getKey(), entry.getValue());
        }
        asleep.await();
        /* From here on Base.next() has two forms, and code that knew one only is thrown away. */
        made = new Other();
        sink += made.hashCode();
        Thread.sleep(300);
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {
            sink++;
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java that computes in known chains of calls, one after the other, for test-run-hotspot.py. Each chain begins in
 * `main` and ends in `burn`; between them stand methods of this class in an order that the source fixes, whatever is
 * compiled or inlined.
 *
 * usage: java VictimJavaBusy [CHAIN…]          prints `ready` once it is warm; a line of input names the chains that it
 *                                              runs from then on, an empty one is the end
 *        java -Dlog VictimJavaBusy [CHAIN…]    the same; for a line `?` it prints `cpu CHAIN NS …`, the CPU time that
 *                                              each chain has had so far, `turns N`, and goes on
 *        java -Dnap=MS VictimJavaBusy …        sleeps after each round: many of them are no load
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

public class VictimJavaBusy {
    static final int WARM_ROUNDS = 30;
    static int sink;

    static int burn(int n) {
        int sum = n;

        for (int i = 0; i < 20000; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        return sink += sum;
    }

    static int deepA(int depth) {
        return depth == 0 ? burn(1) : deepB(depth - 1) + 1;
    }

    static int deepB(int depth) {
        return depth == 0 ? burn(2) : deepC(depth - 1) + 2;
    }

    static int deepC(int depth) {
        return depth == 0 ? burn(3) : deepA(depth - 1) + 3;
    }

    static int deep(int n) {
        return deepA(63);
    }

    static int sort(int n) {
        List<Integer> numbers = new ArrayList<>(Arrays.asList(5, 3, 9, 1));

        Collections.sort(numbers, (a, b) -> burn(a) == 0 ? 0 : Integer.compare(a, b));
        return numbers.get(0);
    }

    static int stream(int n) {
        return IntStream.range(0, 3).map(x -> burn(x)).filter(x -> x != 2).sum();
    }

    interface Shape {
        int area(int depth);
    }

    static int next(int depth) {
        return depth == 0 ? burn(7) : SHAPES[depth % 3].area(depth - 1);
    }

    static class Square implements Shape {
        public int area(int depth) {
            return next(depth) + 1;
        }
    }

    static class Circle implements Shape {
        public int area(int depth) {
            return next(depth) + 2;
        }
    }

    static class Line implements Shape {
        public int area(int depth) {
            return next(depth) + 3;
        }
    }

    static final Shape[] SHAPES = { new Square(), new Circle(), new Line() };

    static int shapes(int n) {
        return next(9);
    }

    static int thrower(int n) {
        if (burn(n) != 0 || n >= 0) {
            throw new IllegalStateException();
        }
        return 1;
    }

    static int caught(int n) {
        try {
            return thrower(n);
        } catch (IllegalStateException e) {
            return handle(n);
        }
    }

    static int handle(int n) {
        return burn(n);
    }

    /** One long call: it is replaced while it runs (OSR). */
    static int loop(int n) {
        int sum = 0;

        for (int i = 0; i < 40; i++) {
            sum += burn(i);
        }
        return sum;
    }

    static int over(int n) {
        return over(n, new String[] { "a" }) + 1;
    }

    static int over(long n, String[] names) {
        return burn((int)n) + names.length;
    }

    static int called(int n) {
        return burn(n);
    }

    /** Native code calls back, in the first calls or with -Dsun.reflect.inflationThreshold=2147483647. */
    static int mirror(int n) {
        try {
            return (Integer)CALLED.invoke(null, n);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static final Method CALLED = find("called");

    static Method find(String name) {
        try {
            return VictimJavaBusy.class.getDeclaredMethod(name, int.class);
        } catch (NoSuchMethodException e) {
            throw new IllegalStateException(e);
        }
    }

    interface Chain {
        int run(int n);
    }

    static long cpuNs() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    static void say(Map<String, Chain> chains, Map<Chain, Long> spent, long turns) {
        StringBuilder text = new StringBuilder("cpu");

        for (Map.Entry<String, Chain> chain : chains.entrySet()) {
            text.append(" " + chain.getKey() + " " + spent.getOrDefault(chain.getValue(), 0L));
        }
        System.out.println(text + "\nturns " + turns);
    }

    static List<Chain> choose(Map<String, Chain> chains, String[] names) {
        List<Chain> chosen = new ArrayList<>();

        for (String name : names.length > 0 ? Arrays.asList(names) : chains.keySet()) {
            if (chains.containsKey(name)) {
                chosen.add(chains.get(name));
            }
        }
        return chosen;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Map<String, Chain> chains = new LinkedHashMap<>();

        chains.put("deep", VictimJavaBusy::deep);
        chains.put("sort", VictimJavaBusy::sort);
        chains.put("stream", VictimJavaBusy::stream);
        chains.put("shapes", VictimJavaBusy::shapes);
        chains.put("caught", VictimJavaBusy::caught);
        chains.put("loop", VictimJavaBusy::loop);
        chains.put("over", VictimJavaBusy::over);
        chains.put("mirror", VictimJavaBusy::mirror);
        List<Chain> chosen = choose(chains, arguments);
        boolean isLogging = System.getProperty("log") != null;
        int nap = Integer.getInteger("nap", 0);
        Map<Chain, Long> spent = new LinkedHashMap<>();
        long turns = 0;

        for (int round = 0; !chosen.isEmpty(); round++) {
            if (round == WARM_ROUNDS) {
                System.out.println("ready");
            }
            if (System.in.available() > 0) {
                String line = input.readLine();

                if (line.equals("?")) {
                    say(chains, spent, turns);
                } else {
                    chosen = choose(chains, line.split(" "));
                }
            }
            for (Chain chain : chosen) {
                long end = System.nanoTime() + 20_000_000, begin = isLogging ? cpuNs() : 0;

                do {
                    sink += chain.run(1);
                    turns++;
                } while (System.nanoTime() < end);
                if (isLogging) {
                    spent.merge(chain, cpuNs() - begin, Long::sum);
                }
            }
            if (nap > 0) {
                Thread.sleep(nap);
            }
        }
    }
}

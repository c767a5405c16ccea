/* SPDX-License-Identifier: Apache-2.0 */
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import java.util.zip.CRC32;
import spanprof.ThreadContext;

/**
 * A shop with two workers and three operations, each request a span of its own: what `./bootstrap demo`
 * profiles of Java. It needs no flag of the JVM. From a checkout:
 *
 * <pre>
 *     javac -d CLASSES sdk/java/spanprof/ThreadContext.java sdk/example/java/Shop.java
 *     java -Dspanprof.library=build/sdk/libspanprof-context.so -cp CLASSES Shop SPANS.csv TRUTH.json
 * </pre>
 *
 * Prints {@code ready}. At its end, by SIGTERM, it has written which operation each span was ({@code
 * SPANS.csv}, as example-service does), and the CPU time of each operation by its threads' own clocks ({@code
 * TRUTH.json}).
 */
public final class Shop {
        private static final String[] OPERATIONS = { "invoice", "catalog", "stock" };
        private static final int WORKERS = 2;
        private static final long PAUSE_MS = 2;
        private static final ThreadMXBean CLOCKS = ManagementFactory.getThreadMXBean();

        private static volatile boolean stopping;

        /** One thread that serves requests, and what it remembers of them. */
        private static final class Worker extends Thread {
                private final long number;
                private final Random random;
                private final PrintWriter spans;
                private final long[] cpu = new long[OPERATIONS.length];
                private final byte[] boxes = new byte[1 << 16];
                private long seen;

                Worker(long number, PrintWriter spans) {
                        super("worker-" + number);
                        this.spans = spans;
                        this.number = number;
                        random = new Random(number);
                }

                @Override
                public void run() {
                        for (long request = 1; !stopping; request++) {
                                int operation = random.nextInt(OPERATIONS.length);

                                serve(operation, number << 32 | request);
                                pause();
                        }
                }

                private void serve(int operation, long span) {
                        ThreadContext context = ThreadContext.current();
                        long begin = CLOCKS.getCurrentThreadCpuTime();

                        context.put(0x5409L, number << 32 | span, span);
                        seen += create(operation).serve();
                        context.clear();
                        cpu[operation] += CLOCKS.getCurrentThreadCpuTime() - begin;
                        spans.println(String.format("%016x,%s", span, OPERATIONS[operation]));
                }

                private Operation create(int operation) {
                        if (operation == 0)
                                return new Invoice(random);
                        return operation == 1 ? new Catalog(random) : new Stock(random, boxes);
                }

                private static void pause() {
                        try {
                                Thread.sleep(PAUSE_MS);
                        } catch (InterruptedException end) {
                                Thread.currentThread().interrupt();
                        }
                }
        }

        private interface Operation {
                long serve();
        }

        /** An invoice: lines of text, and a checksum over them. */
        private static final class Invoice implements Operation {
                private final Random random;

                Invoice(Random random) {
                        this.random = random;
                }

                @Override
                public long serve() {
                        StringBuilder text = new StringBuilder();

                        for (int i = 0; i < 400; i++)
                                appendLine(text, i);
                        return checksum(text.toString());
                }

                private void appendLine(StringBuilder text, int i) {
                        text.append(i).append(' ').append(price()).append(" EUR\n");
                }

                private double price() {
                        return Math.round(random.nextGaussian() * 1000) / 100.0;
                }

                private long checksum(String text) {
                        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
                        long sum = 0;

                        for (int round = 0; round < 20; round++)
                                for (byte b : bytes)
                                        sum = sum * 31 + b;
                        return sum;
                }
        }

        /** A catalog of articles that is sorted and searched. */
        private static final class Catalog implements Operation {
                private final Random random;
                private int[] articles;

                Catalog(Random random) {
                        this.random = random;
                }

                @Override
                public long serve() {
                        long found = 0;

                        articles = random.ints(6000).toArray();
                        Arrays.sort(articles);
                        for (int i = 0; i < 2000; i++)
                                found += Arrays.binarySearch(articles, i * 1_000_003);
                        return found + matches();
                }

                private long matches() {
                        return Arrays.stream(articles).filter(article -> article % 7 == 0)
                                        .mapToLong(this::rank).sum();
                }

                private long rank(int article) {
                        return Integer.bitCount(article) * 31L + article % 13;
                }
        }

        /** How much of each article is left, by checksums of its boxes. */
        private static final class Stock implements Operation {
                private final Random random;
                private final byte[] boxes;

                Stock(Random random, byte[] boxes) {
                        this.random = random;
                        this.boxes = boxes;
                }

                @Override
                public long serve() {
                        CRC32 sum = new CRC32();

                        random.nextBytes(boxes);
                        sum.update(boxes);
                        return sum.getValue() + walk(0, boxes.length);
                }

                private long walk(int from, int to) {
                        int middle = (from + to) / 2;

                        return to - from < 64 ? add(from, to) : walk(from, middle) + walk(middle, to);
                }

                private long add(int from, int to) {
                        long sum = 0;

                        for (int i = from; i < to; i++)
                                sum += boxes[i];
                        return sum;
                }
        }

        private Shop() {
        }

        private static void writeTruth(Worker[] workers, String path) throws IOException {
                long[] cpu = new long[OPERATIONS.length];
                StringBuilder text = new StringBuilder();
                long all = 0;

                for (int i = 0; i < cpu.length; i++) {
                        for (Worker worker : workers)
                                cpu[i] += worker.cpu[i];
                        all += cpu[i];
                }
                for (int i = 0; i < cpu.length; i++)
                        text.append(String.format(Locale.ROOT, "%s{\"name\": \"%s\", \"cpu_ns\": %d, \"share\": %.6f}",
                                        i == 0 ? "" : ", ", OPERATIONS[i], cpu[i], (double)cpu[i] / Math.max(all, 1)));
                Files.write(Paths.get(path), ("{\"operations\": [" + text + "]}\n").getBytes(StandardCharsets.UTF_8));
        }

        private static void stop(Worker[] workers, PrintWriter spans, String truth) {
                stopping = true;
                try {
                        for (Worker worker : workers)
                                worker.join();
                        spans.close();
                        writeTruth(workers, truth);
                } catch (InterruptedException | IOException problem) {
                        System.err.println("Shop: " + problem);
                }
        }

        public static void main(String[] arguments) throws IOException {
                Worker[] workers = new Worker[WORKERS];

                if (arguments.length != 2) {
                        System.err.println("usage: Shop SPANS.csv TRUTH.json");
                        System.exit(2);
                }
                if (!ThreadContext.initialize("ctxstorage=otel"))
                        throw new IllegalStateException("contexts cannot be published");
                PrintWriter spans = new PrintWriter(Files.newBufferedWriter(Paths.get(arguments[0])));

                spans.println("span_id,operation");
                for (int i = 0; i < WORKERS; i++)
                        workers[i] = new Worker(i + 1, spans);
                Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(workers, spans, arguments[1])));
                for (Worker worker : workers)
                        worker.start();
                System.out.println("ready");
        }
}

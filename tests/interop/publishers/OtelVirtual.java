/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thousands of virtual threads that work for spans and block: OtelVirtual SECONDS THREADS [install]. Prints at its
 * end each busy stretch as OtelRequests does; THREAD is the id of the carrier in the operating system. They block
 * by sleep, locks, monitors, queues, executors, and structured concurrency where the JDK has it; meanwhile
 * memory is collected, and compiled code thrown away. What Java 8 has no names for is called by reflection, so any
 * javac will do.
 */
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

public final class OtelVirtual {
        interface Step {
                long step(long x);
        }

        /* Each that is loaded takes back what compilers have assumed before. */
        static class First implements Step {
                public long step(long x) {
                        return x * 6364136223846793005L + 1442695040888963407L;
                }
        }

        static class Second implements Step {
                public long step(long x) {
                        return x * 3935559000370003845L + 2691343689449507681L;
                }
        }

        static class Third extends First {
                public long step(long x) {
                        return super.step(x) ^ x >> 7;
                }
        }

        static final ReentrantLock[] LOCKS = new ReentrantLock[16];
        static final Object[] MONITORS = new Object[16];
        static final Queue<String> LINES = new ConcurrentLinkedQueue<>();
        static final Map<String, String> CARRIERS = new ConcurrentHashMap<>();
        static final BlockingQueue<CompletableFuture<Integer>> QUESTIONS = new LinkedBlockingQueue<>();
        static volatile Step step = new First();
        static volatile boolean structured;
        static long end;
        static ExecutorService executor;
        static Tracer tracer;

        /** The carrier's id: a carrier has one name, and a virtual thread's text ends with it. */
        static String thread() {
                String text = Thread.currentThread().toString();

                return CARRIERS.computeIfAbsent(text.substring(text.indexOf('@') + 1), name -> {
                        try {
                                return Files.readSymbolicLink(Paths.get("/proc/thread-self")).getFileName().toString();
                        } catch (java.io.IOException error) {
                                throw new java.io.UncheckedIOException(error);
                        }
                });
        }

        static void burn(int ms, Span span) {
                String ids = span == null ? "- -" : span.getSpanContext().getTraceId() + " " +
                        span.getSpanContext().getSpanId();
                String thread = thread();
                long begin = System.nanoTime(), x = 1, now;

                do {
                        for (int i = 0; i < 1000; i++)
                                x = step.step(x);
                        now = System.nanoTime();
                } while (now < begin + ms * 1_000_000L);
                if (!thread.equals(thread()))
                        throw new IllegalStateException("it was moved");
                LINES.add("busy " + ids + " " + thread + " " + begin + " " + now + (x == 0 ? " " : ""));
        }

        static void withLock(int which) throws Exception {
                ReentrantLock lock = LOCKS[which % LOCKS.length];

                lock.lock();
                try {
                        Thread.sleep(1);
                } finally {
                        lock.unlock();
                }
        }

        static void withMonitor(int which) throws Exception {
                Object monitor = MONITORS[which % MONITORS.length];

                synchronized (monitor) {
                        monitor.notifyAll();
                        monitor.wait(2);
                }
        }

        static void withQueue() throws Exception {
                CompletableFuture<Integer> answer = new CompletableFuture<>();

                QUESTIONS.add(answer);
                answer.get();
        }

        static void answer() {
                try {
                        while (true)
                                QUESTIONS.take().complete(1);
                } catch (InterruptedException over) {
                }
        }

        static Callable<Integer> task(Span span) {
                return Context.current().wrap(() -> {
                        burn(3, span);
                        Thread.sleep(1);
                        burn(3, span);
                        return 1;
                });
        }

        static void withTasks(Span span) throws Exception {
                List<Callable<Integer>> tasks = new ArrayList<>();

                for (int i = 0; i < 3; i++)
                        tasks.add(task(span));
                executor.invokeAll(tasks);
        }

        /** StructuredTaskScope: a preview, whose way to be opened has changed from JDK 21 to 25. */
        static void withScope(Span span) throws Exception {
                Class<?> kind = Class.forName("java.util.concurrent.StructuredTaskScope");
                Object scope = kind.isInterface() ? kind.getMethod("open").invoke(null) :
                        kind.getConstructor().newInstance();
                Method fork = kind.getMethod("fork", Callable.class);

                try {
                        for (int i = 0; i < 2; i++)
                                fork.invoke(scope, task(span));
                        kind.getMethod("join").invoke(scope);
                        structured = true;
                } finally {
                        kind.getMethod("close").invoke(scope);
                }
        }

        static void block(Span span, boolean scopes) throws Exception {
                int which = ThreadLocalRandom.current().nextInt(1 << 16);

                switch (which % 7) {
                case 0:
                        Thread.sleep(which % 10);
                        break;
                case 1:
                        withLock(which);
                        break;
                case 2:
                        withMonitor(which);
                        break;
                case 3:
                        withQueue();
                        break;
                case 4:
                        withTasks(span);
                        break;
                case 5:
                        if (scopes)
                                withScope(span);
                        break;
                default:
                        Thread.yield();
                }
        }

        static void request(boolean scopes) throws Exception {
                Span outer = tracer.spanBuilder("outer").startSpan(), inner = tracer.spanBuilder("inner").startSpan();

                try (Scope a = outer.makeCurrent()) {
                        burn(3, outer);
                        block(outer, scopes);
                        burn(3, outer);
                        try (Scope b = inner.makeCurrent()) {
                                block(inner, scopes);
                                burn(3, inner);
                        }
                        block(outer, scopes);
                        burn(3, outer);
                        try (Scope c = Context.root().makeCurrent()) {
                                Thread.sleep(1);
                                burn(3, null);
                        }
                } finally {
                        inner.end();
                        outer.end();
                }
                Thread.sleep(1);
                burn(3, null);
        }

        static void work(boolean scopes) {
                try {
                        while (System.nanoTime() < end)
                                request(scopes);
                } catch (Throwable error) {
                        error.printStackTrace();
                        System.exit(1);
                }
        }

        static Thread start(Runnable task) throws Exception {
                return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        }

        /** Collections, and classes that take compiled code back. */
        static void disturb() throws Exception {
                Step[] more = { new Second(), new Third(), new First() };

                for (int i = 0; System.nanoTime() < end; i++) {
                        Thread.sleep(200);
                        System.gc();
                        step = more[i % more.length];
                }
        }

        public static void main(String[] arguments) throws Exception {
                List<String> words = Arrays.asList(arguments);
                boolean scopes = words.contains("scopes");
                List<Thread> threads = new ArrayList<>();

                if (words.contains("install"))
                        OtelPlain.install();
                tracer = GlobalOpenTelemetry.getTracer("virtual");
                executor = (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
                for (int i = 0; i < LOCKS.length; i++) {
                        LOCKS[i] = new ReentrantLock();
                        MONITORS[i] = new Object();
                }
                end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(arguments[0]));
                Thread answers = start(OtelVirtual::answer);
                for (int i = 0; i < Integer.parseInt(arguments[1]); i++)
                        threads.add(start(() -> work(scopes)));
                disturb();
                for (Thread thread : threads)
                        thread.join();
                executor.shutdown();
                answers.interrupt();
                StringBuilder text = new StringBuilder();
                for (String line : LINES)
                        text.append(line).append('\n');
                System.out.print(text.append("structured ").append(structured).append('\n'));
        }
}

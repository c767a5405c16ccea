/* SPDX-License-Identifier: Apache-2.0 */
package spanprof.otel;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.sdk.trace.ReadableSpan;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;

/**
 * What the spans of one request are named by: the entry span, which has no parent in this process.
 *
 * The SDK tells nobody of a name or a route that changes. So the entry span is asked at the start and the end of each
 * span below it, at its own end, and by a thread that goes round while requests run: each millisecond while one is new
 * and named by its method alone, as HTTP servers learn the route soon after; else each 20 ms. What is published lies in native
 * memory ({@link Native#beginRoot}), since virtual threads are mounted without Java; it is given back when all spans
 * have ended.
 */
final class LocalRoot {
        private static final AttributeKey<String> ROUTE = AttributeKey.stringKey("http.route");
        private static final ConcurrentHashMap<String, LocalRoot> OPEN = new ConcurrentHashMap<>();
        private static final int MAX_OPEN = 100000;             // spans that never end must not fill the memory
        private static final long ROUND_NS = 20000000, SOON_NS = 1000000;
        private static final int SOON_ROUNDS = 32;              // then a route is no longer expected
        private static final int BY_NONE = 0, BY_METHOD = 1, BY_ANY = 2;
        private static final byte[] NONE = {};

        private static volatile boolean isUsed;
        private static Thread rounds;
        private static volatile int wakes;                      // requests that wake `rounds` as they begin

        final long address, number;
        private final ReadableSpan entry;
        private String name, route;
        private int spans = 1;
        private volatile int soon;                              // rounds in which a route is expected

        private LocalRoot(ReadableSpan entry) {
                this.entry = entry;
                name = entry.getName();
                route = entry.getAttribute(ROUTE);
                soon = isMethod(name) ? SOON_ROUNDS : 0;
                address = Native.beginRoot(bytes(name), bytes(route));
                number = address == 0 ? 0 : Native.numberOf(address);
        }

        /** @return what the span with this id is named by, or null */
        static LocalRoot of(String span) {
                return isUsed ? OPEN.get(span) : null;
        }

        static void started(ReadableSpan span) {
                SpanContext parent = span.getParentSpanContext();
                LocalRoot root;

                if (!parent.isValid() || parent.isRemote()) {
                        if (OPEN.size() >= MAX_OPEN)
                                return;
                        root = new LocalRoot(span);
                        begin();
                } else {
                        root = OPEN.get(parent.getSpanId());
                        if (root == null || !root.open())
                                return;
                }
                OPEN.put(span.getSpanContext().getSpanId(), root);
                if (wakes == BY_ANY || wakes == BY_METHOD && root.soon > 0) {
                        wakes = BY_NONE;
                        LockSupport.unpark(rounds);
                }
        }

        static void ended(ReadableSpan span) {
                LocalRoot root = OPEN.remove(span.getSpanContext().getSpanId());

                if (root != null)
                        root.close();
        }

        private synchronized boolean open() {
                if (spans == 0 || OPEN.size() >= MAX_OPEN)
                        return false;
                spans++;
                refresh();
                return true;
        }

        private synchronized void close() {
                refresh();
                if (--spans == 0)
                        Native.endRoot(address);
        }

        private synchronized void refresh() {
                String newName = entry.getName(), newRoute = entry.getAttribute(ROUTE);

                if (spans == 0 || newName.equals(name) && (newRoute == null ? route == null : newRoute.equals(route)))
                        return;
                name = newName;
                route = newRoute;
                soon = 0;
                Native.nameRoot(address, bytes(name), bytes(route));
        }

        /** @return whether a name is that of HTTP's conventions for a request whose route is not known */
        private static boolean isMethod(String name) {
                for (int i = name.startsWith("HTTP ") ? 5 : 0; i < name.length(); i++)
                        if (name.charAt(i) < 'A' || name.charAt(i) > 'Z')
                                return false;
                return true;
        }

        private static byte[] bytes(String text) {
                return text == null ? NONE : text.getBytes(StandardCharsets.UTF_8);
        }

        private static synchronized void begin() {
                if (isUsed)
                        return;
                isUsed = true;
                rounds = new Thread("spanprof-names") {
                        @Override
                        public void run() {
                                goRound();
                        }
                };
                rounds.setDaemon(true);
                rounds.start();
        }

        /** @return whether another look is wanted soon */
        private static boolean look() {
                boolean isSoon = false;

                for (LocalRoot root : OPEN.values()) {
                        root.refresh();
                        if (root.soon > 0) {
                                root.soon--;
                                isSoon = true;
                        }
                }
                return isSoon;
        }

        private static void goRound() {
                for (;;) {
                        wakes = BY_ANY;                         // also one that begins behind this look
                        if (look()) {
                                wakes = BY_NONE;
                                LockSupport.parkNanos(SOON_NS);
                        } else if (!OPEN.isEmpty()) {
                                wakes = BY_METHOD;
                                LockSupport.parkNanos(ROUND_NS);
                        } else {
                                LockSupport.park();
                        }
                }
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
package spanprof.otel;

import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SpanProcessor;

/**
 * Names the spans that are published by the span that their request began with in this process.
 *
 * The agent adds this by itself ({@link Extension}); a program with the SDK alone says
 * {@code SdkTracerProvider.builder().addSpanProcessor(new spanprof.otel.Names())}. The SDK tells of spans that are
 * recorded; others have no name.
 */
public final class Names implements SpanProcessor {
        private static final String VARIABLE = "SPANPROF_SPAN_NAMES";

        private final boolean isWanted = areWanted() && Publisher.install();

        static boolean areWanted() {
                return !"off".equalsIgnoreCase(System.getenv(VARIABLE));
        }

        @Override
        public void onStart(Context parentContext, ReadWriteSpan span) {
                if (isWanted)
                        LocalRoot.started(span);
        }

        @Override
        public boolean isStartRequired() {
                return isWanted;
        }

        @Override
        public void onEnd(ReadableSpan span) {
                LocalRoot.ended(span);
        }

        @Override
        public boolean isEndRequired() {
                return isWanted;
        }
}

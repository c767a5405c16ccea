/* SPDX-License-Identifier: Apache-2.0 */
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.SpanProcessor;
import java.util.Collections;
import spanprof.otel.Names;
import spanprof.otel.Publisher;

/** The SDK without the agent; a class of its own, since the agent's program has no SDK. */
class OtelPlain {
        static void install() {
                System.out.println("installed " + Publisher.install());
                Publisher.publishResource(Collections.singletonMap("service.name", "shop"));
                OpenTelemetrySdk.builder().setTracerProvider(SdkTracerProvider.builder().addSpanProcessor(new Ignore())
                        .addSpanProcessor(new Names()).build()).buildAndRegisterGlobal();
        }

        static class Ignore implements SpanProcessor {
                @Override
                public void onStart(Context parent, ReadWriteSpan span) {
                }

                @Override
                public boolean isStartRequired() {
                        return true;
                }

                @Override
                public void onEnd(ReadableSpan span) {
                }

                @Override
                public boolean isEndRequired() {
                        return true;
                }
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.sdk.trace;

public final class SdkTracerProviderBuilder {
        public SdkTracerProviderBuilder addSpanProcessor(SpanProcessor processor) {
                return this;
        }
}

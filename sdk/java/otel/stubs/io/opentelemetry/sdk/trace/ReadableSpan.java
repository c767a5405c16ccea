/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.sdk.trace;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.SpanContext;

public interface ReadableSpan {
        SpanContext getSpanContext();

        SpanContext getParentSpanContext();

        String getName();

        <T> T getAttribute(AttributeKey<T> key);
}

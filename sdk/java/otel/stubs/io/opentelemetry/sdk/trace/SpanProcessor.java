/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.sdk.trace;

import io.opentelemetry.context.Context;

public interface SpanProcessor {
        void onStart(Context parentContext, ReadWriteSpan span);

        boolean isStartRequired();

        void onEnd(ReadableSpan span);

        boolean isEndRequired();
}

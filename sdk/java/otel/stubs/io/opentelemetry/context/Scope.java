/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.context;

public interface Scope extends AutoCloseable {
        static Scope noop() {
                return null;
        }

        @Override
        void close();
}

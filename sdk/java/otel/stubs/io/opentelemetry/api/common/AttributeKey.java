/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.api.common;

public interface AttributeKey<T> {
        static AttributeKey<String> stringKey(String key) {
                return null;
        }

        String getKey();
}

/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.api.common;

public interface AttributeKey<T> {
        String getKey();
}

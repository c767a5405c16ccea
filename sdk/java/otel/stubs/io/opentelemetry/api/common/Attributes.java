/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.api.common;

import java.util.function.BiConsumer;

public interface Attributes {
        void forEach(BiConsumer<? super AttributeKey<?>, ? super Object> consumer);
}

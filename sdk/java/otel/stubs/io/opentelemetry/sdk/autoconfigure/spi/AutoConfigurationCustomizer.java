/* SPDX-License-Identifier: Apache-2.0 */
package io.opentelemetry.sdk.autoconfigure.spi;

import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProviderBuilder;
import java.util.function.BiFunction;

public interface AutoConfigurationCustomizer {
        AutoConfigurationCustomizer addResourceCustomizer(
                        BiFunction<? super Resource, ConfigProperties, ? extends Resource> customizer);

        default AutoConfigurationCustomizer addTracerProviderCustomizer(
                        BiFunction<SdkTracerProviderBuilder, ConfigProperties, SdkTracerProviderBuilder> customizer) {
                return this;
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
package spanprof.otel;

import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizer;
import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider;
import io.opentelemetry.sdk.resources.Resource;
import java.util.LinkedHashMap;
import java.util.Map;

/** What the agent, or the SDK's autoconfiguration, finds in the jar and calls. */
public final class Extension implements AutoConfigurationCustomizerProvider {
        @Override
        public void customize(AutoConfigurationCustomizer configuration) {
                if (!Publisher.install())
                        return;
                configuration.addResourceCustomizer((resource, properties) -> publish(resource));
                if (Names.areWanted())
                        configuration.addTracerProviderCustomizer(
                                        (provider, properties) -> provider.addSpanProcessor(new Names()));
        }

        /** After the other customizers: the resource is whole then. */
        @Override
        public int order() {
                return Integer.MAX_VALUE;
        }

        private static Resource publish(Resource resource) {
                Map<String, String> texts = new LinkedHashMap<>();

                resource.getAttributes().forEach((key, value) -> {
                        if (value instanceof String)
                                texts.put(key.getKey(), (String) value);
                });
                Publisher.publishResource(texts);
                return resource;
        }
}

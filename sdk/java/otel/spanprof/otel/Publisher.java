/* SPDX-License-Identifier: Apache-2.0 */
package spanprof.otel;

import io.opentelemetry.context.ContextStorage;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Function;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Publishes the current span of each thread, for profilers outside of the process.
 *
 * The agent does this by itself ({@link Extension}). A program with the SDK alone calls {@code Publisher.install()}
 * before it makes its first context.
 */
public final class Publisher {
        private static final Logger LOG = Logger.getLogger(Publisher.class.getName());
        private static Boolean installed;

        private Publisher() {
        }

        /** @return whether spans are published from now on; if not, one line of the log has said why */
        public static synchronized boolean install() {
                if (installed == null)
                        installed = tryInstall();
                return installed;
        }

        /** A class of its own: the first lambda of a process costs it half a megabyte. */
        private static final class Wrapper implements Function<ContextStorage, ContextStorage> {
                @Override
                public ContextStorage apply(ContextStorage storage) {
                        return new PublishingStorage(storage);
                }
        }

        private static boolean tryInstall() {
                try {
                        Native.load();
                        Native.clear();         // it is whole
                        ContextStorage.addWrapper(new Wrapper());
                        return true;
                } catch (Exception | LinkageError error) {
                        LOG.log(Level.WARNING, "spans are not published: {0}", error.toString());
                        return false;
                }
        }

        /** What the process says of itself: attributes of the resource, such as service.name. Again when they change. */
        public static void publishResource(Map<String, String> attributes) {
                ByteArrayOutputStream texts = new ByteArrayOutputStream();

                if (!install())
                        return;
                for (Map.Entry<String, String> attribute : attributes.entrySet()) {
                        put(texts, attribute.getKey());
                        put(texts, attribute.getValue());
                }
                if (Native.publish(texts.toByteArray()) != 0)
                        LOG.log(Level.WARNING, "the resource is not published");
        }

        /** @return how often the name of a span was not published: the process had a thousand others */
        public static long namesRefused() {
                return install() ? Native.namesRefused() : 0;
        }

        private static void put(ByteArrayOutputStream texts, String text) {
                byte[] bytes = text.replace('\0', ' ').getBytes(StandardCharsets.UTF_8);

                texts.write(bytes, 0, bytes.length);
                texts.write(0);
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
package spanprof.otel;

import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Whether virtual threads publish. It is asked by the first one that has a context, so a process that has no such
 * thread pays nothing for them.
 */
final class Virtual {
        private static final String PROPERTY = "spanprof.otel.virtual";
        private static final String VARIABLE = "SPANPROF_OTEL_VIRTUAL";

        /** A constant for the compilers. */
        static final boolean WATCHED = isWanted() && watch();

        private Virtual() {
        }

        private static boolean isWanted() {
                String word = System.getProperty(PROPERTY, System.getenv(VARIABLE));

                return word == null || !word.equalsIgnoreCase("false");
        }

        private static boolean watch() {
                int error = Native.watchVirtual();

                if (error == 0) {
                        Thread.yield();         // this one is virtual
                        error = Native.confirmVirtual();
                }
                if (error != 0)
                        Logger.getLogger(Virtual.class.getName()).log(Level.WARNING,
                                        "spans of virtual threads are not published: {0}", why(error));
                return error == 0;
        }

        private static String why(int error) {
                switch (error) {
                case -1:
                        return "this JVM has no tool interface of Java 21";
                case -2:
                        return "this JVM does not tell of their mounts";
                default:
                        return "JVMTI error " + error;
                }
        }
}

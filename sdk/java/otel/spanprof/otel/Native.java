/* SPDX-License-Identifier: Apache-2.0 */
package spanprof.otel;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;

/** The writer: the thread's record and the process context, by a library that lies in the jar. */
final class Native {
        private static final String PROPERTY = "spanprof.otel.library";
        private static final int TRIES = 100;

        private Native() {
        }

        /**
         * Loads the library that the property {@code spanprof.otel.library} names, else the one in the jar: by way of a
         * new directory that nobody else may enter, which is gone again when this returns.
         *
         * @throws IOException, UnsatisfiedLinkError if that cannot be done here
         */
        static void load() throws IOException {
                String named = System.getProperty(PROPERTY);
                String resource = "/native/linux-" + processor() + "/libspanprof-otel.so";
                Path directory, file;

                if (named != null) {
                        System.load(new File(named).getAbsolutePath());
                        return;
                }
                if (!System.getProperty("os.name", "").equals("Linux"))
                        throw new IOException("this is not Linux");
                try (InputStream library = Native.class.getResourceAsStream(resource)) {
                        if (library == null)
                                throw new IOException("the jar has no library for " + processor());
                        directory = makeDirectory();
                        file = directory.resolve("libspanprof-otel.so");
                        try {
                                Files.copy(library, file);
                                System.load(file.toString());
                        } finally {
                                Files.deleteIfExists(file);
                                Files.deleteIfExists(directory);
                        }
                }
        }

        /**
         * A name that is taken already is not used, so nobody can have made it before. Files.createTempDirectory() would
         * ask for a number that nobody can guess, for which Java loads half a megabyte.
         */
        private static Path makeDirectory() throws IOException {
                Path parent = Paths.get(System.getProperty("java.io.tmpdir", "/tmp"));

                for (int i = 1;; i++)
                        try {
                                return Files.createDirectory(
                                                parent.resolve("spanprof-otel-" + Long.toHexString(System.nanoTime())),
                                                PosixFilePermissions.asFileAttribute(
                                                                PosixFilePermissions.fromString("rwx------")));
                        } catch (FileAlreadyExistsException taken) {
                                if (i == TRIES)
                                        throw taken;
                        }
        }

        private static String processor() {
                String name = System.getProperty("os.arch", "");

                return name.equals("amd64") ? "x86_64" : name;
        }

        /**
         * The calling thread works for this span from now on.
         *
         * @param root what it is named by, as beginRoot() returned it, and that root's number; or 0, 0
         */
        static native void set(long traceHigh, long traceLow, long span, long root, long number);

        /** @return the address of a new root with this name and route in UTF-8; 0 = no memory */
        static native long beginRoot(byte[] name, byte[] route);

        /** @return what tells this root from a later one at the same address */
        static native long numberOf(long root);

        /** Changes the name of a root that has begun and not ended. One thread at a time may name one root. */
        static native void nameRoot(long root, byte[] name, byte[] route);

        static native void endRoot(long root);

        /** @return how often a name was not published: there were too many others */
        static native long namesRefused();

        /** The calling thread works for no span. */
        static native void clear();

        /** Asks the JVM to tell of mounts of virtual threads. Return: 0, or why not: virtual.h. */
        static native int watchVirtual();

        /** In a virtual thread that has yielded since then: whether the JVM does so. Return: the same. */
        static native int confirmVirtual();

        /** The virtual thread, which must be the calling one, works for this span from now on. */
        static native void setVirtual(Thread thread, long traceHigh, long traceLow, long span, long root,
                        long number);

        /** The calling virtual thread works for no span. */
        static native void clearVirtual();

        /** @param texts key, value, key, value … in UTF-8, each with a zero behind it. Return: 0, or an error. */
        static native int publish(byte[] texts);
}

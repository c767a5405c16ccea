/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java whose classes come and go, for test-long-run-hotspot.py: what lay at an address is soon another class's. Each
 * class has a name and a method of its own, so that a stack says whether its names belong together:
 *
 *     VictimUnload.main, .turn, UnloadAAAB.run, UnloadAAAB.workAAAB, VictimUnload.burn
 *
 * Its log says which class ran when: `AAAB 5712345678 5752345678` (monotonic clock, ns), a line each.
 *
 * All of them override one method, so that the code that calls it is thrown away again and again. Collections unload
 * them in between.
 *
 * usage: java VictimUnload LOG             prints `ready` once classes were unloaded; ends at the end of its input
 */
import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;

public class VictimUnload {
    static final String TEMPLATE = "AAAA";
    static volatile int sink;

    public abstract static class Work {
        public abstract int run(int n);
    }

    static class Loader extends ClassLoader {
        Loader() {
            super(VictimUnload.class.getClassLoader());
        }

        Class<?> define(byte[] bytes) {
            return defineClass(null, bytes, 0, bytes.length);
        }
    }

    public static int burn(int n) {
        int sum = n;

        for (int i = 0; i < 20000; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        return sum;
    }

    static int turn(Work work) {
        return work.run(1) + work.run(2);
    }

    static byte[] template() throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        try (InputStream input = VictimUnload.class.getResourceAsStream("Unload" + TEMPLATE + ".class")) {
            for (int b = input.read(); b >= 0; b = input.read()) {
                bytes.write(b);
            }
        }
        return bytes.toByteArray();
    }

    static String nameOf(int serial) {
        char[] name = new char[4];

        for (int i = 3; i >= 0; i--, serial /= 26) {
            name[i] = (char)('A' + serial % 26);
        }
        return new String(name);
    }

    static Work make(byte[] template, int serial) throws Exception {
        String text = new String(template, StandardCharsets.ISO_8859_1).replace(TEMPLATE, nameOf(serial));

        Constructor<?> constructor = new Loader().define(text.getBytes(StandardCharsets.ISO_8859_1)).getDeclaredConstructor();

        constructor.setAccessible(true);
        return (Work)constructor.newInstance();
    }

    public static void main(String[] arguments) throws Exception {
        byte[] template = template();
        PrintStream log = new PrintStream(new FileOutputStream(arguments[0]), true);

        for (int serial = 1; System.in.available() == 0; serial++) {
            Work work = make(template, serial);
            long begin = System.nanoTime(), end = begin + 40_000_000;

            while (System.nanoTime() < end) {
                sink += turn(work);
            }
            log.println(nameOf(serial) + " " + begin + " " + System.nanoTime());
            if (serial % 10 == 0) {
                System.gc();
            }
            if (serial == 20) {
                System.out.println("ready");
            }
        }
    }
}

class UnloadAAAA extends VictimUnload.Work {
    static int workAAAA(int n) {
        return VictimUnload.burn(n) + 1;
    }

    public UnloadAAAA() {
    }

    @Override
    public int run(int n) {
        return workAAAA(n) * 3;
    }
}

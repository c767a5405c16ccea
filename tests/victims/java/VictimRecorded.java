// SPDX-License-Identifier: Apache-2.0
import java.io.BufferedReader;
import java.io.InputStreamReader;
import jdk.jfr.Recording;

/**
 * A program that records itself. Says "ready"; then of each line on its input:
 *
 *     throw N     throws N exceptions of a class of its own, and allocates 1,000 bytes and more before each
 *     turn        begins another chunk of its recording
 *
 * and answers "ok". Ends with its input.
 */
public class VictimRecorded {
    static class Known extends RuntimeException {
        Known(int i) {
            super("known " + i);
        }
    }

    static volatile Object sink;

    static void allocate() {
        sink = new byte[1000];
    }

    static void fail(int i) {
        allocate();
        throw new Known(i);
    }

    static void fall(int n) {
        for (int i = 0; i < n; i++)
            try {
                fail(i);
            } catch (Known e) {
                sink = e;
            }
    }

    /** Whoever starts a recording of all has the JVM begin a chunk. */
    static void turn() {
        try (Recording recording = new Recording()) {
            recording.start();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line; (line = in.readLine()) != null;) {
            if (line.equals("turn"))
                turn();
            else
                fall(Integer.parseInt(line.split(" ")[1]));
            System.out.println("ok");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Time in code that is no method of Java. Below main → turn each of these works for 20 ms:
 *
 *   copy      arrays: stubs of System.arraycopy
 *   crypt     AES, digest  SHA-256, check  CRC-32: stubs of intrinsics
 *   order     Arrays.sort, of which JDK 23 and later have a library of their own
 *   fail      throws through the calls of `fall`: the VM and its stubs unwind compiled and interpreted frames
 *   pack      zlib, whose native code holds arrays of the heap (JNI critical)
 *
 * For test-run-java-stubs.py. Names on the command line choose some. Ends with its input.
 */
public class VictimStubs {
    private static final int SIZE = 1 << 16, DEPTH = 12;
    private static final long TURN_NS = 20_000_000;

    private static final byte[] from = new byte[SIZE], to = new byte[2 * SIZE];
    private static final int[] numbers = new int[SIZE], sorted = new int[SIZE];
    static volatile long sink;

    interface Work {
        void run() throws Exception;
    }

    static void copy() {
        System.arraycopy(from, 0, to, 8, SIZE - 8);
        System.arraycopy(to, 1, to, 9, SIZE);
    }

    static final class Tools {
        final Cipher cipher;
        final MessageDigest digest;
        final CRC32 crc = new CRC32();
        final Deflater deflater = new Deflater(1);

        Tools() throws Exception {
            cipher = Cipher.getInstance("AES/CBC/NoPadding");
            cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[16], "AES"), new IvParameterSpec(new byte[16]));
            digest = MessageDigest.getInstance("SHA-256");
        }
    }

    private static Tools tools;

    static void crypt() throws Exception {
        sink += tools.cipher.update(from, 0, SIZE, to, 0);
    }

    static void digest() {
        tools.digest.update(from, 0, SIZE);
    }

    static void check() {
        tools.crc.update(from, 0, SIZE);
        sink += tools.crc.getValue();
    }

    static void order() {
        System.arraycopy(numbers, 0, sorted, 0, SIZE);
        Arrays.sort(sorted);
    }

    static int fall(int depth) throws Exception {
        if (depth == 0) {
            throw new Exception("known");
        }
        return fall(depth - 1) + depth;
    }

    static void fail() {
        try {
            sink += fall(DEPTH);
        } catch (Exception expected) {
            sink++;
        }
    }

    static void pack() {
        tools.deflater.reset();
        tools.deflater.setInput(from);
        tools.deflater.finish();
        while (!tools.deflater.finished()) {
            sink += tools.deflater.deflate(to);
        }
    }

    static void turn(Work work) throws Exception {
        for (long end = System.nanoTime() + TURN_NS; System.nanoTime() < end;) {
            work.run();
        }
    }

    public static void main(String[] arguments) throws Exception {
        String[] names = { "copy", "crypt", "digest", "check", "order", "fail", "pack" };
        Work[] works = { VictimStubs::copy, VictimStubs::crypt, VictimStubs::digest, VictimStubs::check,
            VictimStubs::order, VictimStubs::fail, VictimStubs::pack };

        tools = new Tools();
        for (int i = 0; i < SIZE; i++) {
            numbers[i] = i * 0x9e3779b1;
            from[i] = (byte) (numbers[i] >> 24);
        }
        System.out.println("ready");
        while (System.in.available() == 0) {
            for (int i = 0; i < works.length; i++) {
                if (arguments.length == 0 || Arrays.asList(arguments).contains(names[i])) {
                    turn(works[i]);
                }
            }
        }
    }
}

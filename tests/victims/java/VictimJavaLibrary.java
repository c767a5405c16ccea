/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java whose loops run below the JDK's own loops, for test-run-hotspot.py: lists, maps, sorts and streams call short
 * methods of this class, which C2 inlines. Each chain begins in `main`; the source fixes which methods of this class
 * follow, whatever is inlined. Other chains end in code of the JDK: copies, hashes, ciphers, regular expressions.
 *
 * usage: java VictimJavaLibrary [CHAIN…]       prints `ready` once it is warm, ends with its input
 */
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import javax.crypto.Cipher;
import javax.crypto.spec.SecretKeySpec;

public class VictimJavaLibrary {
    static final int FEW = 500, WARM_ROUNDS = 60, N = 100, TURN_NS = 5_000_000;
    static int loops = Integer.getInteger("loops", 3000);
    static volatile int sink;

    /** A counted loop that is short: no collector has a safepoint in it. */
    static int spin(int n) {
        int sum = n;

        for (int i = 0; i < FEW; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        return sum;
    }

    /** A loop that C2 unrolls and vectorises. */
    static int add(int[] numbers) {
        int sum = 0;

        for (int i = 0; i < numbers.length; i++) {
            sum += numbers[i] * 3;
        }
        return sum;
    }

    /** A loop with an end that is not known before. */
    static int seek(int n) {
        int at = n & 0xff;

        while (at < loops * 100) {
            at += at / 3 + 1 + (at & 3);
        }
        return at;
    }

    static final List<Integer> LIST = new ArrayList<>();
    static final Map<Integer, Integer> MAP = new HashMap<>();
    static final Map<String, Integer> TREE = new TreeMap<>();
    static int[] numbers = new int[loops];
    static final int[] COPY = new int[4096], MIXED = new int[4096];
    static final byte[] BYTES = new byte[4096], SAME = new byte[4096];
    static final String TEXT;
    static final Pattern WORDS = Pattern.compile("(?:[a-z]+[0-9])+ ");

    static {
        StringBuilder text = new StringBuilder();

        for (int i = 0; i < N; i++) {
            LIST.add(i * 7919 % N);
            MAP.put(i, i);
            TREE.put("key" + i, i);
            text.append("word" + i + " ");
        }
        for (int i = 0; i < MIXED.length; i++) {
            MIXED[i] = i * 48271 % 65521;
        }
        TEXT = text.toString();
    }

    static int each() {
        LIST.forEach(VictimJavaLibrary::eachOne);
        return 0;
    }

    static void eachOne(int n) {
        sink += spin(n);
    }

    static int sort() {
        List<Integer> copy = new ArrayList<>(LIST);

        copy.sort(VictimJavaLibrary::sortTwo);
        return copy.get(0);
    }

    static int sortTwo(int a, int b) {
        return spin(a) == sink ? 0 : Integer.compare(a, b);
    }

    static int stream() {
        return LIST.stream().map(VictimJavaLibrary::streamMap).filter(VictimJavaLibrary::streamKeep)
                .collect(Collectors.toList()).size();
    }

    static Integer streamMap(int n) {
        return spin(n);
    }

    static boolean streamKeep(int n) {
        return (seek(n) & 7) != 3;
    }

    static int range() {
        return IntStream.range(0, N).map(VictimJavaLibrary::rangeMap).sum();
    }

    static int rangeMap(int n) {
        return add(numbers) + n;
    }

    static int group() {
        return LIST.stream().collect(Collectors.groupingBy(VictimJavaLibrary::groupKey, Collectors.counting())).size();
    }

    static Integer groupKey(int n) {
        return spin(n) & 15;
    }

    static int map() {
        MAP.replaceAll(VictimJavaLibrary::mapOne);
        return MAP.size();
    }

    static Integer mapOne(Integer key, Integer value) {
        return seek(key + (value & 15)) & 15;
    }

    static int tree() {
        int[] sum = { 0 };

        TREE.forEach((key, value) -> sum[0] += treeOne(key, value));
        return sum[0];
    }

    static int treeOne(String key, int value) {
        return add(numbers) + spin(value) + key.length();
    }

    static class Numbers implements Iterable<Integer>, Iterator<Integer> {
        int at;

        public Iterator<Integer> iterator() {
            at = 0;
            return this;
        }

        public boolean hasNext() {
            return at < N;
        }

        public Integer next() {
            return spin(at++);
        }
    }

    static int iterate() {
        int sum = 0;

        for (int n : new Numbers()) {
            sum += n;
        }
        return sum;
    }

    static int compute() {
        Map<Integer, Integer> map = new HashMap<>();

        for (int i = 0; i < N; i++) {
            map.computeIfAbsent(i & 31, VictimJavaLibrary::computeOne);
            map.merge(i, 1, VictimJavaLibrary::computeSum);
        }
        return map.size();
    }

    static Integer computeOne(int n) {
        return spin(n);
    }

    static Integer computeSum(int a, int b) {
        return a + seek(b);
    }

    static int supply() {
        IntSupplier[] steps = { () -> supplyOne(1), () -> supplyOne(2), () -> supplyTwo(3) };
        int sum = 0;

        for (int i = 0; i < N; i++) {
            sum += steps[i % 3].getAsInt();
        }
        return sum;
    }

    static int supplyOne(int n) {
        return spin(n);
    }

    static int supplyTwo(int n) {
        return seek(n);
    }

    static int throwing() {
        int sum = 0;

        for (int i = 0; i < N; i++) {
            try {
                sum += throwDeep(i, 5);
            } catch (IllegalStateException e) {
                sum += throwCaught(i);
            }
        }
        return sum;
    }

    static int throwDeep(int n, int depth) {
        if (depth == 0) {
            throw new IllegalStateException();
        }
        return throwDeep(n + spin(n), depth - 1) + 1;
    }

    static int throwCaught(int n) {
        return spin(n);
    }

    static int copies() {
        return copyOne(1) + copyOne(2);
    }

    static int copyOne(int n) {
        for (int i = 0; i < 50; i++) {
            System.arraycopy(MIXED, n, COPY, 0, MIXED.length - n);
            Arrays.fill(COPY, 0, 2000, n + i);
        }
        return COPY[n];
    }

    static int sorts() {
        return sortNumbers(1);
    }

    static int sortNumbers(int n) {
        int[] copy = Arrays.copyOf(MIXED, MIXED.length);

        Arrays.sort(copy);
        return copy[n];
    }

    static int hashes() {
        return hashBytes(3);
    }

    static int hashBytes(int n) {
        CRC32 sum = new CRC32();

        for (int i = 0; i < 20; i++) {
            sum.update(BYTES, 0, BYTES.length);
            n += Arrays.hashCode(BYTES) + TEXT.indexOf("word99 ") + (Arrays.equals(BYTES, SAME) ? 1 : 0);
        }
        return (int)sum.getValue() + n;
    }

    static final Cipher CIPHER = cipher();

    static Cipher cipher() {
        try {
            Cipher cipher = Cipher.getInstance("AES/CBC/PKCS5Padding");

            cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[16], "AES"));
            return cipher;
        } catch (java.security.GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    static int crypt() {
        return cryptBytes(1);
    }

    static int cryptBytes(int n) {
        try {
            return CIPHER.doFinal(BYTES).length + n;
        } catch (java.security.GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    static int match() {
        return matchText(1);
    }

    static int matchText(int n) {
        Matcher matcher = WORDS.matcher(TEXT);

        while (matcher.find()) {
            n++;
        }
        return n;
    }

    static int text() {
        return textOf(1);
    }

    static int textOf(int n) {
        StringBuilder text = new StringBuilder();

        for (int i = 0; i < N; i++) {
            text.append("k").append(i + n).append(i * 0.5f);
        }
        return text.toString().split("5").length + String.format("%d %s", n, "x").length();
    }

    static int locked() {
        int sum = 0;

        for (int i = 0; i < N; i++) {
            sum += lockedOne(i);
        }
        return sum;
    }

    static int lockedOne(int n) {
        synchronized (LIST) {
            return spin(n);
        }
    }

    interface Chain {
        int run();
    }

    static int turn(Chain chain) {
        long end = System.nanoTime() + TURN_NS;
        int sum = 0;

        do {
            sum += chain.run();
        } while (System.nanoTime() < end);
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Chain> chains = new LinkedHashMap<>();

        chains.put("each", VictimJavaLibrary::each);
        chains.put("sort", VictimJavaLibrary::sort);
        chains.put("stream", VictimJavaLibrary::stream);
        chains.put("range", VictimJavaLibrary::range);
        chains.put("group", VictimJavaLibrary::group);
        chains.put("map", VictimJavaLibrary::map);
        chains.put("tree", VictimJavaLibrary::tree);
        chains.put("iterate", VictimJavaLibrary::iterate);
        chains.put("compute", VictimJavaLibrary::compute);
        chains.put("supply", VictimJavaLibrary::supply);
        chains.put("throwing", VictimJavaLibrary::throwing);
        chains.put("copies", VictimJavaLibrary::copies);
        chains.put("sorts", VictimJavaLibrary::sorts);
        chains.put("hashes", VictimJavaLibrary::hashes);
        chains.put("crypt", VictimJavaLibrary::crypt);
        chains.put("match", VictimJavaLibrary::match);
        chains.put("text", VictimJavaLibrary::text);
        chains.put("locked", VictimJavaLibrary::locked);
        if (arguments.length > 0) {
            chains.keySet().retainAll(Arrays.asList(arguments));
        }
        for (int round = 0; !chains.isEmpty(); round++) {
            if (round == WARM_ROUNDS) {
                System.out.println("ready");
            }
            if (System.in.available() > 0) {
                return;
            }
            for (Chain chain : chains.values()) {
                sink += turn(chain);
            }
        }
    }
}

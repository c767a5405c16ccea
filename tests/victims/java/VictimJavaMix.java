/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java that uses the JDK's own classes: maps, lists, sorts with comparators, strings, streams, numbers. C2 inlines
 * much of that, and branches leave it in many places; tests/bench/runtimes.py leaves.
 *
 * usage: java VictimJavaMix        prints `ready` once it is warm, ends with its input
 */
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class VictimJavaMix {
    static final int WARM_ROUNDS = 300, N = 400;
    static int seed = 17;
    static long sink;

    static class Person implements Comparable<Person> {
        final String name;
        final int age;
        final long pay;

        Person(String name, int age, long pay) {
            this.name = name;
            this.age = age;
            this.pay = pay;
        }

        String name() {
            return name;
        }

        int age() {
            return age;
        }

        public int compareTo(Person other) {
            int order = Integer.compare(age, other.age);

            return order != 0 ? order : name.compareTo(other.name);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Person && ((Person)other).age == age && ((Person)other).name.equals(name);
        }

        @Override
        public int hashCode() {
            return name.hashCode() * 31 + age;
        }
    }

    static int random() {
        seed = seed * 1103515245 + 12345;
        return seed >>> 8;
    }

    static List<Person> people() {
        List<Person> people = new ArrayList<>();

        for (int i = 0; i < N; i++) {
            people.add(new Person("name" + random() % 1000, random() % 90, random()));
        }
        return people;
    }

    static long sorts(List<Person> people) {
        List<Person> copy = new ArrayList<>(people);
        Comparator<Person> order = Comparator.comparingInt(Person::age);

        Collections.sort(copy);
        copy.sort(order.thenComparing(Person::name));
        copy.sort((a, b) -> Long.compare(b.pay, a.pay));
        return copy.get(0).pay;
    }

    static long maps(List<Person> people) {
        Map<Person, Integer> byPerson = new HashMap<>();
        Map<String, Person> byName = new TreeMap<>();
        Map<Integer, List<Person>> byAge = new LinkedHashMap<>();
        long sum = 0;

        for (Person person : people) {
            byPerson.merge(person, 1, Integer::sum);
            byName.put(person.name, person);
            byAge.computeIfAbsent(person.age, age -> new LinkedList<>()).add(person);
        }
        for (Map.Entry<Person, Integer> entry : byPerson.entrySet()) {
            sum += entry.getKey().age * entry.getValue();
        }
        for (List<Person> same : byAge.values()) {
            for (Person person : same) {
                sum += person.pay;
            }
        }
        return sum + byName.size();
    }

    static long strings(List<Person> people) {
        StringBuilder text = new StringBuilder();
        int n = 0;

        for (Person person : people) {
            text.append(person.name).append(' ').append(person.age).append(',').append(person.pay).append('\n');
        }
        for (String line : text.toString().split("\n")) {
            int comma = line.indexOf(',');

            n += line.substring(0, comma).toUpperCase().hashCode() + (line.contains("99") ? 1 : 0);
            n += Integer.parseInt(line.substring(line.indexOf(' ') + 1, comma));
        }
        return n;
    }

    static long streams(List<Person> people) {
        Map<Integer, Long> groups =
                people.stream().filter(p -> p.age > 20).collect(Collectors.groupingBy(p -> p.age / 10, Collectors.counting()));

        return IntStream.range(0, N).map(x -> x * 3).filter(x -> x % 2 == 0).asLongStream().sum() + groups.size() +
               people.stream().mapToLong(p -> p.pay).max().getAsLong();
    }

    static long queues(List<Person> people) {
        PriorityQueue<Person> queue = new PriorityQueue<>(people);
        ArrayDeque<Person> deque = new ArrayDeque<>();
        long sum = 0;

        while (!queue.isEmpty()) {
            deque.addFirst(queue.poll());
        }
        for (Person person : deque) {
            sum = sum * 7 + person.age;
        }
        return sum;
    }

    static long arrays(List<Person> people) {
        int[] ages = new int[N * 4];
        long[] sums = new long[N];

        for (int i = 0; i < ages.length; i++) {
            ages[i] = people.get(i % people.size()).age + random() % 1000;
        }
        Arrays.sort(ages);
        for (int i = 0; i < sums.length; i++) {
            sums[i] = Arrays.binarySearch(ages, i) + (i > 0 ? sums[i - 1] : 0);
        }
        return sums[N - 1] + Arrays.hashCode(sums);
    }

    static long round() {
        List<Person> people = people();

        return sorts(people) + maps(people) + strings(people) + streams(people) + queues(people) + arrays(people);
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0;; i++) {
            sink += round();
            if (i == WARM_ROUNDS) {
                System.out.println("ready");
            }
            if ((i & 15) == 0 && System.in.available() > 0) {
                return;
            }
        }
    }
}

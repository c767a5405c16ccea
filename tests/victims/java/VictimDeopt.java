/* SPDX-License-Identifier: Apache-2.0 */
import java.net.URL;
import java.net.URLClassLoader;

/*
 * Compiled code that becomes wrong while it is on the stack. The compiler takes a call of `next` for one of
 * One's, since no other class has it. Each round has classes of its own; in the midst of it a second class is
 * loaded, and all 41 frames of `next` are to be deoptimised. The one in `burn` stays there for some ms.
 *
 *     run → next × 41 → burn
 *
 * usage: java VictimDeopt           prints `ready` after the first round, runs until it is killed
 */
public class VictimDeopt {
    static final int DEPTH = 40, MS = 300;

    abstract static class Step {
        abstract int next(Step step, int depth);
    }

    static class One extends Step {
        int next(Step step, int depth) {
            return depth == 0 ? Work.burn() : step.next(step, depth - 1) + 1;
        }
    }

    static class Two extends Step {
        int next(Step step, int depth) {
            return 2;
        }
    }

    public static class Work implements Runnable {
        static int sum, turns = 1;

        static int burn() {
            int n = sum;
            for (int turn = 0; turn < turns; turn++)
                for (int i = 0; i < 1000; i++)
                    n = n * 31 + i;
            return n;
        }

        public void run() {
            Step step = new One();
            long begin = System.nanoTime(), now = begin;
            while (now - begin < MS * 1000000L) {
                turns = now - begin < MS * 300000L ? 1 : 3000;
                sum += step.next(step, DEPTH);
                now = System.nanoTime();
            }
        }
    }

    public static void main(String[] words) throws Exception {
        URL[] here = { VictimDeopt.class.getProtectionDomain().getCodeSource().getLocation() };

        for (int round = 0;; round++) {
            URLClassLoader loader = new URLClassLoader(here, null);
            Runnable work = (Runnable)loader.loadClass("VictimDeopt$Work").getDeclaredConstructor().newInstance();
            Thread thread = new Thread(work);
            thread.start();
            Thread.sleep(MS * 2 / 3);
            Class.forName("VictimDeopt$Two", true, loader);
            thread.join();
            if (round == 0)
                System.out.println("ready");
        }
    }
}

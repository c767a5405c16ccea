#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`run --watch-builds`: a service whose second build has a slower function, found after a restart of the daemon, and
a neighbour who claims the name of that service."""
import json
import os
import stat

import oracle

oracle.enter()

import session  # noqa: E402
import tap  # noqa: E402

SOURCE = r"""
#include <stdio.h>
static volatile unsigned sum;
static __attribute__((noinline)) void burn(unsigned n) { while (n--) sum += n; }
#define FUNCTION(name) __attribute__((noinline)) void name(unsigned n) { while (n--) sum += n; }
FUNCTION(parse) FUNCTION(sort) FUNCTION(answer)
int main(void) {
        printf("ready\n");
        fflush(stdout);
        for (;;) { parse(PARSE); sort(3000); answer(5000); burn(100); }
}
"""
NOBODY = 65534
LENGTH = "3s"


class Watch(session.TestCase):
    def build(self, folder, parse):
        """A program of the same name in a folder of its own."""
        path = self.folder / folder / "shopd"
        path.parent.mkdir()
        self.run_command([tap.need_tool("gcc"), "-O1", f"-DPARSE={parse}", "-Wl,--build-id", "-x", "c", "-", "-o",
                          path], expect=0, input=SOURCE, stdin=None)
        return path

    def serve(self, program, **options):
        child = self.spawn([program], env={**os.environ, "OTEL_SERVICE_NAME": "shop"}, **options)
        child.wait_for("ready")
        return child

    def watch(self, *pids):
        return self.start(*(word for pid in pids for word in ("--pid", pid)), "--watch-builds", LENGTH,
                          "--symbols", "local", "--frequency", 4999, "--spool", self.folder / "spool",
                          "--control", self.folder / "control")

    def services(self):
        """{user: service} of what is watched."""
        page = self.spanprof("watch", "--json", "--control", self.folder / "control").stdout
        return {service["user"]: service for service in json.loads(page)["services"]}

    def wait_for(self, run, condition, what):
        return tap.wait_until(lambda: condition(self.services()), f"{what}; {run.child}", 120)

    def test_a_slower_build_is_named_after_a_restart(self):
        self.folder = self.directory()
        self.folder.chmod(0o755)
        first, second = self.build("first", 1000), self.build("second", 6000)
        shop, liar = self.serve(first), self.serve(second, user=NOBODY, group=NOBODY, extra_groups=[])
        run = self.watch(shop.pid, liar.pid)
        self.wait_for(run, lambda found: {0, NOBODY} <= set(found) and all(s["enough"] for s in found.values()),
                      "two services with enough samples")
        found = self.services()
        self.assertEqual([s["service"] for s in found.values()], ["shop"] * 2)
        self.assertNotEqual(found[0]["build"], found[NOBODY]["build"])
        run.stop()
        self.assertEqual(stat.S_IMODE((self.folder / "spool/watch").stat().st_mode), 0o600)

        shop.kill()
        shop = self.serve(second)
        run = self.watch(shop.pid, liar.pid)
        service = self.wait_for(run, lambda found: found[0]["compared"] and found[0], "a comparison")
        self.assertEqual((service["before"], service["build"]), (found[0]["build"], found[NOBODY]["build"]))
        self.assertEqual([row["function"] for row in service["list"]], ["parse"], service)
        row = service["list"][0]
        self.assertTrue(0.05 < row["before"] < row["after"] < 0.95, row)
        self.assertTrue(0 < row["low"] < row["after"] - row["before"] < row["high"], row)
        self.assertFalse(self.services()[NOBODY]["compared"])

        shown = self.spanprof("watch", "--control", self.folder / "control").stdout
        self.assertRegex(shown, r"shop, program shopd, user 0, .*\n  build \w+: 1 of \d+ functions take more than in "
                                r"build \w+\n.*\n .*%.*%.*\+.* to .*  parse\n")
        page = self.folder / "builds.html"
        self.spanprof("watch", "-o", page, "--control", self.folder / "control")
        self.assertRegex(page.read_text(), r"(?s)<h2>shop, program shopd</h2>.*: 1 of \d+ functions take more than in build .*"
                                           r"<td>parse</td></tr>\n</table>")
        result = run.stop()
        self.assertRegex(run.log, rf"build {service['build']} of shop \(user 0, .*\) is slower than build "
                                  rf"{service['before']}: parse takes \d+\.\d % of the CPU time, not ")
        self.assertEqual(result.counter("watch_builds_total", "slower"), 1)


if __name__ == "__main__":
    tap.main()

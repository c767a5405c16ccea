# SPDX-License-Identifier: Apache-2.0
"""Runs the daemon with one allocation of its own failing: tests/harness/c/failing-malloc.c."""
import json

import session
import tap

LIBRARY = tap.HARNESS / "libfailing-malloc.so"


def run(test, victim, receiver, site=None, after_ms=0):
    """(completed process, sites seen, whether one failed, summary or None)"""
    folder = test.directory()
    folder.chmod(0o755)
    open_to_all = folder / "open"       # the daemon is another user when it ends
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    env = session.clean_environment(LD_PRELOAD=LIBRARY, SITES_FILE=open_to_all / "sites", FAIL_AFTER_MS=after_ms,
                                    SPANPROF_STOP_TIMEOUT="5s")
    if site is not None:
        env["FAIL_SITE"] = str(site)
    done = test.run_command([
        tap.SPANPROF, "run", "--pid", victim.pid, "--frequency", "499", "--duration", "1200ms",
        "--export-interval", "1s", "--endpoint", receiver.url, "--control", folder / "c.sock", "--summary",
        folder / "summary.json"
    ], env=env)
    sites = open_to_all / "sites"
    n, failed = sites.read_text().split() if sites.exists() else (0, 0)
    path = folder / "summary.json"
    return done, int(n), failed == "1", json.loads(path.read_text()) if path.exists() else None


def judge(test, site, after_ms, outcome):
    """It ends by itself, says why, and keeps its books."""
    done, _, failed, summary = outcome
    what = f"site {site} after {after_ms} ms: {done.stderr}"
    test.assertIn(done.returncode, (0, 1, 78), what)
    test.assertNotIn("Sanitizer", done.stderr, what)
    if done.returncode:
        test.assertTrue(failed, what)
        test.assertRegex(done.stderr, r"(?i)memory|error|cannot", what)
    elif summary:
        test.assertEqual(summary["ticks"], summary["delivered"] + summary["lost"] + summary["pending"], what)
        test.assertEqual(summary["pending"], 0, what)

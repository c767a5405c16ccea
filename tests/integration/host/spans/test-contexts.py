#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Contexts of threads and processes in the daemon's payload, beside what victim-context's threads know of themselves.

Payloads of process contexts are written by opentelemetry-proto. What a thread's sample must say follows from
its id.
"""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import context_oracle
import fuse_server
import oracle

oracle.enter()

import otlp_read  # noqa: E402
import page_read  # noqa: E402
import session  # noqa: E402
import tap  # noqa: E402
from opentelemetry.proto.common.v1 import common_pb2  # noqa: E402
from opentelemetry.proto.resource.v1 import resource_pb2  # noqa: E402
from wire import field  # noqa: E402

TRACE_HIGH = "1111222233334444"


def any_value(value):
    if isinstance(value, bool):
        return common_pb2.AnyValue(bool_value=value)
    if isinstance(value, int):
        return common_pb2.AnyValue(int_value=value)
    if isinstance(value, float):
        return common_pb2.AnyValue(double_value=value)
    if isinstance(value, list):
        return common_pb2.AnyValue(array_value=common_pb2.ArrayValue(values=map(any_value, value)))
    return common_pb2.AnyValue(string_value=value)


def pairs(values):
    return [common_pb2.KeyValue(key=key, value=any_value(value)) for key, value in values.items()]


def payload(resource, keys):
    extra = {"threadlocal.schema_version": "tlsdesc_v1_dev", "threadlocal.attribute_key_map": keys}
    return field(1, resource_pb2.Resource(attributes=pairs(resource)).SerializeToString()) + b"".join(
        field(2, pair.SerializeToString()) for pair in pairs(extra))


class Vectors(tap.TestCase):
    def test_vectors_are_what_their_script_writes(self):
        folder = tap.SOURCE_DIR / "tests/vectors/contexts"
        written = self.run_command([sys.executable, folder / "make-vectors.py"], expect=0).stdout
        self.assertEqual(written, (folder / "vectors.tsv").read_text())


class Contexts(session.NamingCase):
    RESOURCE = {
        "service.name": "shop", "service.version": "1.2", "shop.shards": 7, "shop.canary": True,
        "shop.share": 0.25
    }

    def start_victim(self, library, before=3, after=3, program="victim-context", **environment):
        child = self.spawn([program if "/" in program else tap.VICTIMS / program, library, before, after],
                           stdin=subprocess.PIPE,
                           env=session.clean_environment(VICTIM_RESTS=1, **environment))
        child.wait_for(r"^pid \d+")

        def tell(line):
            n = len(re.findall(r"^(?:ok|error)$", child.out, re.M))
            child.process.stdin.write(line.encode() + b"\n")
            child.process.stdin.flush()
            answers = tap.wait_until(lambda: re.findall(r"^(?:ok|error)$", child.out, re.M)[n:], line)
            self.assertEqual(answers[0], "ok", line)
            return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

        return child, tell

    def publish(self, tell, resource=None, keys=("http.route", "parity"), wrong=None):
        path = self.directory() / "payload"
        path.write_bytes(payload(resource or self.RESOURCE, list(keys)))
        return tell(f"wrong {wrong} {path}" if wrong else f"publish {path}")

    def threads(self, child, n):
        found = tap.wait_until(
            lambda: (lambda x: len(x) == n and x)(re.findall(r"^thread (\d+) (set|none)$", child.out, re.M)),
            f"{n} threads of {child}")
        return {int(tid): kind for tid, kind in found}

    def check_thread(self, sample, kind, keys=("http.route", "parity")):
        tid = sample.thread_id
        if kind == "none":
            self.assertIsNone(sample.trace_id, sample)
            self.assertFalse(set(keys) & set(sample.attributes), sample)
            return
        self.assertEqual(sample.trace_id, TRACE_HIGH + f"{tid:016x}")
        self.assertEqual(sample.span_id, f"{0x5555 << 48 | tid:016x}")
        values = dict(zip(("http.route", "parity"), (f"/route/{tid % 3}", "odd" if tid % 2 else "even")))
        self.assertEqual({key: sample.attributes.get(key) for key in keys},
                         {key: values[key] for key in keys})

    def shown(self, pid):
        """{tid: (trace, span, attributes by name) or None} as `contexts` prints them."""
        found, attributes = {}, None
        for line in self.contexts(pid).stdout.splitlines():
            thread = re.fullmatch(
                r"    thread (\d+): (?:trace (\w{32}) span (\w{16}), for [\d.]+ to [\d.]+ s|.*)", line)
            if thread:
                attributes = {}
                found[int(thread[1])] = (thread[2], thread[3], attributes) if thread[2] else None
            elif attributes is not None and line.startswith("        "):
                key, value = line.strip().split(" = ")
                attributes[key] = value
        return found

    def check_readers(self, child, threads):
        """`contexts` and a reader that shares no code with us say the same of each thread, and what is true."""
        independent = context_oracle.records(child.pid)
        expected = {
            tid: (TRACE_HIGH + f"{tid:016x}", f"{0x5555 << 48 | tid:016x}",
                  {"http.route": f"/route/{tid % 3}", "parity": "odd" if tid % 2 else "even"})
            for tid, kind in threads.items() if kind == "set"
        }
        keys = {0: "http.route", 1: "parity"}
        self.assertEqual({tid: (x.trace, x.span, {keys[i]: value for i, value in x.attributes.items()})
                          for tid, x in independent.items() if x}, expected)
        # A thread that a full machine does not let run does not stop either; the next look will do.
        shown = tap.wait_until(
            lambda: (lambda x: x if sum(map(bool, x.values())) >= len(expected) else None)
            (self.shown(child.pid)), f"{len(expected)} contexts of {child}")
        self.assertEqual({tid: x for tid, x in shown.items() if x}, expected)
        self.assertEqual(set(shown), set(independent))

    def settled(self, run, child, counts=1):
        """Until every thread has been sampled and the contexts have been found."""
        run.wait_events(counts, pid=child.pid)

    def check_model(self, library, program="victim-context", **environment):
        run = self.start("--frequency", "1999")
        child, tell = self.start_victim(library, program=program, **environment)
        self.publish(tell)
        self.settled(run, child)
        loaded = tell("load")
        threads = self.threads(child, 6)
        run.wait_events(400, pid=child.pid)
        session.wait_cpu([child.pid], 0.65)
        self.check_readers(child, threads)
        result = run.stop()
        samples = [x for x in result.of(child.pid) if x.thread_id in threads]
        seen = collections.Counter((threads[x.thread_id], bool(x.trace_id)) for x in samples)
        for sample in samples:
            if sample.trace_id or threads[sample.thread_id] == "none":
                self.check_thread(sample, threads[sample.thread_id])
        # The library is known a drain after it was mapped; from there on no sample may be without its span.
        first = min(result.monotonic_ns(x) for x in samples if x.trace_id)
        late = [
            x for x in samples
            if result.monotonic_ns(x) > first + 500_000_000 and threads[x.thread_id] == "set"
        ]
        self.assertGreater(len(late), 30)
        self.assertLess(first - loaded, 5_000_000_000)
        self.assertEqual([x for x in late if not x.trace_id], [], seen)
        self.assertEqual({x.thread_id for x in late}, {tid for tid, kind in threads.items() if kind == "set"})
        self.assertTrue(seen["none", False])
        self.assertGreaterEqual(result.counter("thread_contexts_total", "found"), 1)
        self.assertEqual(result.counter("contexts_total", "present"),
                         sum(x.value for x in result.samples if x.trace_id))
        return result

    def test_general_dynamic_in_a_library_loaded_late(self):
        self.check_model(tap.VICTIMS / "libcontext-general.so")

    def has_spans(self, run):
        tap.wait_until(
            lambda: any(x.trace_id for path in run.receiver.paths() if path.with_suffix(".json").exists()
                        for x in otlp_read.samples(path)), "a span")

    def workers(self, run):
        """Those that wait: children of the daemon without standard descriptors."""
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        return [int(pid) for pid in children if not os.path.exists(f"/proc/{pid}/fd/0")]

    def test_samples_do_not_wait_for_a_worker_that_hangs_and_are_counted(self):
        run = self.start("--frequency", "1999")
        child, tell = self.start_victim(tap.VICTIMS / "libcontext-general.so")
        self.publish(tell)
        self.settled(run, child)
        stopped = self.workers(run)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        tell("load")
        threads = self.threads(child, 6)
        session.wait_cpu([child.pid], 0.25)              # nobody says where the contexts are
        run.wait_events(100, pid=child.pid)
        for pid in stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass                                    # it was late, and another one was asked
        self.has_spans(run)
        session.wait_cpu([child.pid], 0.25)
        result = run.stop()
        samples = [x for x in result.of(child.pid) if threads.get(x.thread_id) == "set"]
        first = min(result.monotonic_ns(x) for x in samples if x.trace_id)
        self.assertEqual(
            [x for x in samples if not x.trace_id and result.monotonic_ns(x) > first + 500_000_000], [])
        early = sum(x.value for x in samples if not x.trace_id)
        self.assertGreater(early, 20)
        # Not those from before the mapping was known: on a busy machine that may take a while.
        self.assertGreater(result.counter("contexts_early_total"), 20)
        self.assertLessEqual(result.counter("contexts_early_total"),
                             result.counter("contexts_total", "unpublished"))
        self.assertGreaterEqual(result.counter("thread_symbols_total", "read"), 1)
        self.assertEqual(result.counter("thread_symbols_total", "failed"), 0)

    def test_descriptors_in_static_memory(self):
        self.check_model(tap.VICTIMS / "libcontext-descriptor.so")

    def test_descriptors_in_dynamic_memory(self):
        self.check_model(tap.VICTIMS / "libcontext-descriptor.so", GLIBC_TUNABLES="glibc.rtld.optional_static_tls=0")

    def test_initial_exec(self):
        self.check_model(tap.VICTIMS / "libcontext-initial.so")

    def test_the_current_frame_of_v8(self):
        self.check_model(tap.VICTIMS / "libcontext-node.so")

    def test_local_exec_in_the_executable(self):
        result = self.check_model("-", program="victim-context-exec")
        resource = next(x.resource for x in result.samples
                        if x.trace_id and x.trace_id.startswith(TRACE_HIGH))
        self.assertEqual({key: resource[key] for key in self.RESOURCE}, self.RESOURCE)

    def test_musl(self):
        compiler = tap.need_tool("musl-gcc")
        directory, source = self.directory(), tap.SOURCE_DIR / "tests/victims/spans"
        for output, arguments in (("libcontext.so", ["-shared", "-fPIC", source / "context-library.c"]),
                                  ("victim-musl",
                                   [source / "victim-context.c", "-I", source.parent,
                                    "-I", tap.SOURCE_DIR / "sdk/include"])):
            self.run_command([compiler, "-O2", "-D_GNU_SOURCE", "-o", directory / output, *arguments],
                             expect=0)
        self.check_model(directory / "libcontext.so", program=str(directory / "victim-musl"))

    def test_an_update_makes_a_new_resource_and_new_names(self):
        run = self.start("--frequency", "1999")
        child, tell = self.start_victim("-", program="victim-context-exec")
        self.publish(tell, keys=("http.route",))
        tell("load")
        threads = self.threads(child, 6)
        run.wait_events(200, pid=child.pid)
        updated = self.publish(tell, resource={"service.name": "shop", "service.version": "1.3"})
        run.wait_events(200, pid=child.pid)
        tap.wait_until(
            lambda: any("parity" in x.attributes for path in run.receiver.paths()
                        for x in session.otlp_read.samples(path)), "the new names")
        result = run.stop()
        versions = {x.resource["service.version"]: [] for x in result.of(child.pid)}
        for sample in result.of(child.pid):
            versions[sample.resource["service.version"]].append(sample)
        self.assertEqual(set(versions), {"1.2", "1.3"})
        self.assertTrue(all("parity" not in x.attributes for x in versions["1.2"]))
        for sample in versions["1.3"]:
            self.assertGreater(result.monotonic_ns(sample), updated - 2_000_000_000)
            if sample.trace_id:
                self.check_thread(sample, threads[sample.thread_id])
        self.assertGreater(result.counter("context_attributes_total", "unknown_key"), 0)
        self.assertEqual(result.counter("process_contexts_total", "updated"), 1)

    def published_late(self, resource, **environment):
        """(result, pid) of a process that is sampled in a window before it says what it is, and in later ones."""
        child, tell = self.start_victim("-", program="victim-context-exec", **environment)
        run = self.start("--pid", child.pid, "--frequency", "1999")
        run.wait_events(100, pid=child.pid)
        self.publish(tell, resource=resource)
        tap.wait_until(lambda: any("service.version" in x.resource for path in run.receiver.paths()
                                   for x in otlp_read.samples(path)), "what it published")
        return run.stop(), child.pid

    def rows_of(self, pid, paths):
        """What `report` has of a process: [(service, version, value)] of its CPU time."""
        done = self.run_command([tap.SPANPROF, "report", "--json", "--pid", pid, *paths], expect=0)
        return [(row["attributes"]["service.name"], row["attributes"]["service.version"], row["value"])
                for profile in json.loads(done.stdout)["profiles"] for row in profile["processes"]]

    def test_samples_of_a_window_have_the_service_name_that_came_in_it(self):
        run, wait = self.start_counted("--comm", "victim-context*", "--frequency", "1999", "--export-interval", "1h")
        first, _ = self.start_victim("-", program="victim-context-exec")
        run.wait_events(1, pid=first.pid)                       # the daemon's own first window is a short one
        child, tell = self.start_victim("-", program="victim-context-exec")
        session.wait_cpu([child.pid], 0.25)
        self.publish(tell)
        wait(1, "spanprof_process_contexts_total", result="found")
        session.wait_cpu([child.pid], 0.1)
        result = run.stop()
        self.assertEqual({x.resource["service.name"] for x in result.of(child.pid)}, {"shop"})
        self.assertGreater(sum(x.value for x in result.of(child.pid)), 200)

    def test_a_service_name_that_comes_a_window_later_is_one_row(self):
        result, pid = self.published_late(self.RESOURCE)
        names = {x.resource["service.name"] for x in result.of(pid)}
        self.assertEqual(names, {"unknown_service:victim-context-exec", "shop"})
        expected = [("shop", "1.2", sum(x.value for x in result.of(pid)))]
        self.assertEqual(self.rows_of(pid, result.paths), expected)
        self.assertEqual(self.rows_of(pid, result.paths[::-1]), expected)
        text = self.run_command([tap.SPANPROF, "report", *result.paths], expect=0).stdout
        self.assertRegex(text, r"(?m)^Processes +1$")
        html = self.directory() / "page.html"
        self.run_command([tap.SPANPROF, "convert", *result.paths, "-o", html], expect=0)
        self.assertEqual({row.values["process"] for row in page_read.read(html).rows},
                         {f"shop · victim-context-exec ({pid})"})

    def test_a_service_without_a_name_of_its_own_keeps_that_of_its_environment(self):
        """An SDK that was given none publishes unknown_service:java, in time or late."""
        resource = {"service.name": "unknown_service:java", "service.version": "9"}
        result, pid = self.published_late(resource, OTEL_SERVICE_NAME="cart")
        self.assertEqual({x.resource["service.name"] for x in result.of(pid)}, {"cart"})
        self.assertEqual(self.rows_of(pid, result.paths), [("cart", "9", sum(x.value for x in result.of(pid)))])

    def test_invalid_records_and_sizes_give_no_span_and_no_attributes(self):
        run = self.start("--frequency", "1999")
        child, tell = self.start_victim("-", before=2, after=2, program="victim-context-exec")
        self.publish(tell)
        tell("load")
        threads = self.threads(child, 4)
        run.wait_events(200, pid=child.pid)
        tell("size 65535")
        session.wait_cpu([child.pid], 0.15)
        big = tell("size 3")
        session.wait_cpu([child.pid], 0.15)
        cut = tell("valid 0")
        session.wait_cpu([child.pid], 0.15)
        result = run.stop()
        for sample in result.of(child.pid):
            when = result.monotonic_ns(sample)
            if when > cut or threads.get(sample.thread_id) != "set":
                self.assertIsNone(sample.trace_id)
            elif sample.trace_id and when > big:
                self.assertNotIn("parity", sample.attributes)
                # other samples of the span may have told its name
                self.assertIn(sample.attributes.get("http.route"), (None, f"/route/{sample.thread_id % 3}"))
        self.assertGreater(result.counter("context_attributes_total", "unreadable"), 0)
        self.assertGreater(result.counter("context_attributes_total", "malformed"), 0)
        self.assertGreater(result.counter("contexts_total", "busy"), 0, "the first invalid one after a span")
        self.assertGreater(result.counter("contexts_total", "none"), 0)

    def test_a_bad_header_is_counted_and_costs_nothing_else(self):
        run = self.start("--frequency", "399", "--comm", "victim-context*")
        children = []
        for bad in ("version", "size", "payload", "nowhere", "stack", "time", "signature"):
            child, tell = self.start_victim("-", before=1, after=1, program="victim-context-exec")
            self.publish(tell, wrong=bad)
            tell("load")
            children.append((bad, child))
        child, tell = self.start_victim("-", before=1, after=1, program="victim-context-exec")
        self.publish(tell)
        tell("flap")
        children.append(("flap", child))
        run.wait_events(300)
        # By the log, which names the process: others on this machine may publish as well.
        reasons = {
            "version": "version 1: only version 2 is read", "size": "malformed, and is not read",
            "payload": "malformed, and is not read", "nowhere": "malformed, and is not read",
            "time": "always being updated, and is not read"
        }
        for bad, child in children:
            if bad in reasons:
                tap.wait_until(lambda: re.search(rf"\b{child.pid}\b.*{reasons[bad]}", run.log),
                               f"the reason for {bad}: {run.log}")
        session.wait_cpu([child.pid for _, child in children], 0.5)
        result = run.stop()
        for bad, child in children:
            self.assertTrue(result.of(child.pid), bad)
            # which may be met between two updates; which may look like a message
            if bad not in ("flap", "stack"):
                self.assertEqual({x.resource.get("service.name") for x in result.of(child.pid)} & {"shop"},
                                 set(), bad)
            if bad in reasons:
                self.assertEqual(
                    len(
                        re.findall(rf"\b{child.pid}\b.*is not read", result.log) +
                        re.findall(rf"\b{child.pid}\b.*is read", result.log)), 1, f"{bad} is told once")
        counts = result.counter("process_contexts_total")
        for name, least in (("unsupported", 1), ("malformed", 3), ("busy", 1)):
            self.assertGreaterEqual(counts[name], least, name)

    def test_a_payload_in_a_file_that_never_answers_holds_up_nobody(self):
        """On FUSE: one page fault on it never ends. Everybody else is sampled on, and who publishes later is found."""
        try:
            server = fuse_server.FuseServer(self.directory(), "payload", bytes(4096))
        except OSError as error:
            tap.skip(f"kernel: mounts no FUSE here: {error}")
        self.addCleanup(server.close)
        run = self.start("--frequency", "399")
        hostile, tell = self.start_victim("-", before=1, after=1, program="victim-context-exec")
        self.publish(tell)
        run.wait_events(20, pid=hostile.pid)
        with open(server.file, "rb"):
            # the server knows no FLUSH: from now on no close waits for its answer
            pass
        tell(f"map {server.file}")
        server.be_silent()
        tell("silent")
        tap.wait_until(lambda: re.search(rf"\b{hostile.pid}\b.*malformed, and is not read", run.log),
                       f"the reason: {run.log}")
        healthy, tell = self.start_victim("-", before=1, after=1, program="victim-context-exec")
        self.publish(tell, resource={"service.name": "healthy"})
        run.wait_events(40, pid=healthy.pid)
        session.wait_cpu([hostile.pid], 0.25)
        result = run.stop()
        self.assertEqual({x.resource.get("service.name") for x in result.of(healthy.pid)}, {"healthy"})
        self.assertGreater(len(result.of(hostile.pid)), 30, "it is sampled all the same")

    def test_a_process_context_is_found_by_each_of_its_names_and_without_one(self):
        run = self.start("--frequency", "399")  # whoever publishes
        children = {}
        for header in ("memfd", "memfd-suffix", "anon", "shmem", "unnamed"):
            child, tell = self.start_victim("-", before=1, after=0, program="victim-context-exec",
                                            HEADER=header)
            self.publish(tell, resource={"service.name": f"shop-{header}"})
            if header == "shmem" and "\nunnamed\n" in child.out:
                continue  # a kernel without named memory: shared memory that has no name is not searched
            with open(f"/proc/{child.pid}/maps") as maps:
                names = re.findall(r"\S*OTEL_CTX.*", maps.read())
            children[header] = (child, names)
        for header, (child, names) in children.items():
            run.wait_events(20, pid=child.pid)
        result = run.stop()
        for header, (child, names) in children.items():
            self.assertEqual({x.resource.get("service.name") for x in result.of(child.pid)},
                             {f"shop-{header}"}, names)
        self.assertEqual(children["memfd-suffix"][1], ["/memfd:OTEL_CTX_v2 (deleted)"])
        self.assertEqual(children["unnamed"][1], [])
        self.assertGreaterEqual(result.counter("process_contexts_total", "found"), len(children))

    def test_a_wild_list_of_thread_local_memory_gives_no_context(self):
        run = self.start("--frequency", "1999")
        child, tell = self.start_victim(tap.VICTIMS / "libcontext-general.so", before=2, after=2)
        self.publish(tell)
        tell("load")
        threads = self.threads(child, 4)
        tap.wait_until(lambda: self.linked(run, child) > 50, "spans")
        for address in ("ffff800000000000", "8", "7fffffffffff", "deadbeefdeadbeef"):
            wild = tell(f"dtv {address}")
            session.wait_cpu([child.pid], 0.2)
        result = run.stop()
        samples = [x for x in result.of(child.pid) if x.thread_id in threads]
        for sample in samples:
            self.check_thread(sample, threads[sample.thread_id] if sample.trace_id else "none")
        # A thread that waits for its CPU may be at the old one still, for as long as it waits.
        last = [max((x for x in samples if x.thread_id == tid), key=lambda x: x.time_ns) for tid in threads]
        self.assertEqual([x for x in last if x.trace_id and result.monotonic_ns(x) > wild + 50_000_000], [])
        self.assertGreater(result.counter("contexts_total", "unreadable"), 20)

    def check_elastic(self, samples, threads):
        for sample in samples:
            self.check_thread(sample, threads[sample.thread_id] if sample.trace_id else "none", keys=())

    def test_elastics_form(self):
        run = self.start("--frequency", "1999", "--comm", "victim-context*")
        child, tell = self.start_victim(tap.VICTIMS / "libcontext-elastic.so", ELASTIC="1")
        loaded = tell("load")
        threads = self.threads(child, 6)
        run.wait_events(300, pid=child.pid)
        session.wait_cpu([child.pid], 0.4)
        shown = self.shown(child.pid)
        self.assertIn("thread contexts of Elastic: ", self.contexts(child.pid).stdout)
        result = run.stop()
        samples = [x for x in result.of(child.pid) if x.thread_id in threads]
        self.check_elastic(samples, threads)
        first = min(result.monotonic_ns(x) for x in samples if x.trace_id)
        self.assertLess(first - loaded, 5_000_000_000)
        late = [
            x for x in samples
            if result.monotonic_ns(x) > first + 500_000_000 and threads[x.thread_id] == "set"
        ]
        self.assertGreater(len(late), 30)
        self.assertEqual([x for x in late if not x.trace_id], [])
        self.assertEqual({tid: x[:2] for tid, x in shown.items() if x}, {
            tid: (TRACE_HIGH + f"{tid:016x}", f"{0x5555 << 48 | tid:016x}")
            for tid, kind in threads.items() if kind == "set"
        })

    def test_a_worker_of_io_uring_has_no_span(self):
        """The kernel makes it with the thread pointer of the thread that asked first."""
        run = self.start("--frequency", "999", "--comm", "victim-uring")
        child = self.spawn([tap.VICTIMS / "victim-uring"])
        if child.wait_for(r"^(pid|none)").group(1) == "none":
            tap.skip("kernel: no io_uring")
        run.wait_events(300, pid=child.pid)
        session.wait_cpu([child.pid], 0.75)
        samples = run.stop().of(child.pid)
        workers = [x for x in samples if x.attributes["thread.name"].startswith("iou-wrk-")]
        self.assertGreater(len(workers), 10)
        self.assertGreater(sum(bool(x.trace_id) for x in samples), 10)
        self.assertEqual([x for x in workers if x.trace_id], [])

    def test_a_form_that_is_not_read_is_named(self):
        run = self.start("--frequency", "399", "--comm", "victim-context*")
        child, tell = self.start_victim(tap.VICTIMS / "libcontext-older.so", before=1, after=1)
        tell("load")
        tap.wait_until(lambda: "thread contexts are not read: context_tls_v1" in run.log, "the reason")
        self.assertIn("thread contexts are not read: context_tls_v1", self.contexts(child.pid).stdout)
        run.wait_events(50, pid=child.pid)
        result = run.stop()
        self.assertGreaterEqual(result.counter("thread_contexts_total", "unread"), 1)
        self.assertEqual([x for x in result.of(child.pid) if x.trace_id], [])

    def test_libraries_that_are_unloaded_and_loaded_anew(self):
        """Module ids and offsets of one library become another's."""
        run = self.start("--frequency", "1999")
        child, tell = self.start_victim("-", GLIBC_TUNABLES="glibc.rtld.optional_static_tls=0")
        self.publish(tell)
        self.settled(run, child)
        periods, threads = [], None
        for name in ("general", "second", "descriptor", "general"):
            tell(f"library {tap.VICTIMS}/libcontext-{name}.so")
            loaded = tell("load")
            threads = threads or self.threads(child, 6)
            seen = self.linked(run, child)
            tap.wait_until(lambda: self.linked(run, child) > seen + 300, f"spans through {name}")
            leaving = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            unloaded = tell("unload")
            session.wait_cpu([child.pid], 0.15)
            periods.append((name, loaded, leaving, unloaded, time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
        result = run.stop()
        samples = [x for x in result.of(child.pid) if x.thread_id in threads]
        for sample in samples:
            self.check_thread(sample, threads[sample.thread_id] if sample.trace_id else "none")
        for name, loaded, leaving, unloaded, end in periods:
            within = [
                x for x in samples
                if loaded < result.monotonic_ns(x) < leaving and threads[x.thread_id] == "set"
            ]
            first = min(result.monotonic_ns(x) for x in within if x.trace_id)
            late = [x for x in within if result.monotonic_ns(x) > first + 500_000_000]
            self.assertEqual([x for x in late if not x.trace_id], [], name)
            after = [x for x in samples if unloaded + session.CLOCK_SLACK_NS < result.monotonic_ns(x) < end]
            self.assertTrue(after, name)
            self.assertEqual([x for x in after if x.trace_id], [], name)

    def test_a_library_that_is_linked_long_after_it_was_mapped(self):
        """As when its process waits for a CPU in between: no notice tells of the word that leads to the variable."""
        run = self.start("--frequency", "1999", "--log-level", "debug")
        child, tell = self.start_victim(tap.VICTIMS / "libcontext-slow.so")
        self.publish(tell)
        self.settled(run, child)
        tell("load")
        self.assertIn("no word of its process leads to its variable (yet)", run.log,
                      "else this test tests nothing")
        tap.wait_until(lambda: self.linked(run, child) > 100, "spans")
        run.stop()

    def linked(self, run, child):
        return sum(1 for path in run.receiver.paths() if path.with_suffix(".json").exists()
                   for x in session.otlp_read.samples(path)
                   if x.resource["process.pid"] == child.pid and x.trace_id)

    def test_what_may_not_leave_stays(self):
        run = self.start("--frequency", "399", "--attributes-deny", "http.*,shop.s*,thread.name",
                         "--attributes-allow",
                         "service.*,shop.*,process.*,thread.*,parity,http.*,profile.*,telemetry.*")
        child, tell = self.start_victim("-", program="victim-context-exec")
        self.publish(tell)
        tell("load")
        run.wait_events(200, pid=child.pid)
        result = run.stop()
        samples = [x for x in result.of(child.pid) if x.trace_id]
        self.assertTrue(samples)
        for sample in samples:
            self.assertEqual(set(sample.attributes) - {"profile.stack.truncated"}, {"thread.id", "parity"})
            self.assertTrue(sample.resource["shop.canary"])
            self.assertFalse({"shop.shards", "shop.share", "host.name"} & set(sample.resource))

    def test_the_sdk_writes_both_forms(self):
        self.check_sdk(tap.VICTIMS / "victim-otel")

    def test_the_sdk_writes_both_forms_with_musl(self):
        compiler = tap.need_tool("musl-gcc")
        directory, source = self.directory(), tap.SOURCE_DIR / "sdk"
        flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Werror", "-I", source / "include"]
        self.run_command([
            compiler, *flags, "-fPIC", "-shared", "-fvisibility=hidden", "-o",
            directory / "libspanprof-context.so", *(source / f"src/{name}.c"
                                                    for name in ("context", "local", "otel", "ring"))
        ], expect=0)
        self.run_command([
            compiler, *flags, "-I", tap.SOURCE_DIR / "tests/victims", "-o", directory / "victim-otel",
            tap.SOURCE_DIR / "tests/victims/spans/victim-otel.c", f"-L{directory}", "-lspanprof-context",
            f"-Wl,-rpath,{directory}"
        ], expect=0)
        # meson names the directory of the other library in the environment, and that goes before what the
        # program says
        self.check_sdk(directory / "victim-otel", env={**os.environ, "LD_LIBRARY_PATH": str(directory)})

    def test_the_order_of_a_ring_s_stores_is_kept_on_aarch64(self):
        """There a store may pass another one: in_use = 1, a full fence, three ids, in_use = 0 as a release."""
        output = self.directory() / "ring.s"
        # no header of glibc is there for another machine
        headers = pathlib.Path("/usr/include/x86_64-linux-musl")
        if not headers.exists():
            tap.skip("tool: musl-dev is not installed")
        self.run_command([
            tap.need_tool("clang"), "--target=aarch64-linux-gnu", "-O2", "-std=c11", "-D_GNU_SOURCE",
            "-D__GLIBC__=2", "-fPIC", "-S", "-nostdlibinc", "-I", headers, "-I",
            tap.SOURCE_DIR / "sdk/include", "-o", output, tap.SOURCE_DIR / "sdk/src/ring.c"
        ], expect=0)
        code = re.search(r"^spanprof_context_set:(.*?)^\tret$", output.read_text(), re.M | re.S)[1]
        stores = re.search(
            r"strb\tw\d+, \[x(\d+), #24\]\s+ldr\t(w\d+), \[x\1, #28\]\s+add\t\2, \2, #1\s+stlr\t\2, \[x\d+\]"
            r"\s+dmb\tish\s+str\tx\d+, \[x\1\]\s+str\tx\d+, \[x\1, #8\]\s+str\tx\d+, \[x\1, #16\]"
            r".*?\tstlrb\twzr, \[x\d+\]", code, re.S)
        self.assertTrue(stores, code)

    def check_sdk(self, program, **options):
        run = self.start("--frequency", "999")
        child = self.spawn([program], **options)
        child.wait_for(r"^pid \d+")
        threads = self.threads(child, 4)
        run.wait_events(500, pid=child.pid)
        session.wait_cpu([child.pid], 0.5)
        self.check_sdk_samples(run.stop(), child.pid, threads)

    def test_a_forked_child_is_read_at_its_own_header(self):
        run = self.start("--frequency", "999")
        parent = self.spawn([tap.VICTIMS / "victim-otel", "fork"])
        threads = self.threads(parent, 8)
        pids = [int(pid) for pid in re.findall(r"^pid (\d+)", parent.out, re.M)]
        self.assertEqual(len(pids), 2)
        for pid in pids:
            run.wait_events(500, pid=pid)
        session.wait_cpu(pids, 1.0)
        result = run.stop()
        parent.stop()
        for pid in pids:
            self.check_sdk_samples(result, pid, threads)

    def check_sdk_samples(self, result, pid, threads):
        samples = [x for x in result.of(pid) if x.thread_id in threads]
        spans = [x for x in samples if x.trace_id]
        self.assertGreater(len(spans), 100)
        self.assertTrue([x for x in samples if threads[x.thread_id] == "none"])
        for sample in samples:
            self.assertEqual((sample.resource["service.name"], sample.resource["service.version"]),
                             ("shop", "1.2"))
            if threads[sample.thread_id] == "none":
                self.assertIsNone(sample.trace_id)
            # else it was interrupted between set() and the second attribute
            elif "parity" in sample.attributes:
                self.check_thread(sample, "set")
        self.assertGreater(len([x for x in spans if "parity" in x.attributes]), len(spans) // 2)

    def test_a_slot_is_never_believed_for_another_thread(self):
        run = self.start("--frequency", "1999")
        child = self.victim("births", 7)
        child.wait()
        births = {int(number): (int(tid), int(begin), int(end)) for number, tid, begin, end in
                  re.findall(r"^(\d+) (\d+) (\d+) (\d+)$", child.out, re.M)}
        result = run.stop()
        spans = [x for x in result.of(child.pid) if x.trace_id]
        self.assertGreater(len(spans), 500)
        # Slots of threads that were there when the ring was found are trusted; all others were born under our
        # eyes.
        found = min(result.monotonic_ns(x) for x in spans)
        later = {tid for tid, begin, end in births.values() if begin > found + 500_000_000}
        judged = [x for x in spans if x.thread_id in later]
        self.assertGreater(len(judged), 300)
        for sample in judged:
            tid, begin, end = births[int(sample.span_id, 16)]
            self.assertEqual(sample.thread_id, tid, sample)
            self.assertLessEqual(begin - session.CLOCK_SLACK_NS, result.monotonic_ns(sample), sample)
            # It looks at its clock before it ends, and may wait for its CPU in between; until another one has
            # its id, the slot is its own.
            heirs = [other for owner, other, _ in births.values() if owner == tid and other > end]
            self.assertGreaterEqual(min(heirs, default=end + 30_000_000_000), result.monotonic_ns(sample),
                                    sample)
        self.assertGreater(result.counter("contexts_total", "stale"), 50, "a third of each life")
        self.assertGreater(result.counter("contexts_total", "ambiguous"), 0)

    def test_watches_how_old_a_context_becomes(self):
        child, tell = self.start_victim("-", before=0, after=2, program="victim-context-exec")
        tell("load")
        threads = self.threads(child, 2)
        (tid,) = [tid for tid, kind in threads.items() if kind == "set"]
        watch = self.spawn([tap.SPANPROF, "contexts", "--watch", child.pid])
        line = rf"^    thread {tid}: trace \w{{32}} span \w{{16}}, for ([\d.]+) to ([\d.]+) s$"
        ages = tap.wait_until(
            lambda: (lambda x: x if len(x) >= 3 else None)(re.findall(line, watch.out, re.M)), "three looks")
        lower, upper = zip(*((float(a), float(b)) for a, b in ages))
        self.assertEqual(lower[0], 0.0)
        self.assertTrue(lower[0] < lower[1] < lower[2], ages)
        self.assertTrue(all(a <= b for a, b in zip(lower, upper)), ages)
        self.assertTrue(upper[0] < upper[1] < upper[2], "the thread's own age bounds it, which grows")
        tell("valid 0")
        watch.wait_for(rf"thread {tid}: no span \(a record that is not valid\)")
        tell("valid 1")
        n = len(re.findall(line, watch.out, re.M))
        tap.wait_until(lambda: len(re.findall(line, watch.out, re.M)) > n, "the context again")
        child.kill()
        self.assertEqual(watch.wait(), 0, "who watches sees its end")

    def test_a_ring_is_shown_as_a_reader_of_others_sees_it(self):
        child, tell = self.commanded("ring")
        tell("publish 512 3")
        tell("set 1111 2222 3333")
        independent = {tid: value for tid, value in context_oracle.slots(child.pid).items() if value}
        shown = {
            int(tid): (trace, span)
            for tid, trace, span in re.findall(r"thread (\d+), slot \d+: trace (\w{32}) span (\w{16})",
                                               self.contexts(child.pid).stdout)
        }
        self.assertEqual(set(shown.values()), {(f"{0x1111:016x}{0x2222:016x}", f"{0x3333:016x}")})
        self.assertEqual(shown, independent)

    def test_targets_names_every_form(self):
        child, tell = self.start_victim("-", program="victim-context-exec")
        self.publish(tell)
        ring = self.spawn([session.SERVICE, "--duration", 60, "--load", 0.1])
        ring.wait_for("^example-service")
        lines = {
            int(line.split()[0]): line for line in self.spanprof(
                "targets", "--comm", "victim-context*,example-serv*").stdout.splitlines()[1:]
        }
        self.assertRegex(lines[child.pid], r" process, threads +\S")
        self.assertRegex(lines[ring.pid], r" ring 0x\w+, 65536 slots +\S")
        objects = {
            x["pid"]: x
            for x in json.loads(self.spanprof("targets", "--json", "--comm", "victim-context*").stdout)
        }
        self.assertEqual(objects[child.pid]["thread_context"], {"form": "otel", "model": "static"})
        self.assertRegex(objects[child.pid]["process_context"]["address"], "^0x[0-9a-f]+000$")
        self.assertNotIn("context", objects[child.pid])

    def contexts(self, pid, expect=0):
        return self.run_command([tap.SPANPROF, "contexts", pid], expect=expect)

    def test_a_ring_with_one_wrong_field_is_told_with_that_field(self):
        script = ("import mmap, struct, sys, time\nm = mmap.mmap(-1, 65536, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
                  "m[:16] = struct.pack('<IIII', 0x4F54454C, *map(int, sys.argv[1:]))\nprint('ready', flush=True)\n"
                  "time.sleep(600)\n")
        for fields, words in ((("2", "100", "32"), "its version is not 1"),
                              (("1", "100", "64"), "its slot size is not 32"),
                              (("1", "65536", "32"), "its slots do not fit its mapping")):
            with self.subTest(words):
                child = self.spawn([sys.executable, "-c", script, *fields])
                child.wait_for("ready")
                self.assertRegex(self.contexts(child.pid).stdout, f"(?m)^ring at 0x[0-9a-f]+: not read, since {words}$")
                done = self.spanprof("targets", "--verbose", "--pid", child.pid)
                self.assertRegex(done.stderr, f"(?m)^spanprof: process {child.pid}: ring at 0x[0-9a-f]+: "
                                              f"not read, since {words}$")
                listed = json.loads(self.spanprof("targets", "--verbose", "--json", "--pid", child.pid).stdout)
                row = next(row for row in listed if row["pid"] == child.pid)
                self.assertEqual(row["invalid_ring"]["fault"], words)
                child.kill()

    def test_shows_what_a_process_publishes(self):
        child, tell = self.start_victim("-", program="victim-context-exec")
        self.assertIn("it publishes nothing",
                      re.sub("thread contexts.*\n", "it publishes nothing",
                             self.contexts(child.pid).stdout))
        self.publish(tell, resource={**self.RESOURCE, "shop.name": "a\x1b[31mb\u202ec\u009b\u200bd"})
        text = self.contexts(child.pid).stdout
        for line in ("    service.name = shop", "    shop.shards = 7", "    shop.canary = true",
                     "    shop.share = 0.25", "    shop.name = a?[31mb?c??d", "    key 1: parity"):
            self.assertIn(line + "\n", text)
        self.assertRegex(text, r"thread contexts: static, module 0, offset -\d+")
        tell("header version")
        self.assertIn("process context: version 1, of which only 2 is read\n",
                      self.contexts(child.pid).stdout)
        service = self.spawn([session.SERVICE, "--duration", 60, "--load", 0.1])
        service.wait_for("^example-service")
        tap.wait_until(
            lambda: re.search(r"thread \d+, slot \d+: trace \w{32} span \w{16}",
                              self.contexts(service.pid).stdout), "a span of the service")
        self.assertRegex(self.contexts(service.pid).stdout, r"ring at 0x\w+: version 1, 65536 slots")
        service.kill()
        self.assertIn("there is none", self.contexts(service.pid, expect=1).stderr)
        self.assertIn("no process id", self.contexts("x", expect=2).stderr)


if __name__ == "__main__":
    tap.main()

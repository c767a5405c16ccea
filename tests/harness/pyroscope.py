# SPDX-License-Identifier: Apache-2.0
"""A real Pyroscope for tests, and what it says of what it has taken. real_server.py says where it comes from.

    server = pyroscope.Pyroscope()              # takes requests soon, and answers queries after 30 to 60 s
    server.wait_ready()
    server.url                                  # the endpoint
    server.series()                             # [{label: value}] of all it has
    server.tree("shop")                         # Tree of the CPU time of a service
    server.tree("shop", spans=[id])             # … of these spans alone
    server.tree("shop", labels={"span.name": "GET /cart/:id"})      # … of series with this label
    server.close()

A tree is what its flame graph is drawn of: rows of numbers in fours (offset, total, self, name), where an
offset counts from the end of the box before (pkg/og/structs/flamebearer, `Flamebearer.Levels`).
"""
import collections
import time

import real_server
import tap

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
READY_S = 300
QUERIER = "/querier.v1.QuerierService/"
# Else it leaves out labels with a dot in their names, and series that differ by these alone become one.
ALL_LABELS = "*/*; allow-utf8-labelnames=true"


def command(program, directory, http, grpc, gossip, raft):
    """One process with everything in it, on ports of its own."""
    here = "127.0.0.1"
    return [
        # Its parts call each other by the machine's address, so these two ports are on all addresses.
        program, f"-server.http-listen-port={http}", f"-server.grpc-listen-port={grpc}",
        f"-metastore.address={here}:{grpc}", f"-query-backend.address={here}:{grpc}",
        f"-memberlist.bind-port={gossip}",
        f"-metastore.raft.bind-address={here}:{raft}", f"-metastore.raft.advertise-address={here}:{raft}",
        f"-metastore.raft.server-id={here}:{raft}", f"-metastore.raft.bootstrap-peers={here}:{raft}/{here}:{raft}",
        # Else it remembers for minutes that it was empty when it was asked first.
        "-enable-query-backend-from=2020-01-01T00:00:00Z", "-storage.backend=filesystem", f"-storage.filesystem.dir={directory}/shared",
        f"-pyroscopedb.data-path={directory}/data", f"-compactor.data-dir={directory}/compactor",
        f"-metastore.data-dir={directory}/metastore", f"-metastore.raft.dir={directory}/raft",
        f"-metastore.raft.snapshots-dir={directory}/snapshots", "-usage-stats.enabled=false",
        "-self-profiling.disable-push=true"
    ]


class Tree:
    """A flame graph: `total`, `own` = {name: self value}, `of` = {name: value with what it called}."""

    def __init__(self, graph):
        self.own, self.of, self.total = collections.Counter(), collections.Counter(), 0
        names, above = graph.get("names", []), []
        for level in graph.get("levels", []):
            numbers, at, row = [int(n) for n in level["values"]], 0, []
            for offset, total, own, name in zip(*[iter(numbers)] * 4):
                at += offset
                outer = next((path for begin, end, path in above if begin <= at < end), frozenset())
                self.own[names[name]] += own
                self.of[names[name]] += total if names[name] not in outer else 0     # recursion counts once
                row.append((at, at + total, outer | {names[name]}))
                at += total
            above = row
        self.total = self.of.pop("total", 0)
        self.own.pop("total", None)

    def share(self, *names):
        """Of its value, what has one of these as the innermost function."""
        return sum(self.own[name] for name in names) / self.total if self.total else 0.0

    def nameless(self):
        """Share of its self value in frames that have a file and an address, or nothing, in place of a name."""
        return self.share(*(name for name in self.own if not name or "!0x" in name or name.startswith("0x")))


class Pyroscope(real_server.Server):
    def __init__(self):
        program, ports = real_server.find("pyroscope"), real_server.free_ports(4)
        self.begin_ms = int(time.time() * 1000) - 60_000
        super().__init__(lambda directory: command(program, directory, *ports), f"http://127.0.0.1:{ports[0]}")

    def wait_ready(self):
        """Its ring waits 30 s on purpose; each look before is a line of its log."""

        def look():
            is_ready = self.says("/ready", b"ready")
            time.sleep(0 if is_ready else 0.5)
            return is_ready

        tap.wait_until(look, f"/ready of {self.child}", READY_S)

    def _query(self, method, since_ms=None, until_ms=None, **message):
        return self.post(QUERIER + method, {"start": since_ms or self.begin_ms,
                                            "end": until_ms or int(time.time() * 1000) + 60_000, **message},
                         Accept=ALL_LABELS)

    def series(self):
        answer = self._query("Series", matchers=[], labelNames=[])
        return [{pair["name"]: pair["value"] for pair in labels["labels"]}
                for labels in answer.get("labelsSet", [])]

    def of_service(self, service):
        """The types of its profiles: {type: how many series}."""
        return collections.Counter(labels["__profile_type__"] for labels in self.series()
                                   if labels.get("service_name") == service)

    def tree(self, service, kind=CPU, spans=(), labels=None, **times):
        """@spans: numbers, or () for all that there is. A label with a dot in its name stands in quotes."""
        wanted = ",".join(f'"{name}"="{value}"' for name, value in (labels or {}).items())
        selector = {"profileTypeID": kind, "labelSelector": f'{{service_name="{service}",{wanted}}}'}
        if not spans:
            return Tree(self._query("SelectMergeStacktraces", **selector, **times).get("flamegraph", {}))
        ids = [f"{span:016x}" for span in spans]
        return Tree(self._query("SelectMergeSpanProfile", **selector, spanSelector=ids, **times)
                    .get("flamegraph", {}))

# SPDX-License-Identifier: Apache-2.0
"""A real Parca for tests, and what it says of what it has taken. real_server.py says where it comes from.

    server = parca.Parca()                      # ready when this returns
    server.url, server.grpc                     # both are one port
    server.types()                              # {"samples:count:cpu:nanoseconds", …}
    server.values("service_name")               # values of a label
    server.pprof("samples:count:cpu:nanoseconds")       # a file of pprof
    server.close()
"""
import base64
import time

import real_server
import tap

CONFIG = "object_storage:\n  bucket:\n    type: FILESYSTEM\n    config:\n      directory: ./data\n"


def command(program, directory, port):
    (directory / "parca.yaml").write_text(CONFIG)
    return [program, f"--config-path={directory}/parca.yaml", f"--http-address=127.0.0.1:{port}",
            f"--storage-path={directory}/data", f"--debuginfo-cache-dir={directory}"]


def rfc3339(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Parca(real_server.Server):
    def __init__(self):
        program, (port,) = real_server.find("parca"), real_server.free_ports(1)
        super().__init__(lambda directory: command(program, directory, port), f"http://127.0.0.1:{port}")
        self.grpc = f"127.0.0.1:{port}"
        tap.wait_until(lambda: self.says("/api/profiles/types", b"types"), f"answers of {self.child}", 180)

    def _times(self, prefix=""):
        now = time.time()
        return {f"{prefix}start": rfc3339(now - 3600), f"{prefix}end": rfc3339(now + 60)}

    def types(self):
        found = self.get("/api/profiles/types", **self._times()).get("types", [])
        return {":".join(t.get(key, "") for key in ("sampleType", "sampleUnit", "periodType", "periodUnit"))
                for t in found}

    def query_name(self, kind):
        """How a query names a type: with the profile's name before it, and what else Parca puts there."""
        for t in self.get("/api/profiles/types", **self._times()).get("types", []):
            words = [t.get(key, "") for key in ("name", "sampleType", "sampleUnit", "periodType", "periodUnit")]
            if ":".join(words[1:]) == kind:
                return ":".join(words + (["delta"] if t.get("delta") else []))
        raise KeyError(kind)

    def values(self, label):
        return set(self.get(f"/api/profiles/labels/{label}/values", **self._times()).get("labelValues", []))

    def labels(self):
        return set(self.get("/api/profiles/labels", **self._times()).get("labelNames", []))

    def pprof(self, kind, selector=""):
        """Bytes of a file of pprof. Not the report TOP: a line whose function it has not read ends the server
        (pkg/query/top.go)."""
        answer = self.get("/api/profiles/query", mode="MODE_MERGE", report_type="REPORT_TYPE_PPROF",
                          **{"merge.query": self.query_name(kind) + "{" + selector + "}"},
                          **self._times("merge."))
        return base64.b64decode(answer["pprof"])

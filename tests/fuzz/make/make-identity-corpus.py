#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipe of the corpus identity: writes it into corpus/. Texts as /proc/PID/{environ,cgroup,status} have them."""
import pathlib

CORPUS = pathlib.Path(__file__).parents[1] / "corpus/identity"
ID = b"5f3a8f0c1be64d7292a10b6cf7a8e90d3c4b5a69788796a5b4c3d2e1f0a1b2c3"

FILES = {
    "environ": b"PATH=/bin\0OTEL_SERVICE_NAME=cart\0OTEL_RESOURCE_ATTRIBUTES=a=b, c%3D = d%2Ce ,bad,f=%zz,=g,h=%00,\0X=Y\0",
    "environ-no-end": b"OTEL_RESOURCE_ATTRIBUTES=a=b,c=%4",
    "environ-many": b"OTEL_RESOURCE_ATTRIBUTES=" + b"".join(b"k%d=v," % i for i in range(70)) + b"\0",
    "environ-long": b"OTEL_SERVICE_NAME=" + b"n" * 1025 + b"\0OTEL_RESOURCE_ATTRIBUTES=a=" + b"x" * 1025 +
    b"\0",
    "title": b"nginx: master process /usr/sbin/nginx\0\0\0",
    "cgroup-v2": b"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + ID + b".scope\n",
    "cgroup-v1": b"12:cpu,cpuacct:/docker/" + ID + b"\n1:name=systemd:/docker/" + ID +
    b"\n0::/system.slice/a.service\n",
    "cgroup-nspawn": b"0::/machine.slice/machine-my\\x2dweb.scope/payload/system.slice/a.service (deleted)\n",
    "cgroup-ecs": b"9:memory:/ecs/t/0123456789abcdef0123456789abcdef-1234567890\n",
    "cgroup-malformed": b"0:\n::\n0::\n0::x\n0::/" + b"/" * 300 + b"\\x\\x2\\xzz\n0::/" + b"n" * 5000 +
    b".service",
    "status": b"Name:\tx\nUid:\t0\t33\t33\t33\nGid:\t0\t0\t0\t0\n",
}

CORPUS.mkdir(exist_ok=True)
for name, data in FILES.items():
    (CORPUS / name).write_bytes(data)

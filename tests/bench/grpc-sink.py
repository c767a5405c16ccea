#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A receiver of OTLP profiles for profilers that speak gRPC alone: each request becomes a file.

usage: grpc-sink.py DIRECTORY       prints `port N`; ends with its standard input. Needs grpcio (PyPI)
"""
import concurrent.futures
import itertools
import pathlib
import sys

import grpc

EXPORT = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"


class Sink(grpc.GenericRpcHandler):
    def __init__(self, directory):
        self.directory, self.numbers = pathlib.Path(directory), itertools.count(1)

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.store) if details.method == EXPORT else None

    def store(self, request, _context):
        path = self.directory / f"{next(self.numbers):06}.pb"
        path.with_suffix(".new").write_bytes(request)
        path.with_suffix(".new").rename(path)
        return b""


server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[Sink(sys.argv[1])],
                     options=[("grpc.max_receive_message_length", -1)], compression=None)
print("port", server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()

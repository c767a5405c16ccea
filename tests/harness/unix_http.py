# SPDX-License-Identifier: Apache-2.0
"""HTTP on a unix socket: how a running daemon is asked (daemon/host/service/control/)."""
import http.client
import socket

import prometheus
import tap


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=tap.PATIENCE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask_once(connection, path, method="GET"):
    """(status, text, headers) of one request."""
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.headers)


def ask(connection, path, method="GET"):
    """As ask_once(); a connection that ends without a byte, as at the end of a daemon, is made once more."""
    try:
        return ask_once(connection, path, method)
    except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
        connection.close()
        return ask_once(connection, path, method)


def metrics(path):
    """What the daemon whose control socket is at @path counts now; for prometheus.value()."""
    return prometheus.parse(ask(Unix(path), "/metrics")[1])

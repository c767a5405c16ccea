# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made here so that none can run out: two authorities, `ours` and `other`; `server` and
`client` signed by ours, `stranger` by the other. Each has two days."""
import ssl
import subprocess
import tempfile

import tap


class Certificates:
    @classmethod
    def setUpClass(cls):
        tap.need_tool("openssl")
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        for ca in ("ours", "other"):
            cls.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-subj", f"/CN={ca}", "-keyout", cls.path(f"{ca}.key"), "-out",
                        cls.path(f"{ca}.pem"), "-days", "2")
        for name, ca in (("server", "ours"), ("client", "ours"), ("stranger", "other")):
            cls.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        f"/CN={name}", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                        cls.path(f"{name}.key"), "-out", cls.path(f"{name}.csr"))
            cls.openssl("x509", "-req", "-in", cls.path(f"{name}.csr"), "-CA", cls.path(f"{ca}.pem"),
                        "-CAkey", cls.path(f"{ca}.key"), "-copy_extensions", "copy", "-days", "2",
                        "-out", cls.path(f"{name}.pem"))

    @classmethod
    def path(cls, name):
        return f"{cls.temporary.name}/{name}"

    @staticmethod
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def server_context(self, certificate="server", ask=False):
        """@ask: for a client certificate of ours."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(f"{certificate}.pem"), self.path("server.key"))
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path("ours.pem"))
        return context

# SPDX-License-Identifier: Apache-2.0
"""A service as WSGI has it: each request computes in a known chain of calls.

usage: gunicorn victim_wsgi:application, uwsgi --module victim_wsgi
"""
ROUNDS = 100000


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


def query(n):
    return burn(n)  # > burn


def render(n):
    return b"%d" % query(n)  # > query


def application(environ, start_response):
    body = render(len(environ))  # > render
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Waits for the lock of an interpreter (test-run-waits-runtimes.py) with each release of Python that is here,
and with Debian's newer ones (SPANPROF_TEST_PYTHONS names more)."""
import importlib

import pythons
import tap

runtimes = importlib.import_module("test-run-waits-runtimes")


class EachRelease(runtimes.PythonLock):

    def pythons(self):
        return pythons.all_of_them()


if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-python.py on each release of Python that is here, and with
Debian's newer ones (SPANPROF_TEST_PYTHONS names more)."""
import importlib

import pythons
import tap

python = importlib.import_module("test-run-python")


class OtherReleases(python.Python):
    N = 10000
    WHOLE = 0.99

    def pythons(self):
        return pythons.all_of_them()


if __name__ == "__main__":
    tap.main()

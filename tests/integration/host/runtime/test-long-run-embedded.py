#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-embedded.py with each release of Python that is here (SPANPROF_TEST_PYTHONS names more)."""
import importlib

import pythons
import tap

embedded = importlib.import_module("test-run-embedded")


class OtherReleases(embedded.Embedded):

    def pythons(self):
        return pythons.here()


if __name__ == "__main__":
    tap.main()

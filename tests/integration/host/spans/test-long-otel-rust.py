#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/rust under axum, whose crates take minutes to compile: each route's share by its name."""
import importlib
import shutil

import tap

otel_rust = importlib.import_module("test-otel-rust")


class Shop(otel_rust.TestCase):
    def test_of_axum_has_its_routes_in_reports_pages_and_metrics(self):
        shop = self.requests.parent / "otel-rust-shop"
        shutil.copytree(tap.SOURCE_DIR / "tests/interop/publishers/otel-rust-shop", shop)
        done = self.run_cargo(shop, "fetch", expect=None)
        if done.returncode:
            tap.skip(f"machine: axum cannot be downloaded: {done.stderr[-300:]}")
        self.run_cargo(shop, "build", "--quiet", "--offline")
        self.check_service([shutil.copy(self.target / "debug/otel-shop", self.directory())],
                           {"GET /cart/{id}": "/cart/{id}", "GET /search": "/search"})


if __name__ == "__main__":
    tap.main()

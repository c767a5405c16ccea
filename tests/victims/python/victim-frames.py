# SPDX-License-Identifier: Apache-2.0
"""A program of pandas: tables are joined, grouped, sorted, turned and written as text and read again.

usage: victim-frames.py SECONDS

Prints `ready` after the first turn; SECONDS of CPU time later it ends."""
import io
import sys
import time

import numpy
import pandas

ROWS = 3000


def made(seed):
    random = numpy.random.default_rng(seed)
    orders = pandas.DataFrame({
        "customer": random.integers(0, 200, ROWS), "price": random.random(ROWS) * 100,
        "kind": random.choice(["tea", "coffee", "milk", "bread"], ROWS),
        "day": pandas.Timestamp("2026-01-01") + pandas.to_timedelta(random.integers(0, 90, ROWS), unit="D")})
    customers = pandas.DataFrame({"customer": range(200), "city": [f"city {i % 17}" for i in range(200)]})
    return orders, customers


def grouped(orders, customers):
    both = orders.merge(customers, on="customer").sort_values(["day", "price"])
    both["month"] = both["day"].dt.strftime("%Y-%m")
    sums = both.groupby(["city", "month"])["price"].agg(["sum", "mean", "count"])
    return both, sums.reset_index().pivot(index="city", columns="month", values="sum")


def written(both):
    text = both.head(300).to_csv(index=False)
    return pandas.read_csv(io.StringIO(text), parse_dates=["day"])


def told(both):
    labels = both["kind"].str.upper() + "-" + both["city"].str.replace(" ", "_")
    rolled = both.set_index("day")["price"].rolling("7D").mean()
    twice = both.head(200).apply(lambda row: row["price"] * 2, axis=1)
    return labels.value_counts().sum() + rolled.sum() + twice.sum()


def main():
    n, end = 0, time.process_time() + float(sys.argv[1])
    while time.process_time() < end:
        both, table = grouped(*made(n))
        assert table.shape == (17, 3) and len(written(both)) == 300 and told(both) > 0
        n += 1
        if n == 1:
            print("ready", flush=True)


main()

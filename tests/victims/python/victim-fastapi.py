# SPDX-License-Identifier: Apache-2.0
"""A service of FastAPI in one file, that asks itself for pages by httpx, without a socket.

usage: victim-fastapi.py SECONDS

Prints `ready` once each page was there; SECONDS of CPU time later it ends."""
import asyncio
import sys
import time
from typing import Annotated

import fastapi
import httpx
import pydantic

app = fastapi.FastAPI()


class Item(pydantic.BaseModel):
    id: int
    name: str = pydantic.Field(min_length=3)
    price: float
    labels: dict[str, str] = {}


class Order(pydantic.BaseModel):
    name: str
    count: Annotated[int, pydantic.Field(ge=0, lt=100)]
    items: list[Item]


def item(i):
    return Item(id=i, name=f"item {i}", price=i * 1.19, labels={"colour": f"c{i % 7}"})


async def user(x_user: Annotated[str | None, fastapi.Header()] = None):
    return x_user or "nobody"


@app.get("/items")
async def listed(start: int = 0, who: str = fastapi.Depends(user)) -> list[Item]:
    return [item(i) for i in range(start, start + 20)]


@app.get("/items/{id}")
async def one(id: int, who: str = fastapi.Depends(user)) -> Item:
    return item(id)


@app.post("/orders")
async def ordered(order: Order) -> Order:
    return order.model_copy(update={"count": order.count + 1})


async def main():
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.example",
                                 headers={"x-user": "me"}) as client:
        n, end = 0, time.process_time() + float(sys.argv[1])
        while time.process_time() < end:
            order = {"name": f"n{n}", "count": n % 90, "items": [item(i).model_dump() for i in range(3)]}
            for answer in (await client.get("/items", params={"start": n % 50}),
                           await client.get(f"/items/{n}"), await client.post("/orders", json=order)):
                assert answer.status_code == 200, answer.text
            n += 1
            if n == 1:
                print("ready", flush=True)


asyncio.run(main())

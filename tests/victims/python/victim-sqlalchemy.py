# SPDX-License-Identifier: Apache-2.0
"""A program with a database in memory by SQLAlchemy: rows that belong together are written, changed, loaded
and summed.

usage: victim-sqlalchemy.py SECONDS

Prints `ready` after the first turn; SECONDS of CPU time later it ends."""
import sys
import time

from sqlalchemy import ForeignKey, String, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(64))
    orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all, delete-orphan")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id"))
    total: Mapped[float]
    customer: Mapped[Customer] = relationship(back_populates="orders")


def written(session, n):
    for i in range(10):
        customer = session.get(Customer, (n + i) % 100 + 1) or Customer(id=(n + i) % 100 + 1, name="")
        customer.name = f"name {n}"
        customer.orders = [Order(total=k * 1.19) for k in range(5)]
        session.add(customer)
    session.commit()


def loaded(session, n):
    query = select(Customer).options(selectinload(Customer.orders)).where(Customer.id > n % 50)
    found = session.scalars(query.order_by(Customer.name).limit(30))
    return sum(order.total for customer in found for order in customer.orders)


def summed(session):
    total = func.sum(Order.total)
    query = select(Customer.name, func.count(Order.id), total).join(Order).group_by(Customer.name)
    return session.execute(query.having(total > 1).order_by(Customer.name)).all()


def main():
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    n, end = 0, time.process_time() + float(sys.argv[1])
    while time.process_time() < end:
        with Session(engine) as session:
            written(session, n)
            loaded(session, n)
            summed(session)
        n += 1
        if n == 1:
            print("ready", flush=True)


main()

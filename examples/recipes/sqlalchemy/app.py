"""The shop of the recipes on SQLAlchemy, behind the WSGI server of Python's standard library."""

import json
import os
import socketserver
from wsgiref.simple_server import WSGIServer, make_server

from sqlalchemy import BigInteger, Column, Integer, Text, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, declarative_base

engine = create_engine(os.environ["DATABASE_URL"].replace("postgres://", "postgresql://", 1), pool_pre_ping=True)
Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = Column(BigInteger, primary_key=True)
    customer = Column(Text, nullable=False)
    cents = Column(Integer, nullable=False)


class Invoice(Base):
    __tablename__ = "invoices"
    number = Column(BigInteger, primary_key=True)
    order_id = Column(BigInteger, nullable=False)
    cents = Column(Integer, nullable=False)


def take_order(body):
    """For people: the order and its task, both or neither."""
    with Session(engine) as session, session.begin():
        order = Order(customer=body["customer"], cents=body["cents"])
        session.add(order)
        session.flush()  # inserts it, so that it has its id
        session.execute(text("select sched.enqueue('invoice', jsonb_build_object('order', :order))"), {"order": order.id})
        return 201, {"order": order.id}


def write_invoice(body, task_id, lease):
    """For the sidecar: the invoice and the end of the task, both or neither."""
    try:
        with Session(engine) as session, session.begin():
            order = session.get(Order, body["order"])
            if order is None:
                return 410, {"error": "no such order"}  # trying again is pointless
            invoice = Invoice(order_id=order.id, cents=order.cents)
            session.add(invoice)
            session.flush()
            output = {"invoice": invoice.number}
            session.execute(text("select sched.complete(:id, :lease, cast(:output as jsonb))"),
                            {"id": task_id, "lease": lease, "output": json.dumps(output)})
        return 200, output  # behind the block, which commits
    except DBAPIError as error:
        if sqlstate(error) != "SC409":
            raise
        return 409, {"error": str(error.orig)}  # another attempt has the task, and ours left nothing behind


def sqlstate(error):
    """The code of a database error: psycopg 3 calls it sqlstate, psycopg2 pgcode."""
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)


def app(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    try:
        if environ["PATH_INFO"] == "/orders":
            status, answer = take_order(json.loads(body))
        elif environ["PATH_INFO"] == "/invoice":
            status, answer = write_invoice(json.loads(body), int(environ["HTTP_SCHED_TASK_ID"]), environ["HTTP_SCHED_LEASE"])
        else:
            status, answer = 404, {"error": "this app has no such kind"}
    except Exception as error:
        status, answer = 500, {"error": str(error)}  # try again
    start_response(f"{status} ", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """A server for an example; yours is gunicorn, uvicorn or the like."""


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", 8080)), app, server_class=Server).serve_forever()

"""The shop of the recipes on Python's standard library and psycopg 3."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg


class Gone(Exception):
    """What the task is about is no more: trying again is pointless."""


def connect():
    # A real app has a pool (psycopg_pool). Left by an error, the block rolls back; else it commits.
    return psycopg.connect(os.environ["DATABASE_URL"])


def take_order(order):
    """For people: the order and its task, both or neither."""
    with connect() as connection:
        [id] = connection.execute(
            "insert into orders (customer, cents) values (%s, %s) returning id", [order["customer"], order["cents"]]).fetchone()
        connection.execute("select sched.enqueue('invoice', jsonb_build_object('order', %s::bigint))", [id])
    return {"order": id}


def write_invoice(task, headers):
    """For the sidecar: the invoice and the end of the task, both or neither."""
    with connect() as connection:
        invoice = connection.execute(
            "insert into invoices (order_id, cents) select id, cents from orders where id = %s returning number", [task["order"]]).fetchone()
        if invoice is None:
            raise Gone(f"no order {task['order']}")
        output = {"invoice": invoice[0]}
        connection.execute("select sched.complete(%s::bigint, %s, %s::jsonb)",
                           [headers["Sched-Task-Id"], headers["Sched-Lease"], json.dumps(output)])
    return output


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, for which every answer needs its length

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if self.path == "/orders":
                status, answer = 201, take_order(json.loads(body))
            elif self.path == "/invoice":
                status, answer = 200, write_invoice(json.loads(body), self.headers)
            else:
                status, answer = 404, {"error": "this app has no such kind"}
        except Gone as error:
            status, answer = 410, {"error": str(error)}
        except psycopg.Error as error:
            # SC409: another attempt has the task, and ours left nothing behind. Anything else: try again.
            status, answer = 409 if error.sqlstate == "SC409" else 500, {"error": str(error)}
        except Exception as error:
            status, answer = 500, {"error": repr(error)}
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8080))), App).serve_forever()

"""The shop of the recipes on Python's standard library: where no driver is, psql is one."""

import json
import os
import re
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PSQL = ["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--no-password",
        "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=verbose", os.environ["DATABASE_URL"]]


class DatabaseError(Exception):
    def __init__(self, message):
        super().__init__(message)
        code = re.search(r": +([0-9A-Z]{5}): ", message)
        self.sqlstate = code[1] if code else None


def psql(script, **values):
    """Runs a script and returns the JSON in the last line it prints, or None.

    A value gets into SQL as :'name' only, which psql quotes; it comes by the
    environment (psql 14), where no list of processes shows it.
    """
    names = "".join(f"\\getenv {name} VALUE_{name}\n" for name in values)
    run = subprocess.run(PSQL, input=names + script, capture_output=True, encoding="utf-8",
                         env=os.environ | {f"VALUE_{name}": str(value) for name, value in values.items()})
    if run.returncode != 0:
        raise DatabaseError(run.stderr.strip())
    lines = run.stdout.split("\n")
    return json.loads(lines[-2]) if len(lines) > 1 and lines[-2] else None


# For people: the order and its task, both or neither.
TAKE_ORDER = """
begin;
insert into orders (customer, cents) values (:'customer', :'cents') returning id \\gset
select sched.enqueue('invoice', jsonb_build_object('order', :id)) as task \\gset
commit;
select jsonb_build_object('order', :id);
"""

# For the sidecar: the invoice and the end of the task, both or neither. Without
# such an order \gset fails, and with it the script before it commits.
WRITE_INVOICE = """
begin;
insert into invoices (order_id, cents) select id, cents from orders where id = :'order' returning number \\gset
select jsonb_build_object('invoice', :number) as output \\gset
select sched.complete(:'task', :'lease', :'output') \\g /dev/null
commit;
select :'output';
"""


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, for which every answer needs its length

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            status, answer = self.route(body)
        except DatabaseError as error:
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

    def route(self, body):
        if self.path == "/orders":
            order = json.loads(body)
            return 201, psql(TAKE_ORDER, customer=order["customer"], cents=order["cents"])
        if self.path == "/invoice":
            order = json.loads(body)["order"]
            if not psql("select exists (select from orders where id = :'order')::text;", order=order):
                return 410, {"error": f"no order {order}"}  # trying again is pointless
            return 200, psql(WRITE_INVOICE, order=order, task=self.headers["Sched-Task-Id"], lease=self.headers["Sched-Lease"])
        return 404, {"error": "this app has no such kind"}


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8080))), App).serve_forever()

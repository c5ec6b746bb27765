# A task arrives as POST /{kind}, its args as JSON. The status says how it went; a JSON answer is its output.
import http.server, json, os
kinds = {"hello": lambda name: {"greeting": f"Hello, {name}!"}}

class App(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body, run = self.rfile.read(int(self.headers["Content-Length"])), kinds.get(self.path[1:])
        try:
            status, output = (200, run(**json.loads(body))) if run else (404, "no such kind")
        except Exception as error:
            status, output = 500, repr(error)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(output).encode())

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8080))), App).serve_forever()

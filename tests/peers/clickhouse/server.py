"""ClickHouse's HTTP interface, as far as mcpinspect uses it, over the current engine in the library chdb."""

import http.server
import re
import sys
import tempfile
import threading
import urllib.parse

from chdb import session

engine = session.Session(sys.argv[1])
turn = threading.Lock()


def answer(query, body):
    statement = query.pop("query", None)
    if statement is None:
        statement, body = body.decode(), b""
    output = re.search(r"\bFORMAT (\w+)\s*$", statement)
    if body:
        # The library takes no data beside a statement.
        with tempfile.NamedTemporaryFile() as data:
            data.write(body)
            data.flush()
            insert = statement.replace(" FORMAT ", f" FROM INFILE '{data.name}' FORMAT ")
            return engine.query(insert).bytes()
    settings = ", ".join(f"{name} = {value}" for name, value in query.items())
    if settings and output:
        statement = f"{statement[:output.start()]} SETTINGS {settings} {output.group()}"
    return engine.query(statement, output.group(1) if output else "TabSeparated").bytes()


class Statement(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            with turn:
                status, text = 200, answer(query, body) or b""
        except Exception as error:
            status, text = 500, str(error).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Statement)
print(server.server_port, flush=True)
server.serve_forever()

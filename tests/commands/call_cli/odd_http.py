"""MCP servers over HTTP, good and bad: the path says how each behaves. Prints its port.

What it was sent is written to the file that its argument names, one JSON object a request. With two more
arguments, a certificate and its key, it speaks TLS.
"""
import json
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

log = open(sys.argv[1], "w", buffering=1)
lock = threading.Lock()
TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}]
gone = set()
old = []


def result(message, session=None):
    method = message.get("method")
    if method == "initialize":
        value = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd"}}
    elif method == "tools/list":
        value = {"tools": TOOLS}
    elif method == "tools/call":
        value = {"content": [{"type": "text", "text": "called"}]}
    else:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": value}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, message=None):
        headers = {name.lower(): value for name, value in self.headers.items()}
        with lock:
            log.write(json.dumps({"do": self.command, "path": self.path, "headers": headers, "message": message}) + "\n")

    def reply(self, status, body=b"", kind=None, **headers):
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def say(self, message, status=200, **headers):
        self.reply(status, json.dumps(message).encode(), "application/json", **headers)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, data, **fields):
        fields = "".join(f"{name}: {value}\n" for name, value in fields.items())
        self.wfile.write(f"{fields}data: {data}\n\n".encode())
        self.wfile.flush()

    def do_DELETE(self):
        self.note()
        self.reply(204)

    def do_GET(self):
        self.note()
        if self.path == "/old":
            self.begin_stream()
            self.event("/old/messages?session=1", event="endpoint")
            old.append(self)
            time.sleep(20)
        elif self.path == "/old-elsewhere":
            self.begin_stream()
            self.event("http://127.0.0.2:1/messages", event="endpoint")
        elif self.path.startswith("/break") and (last := self.headers.get("Last-Event-ID")):
            # The rest of the stream: what was asked, and its id.
            number, kind = last.split("/")
            if self.path == "/break-forever":
                self.begin_stream()
                return
            self.begin_stream()
            self.event(json.dumps(result({"id": int(number), "method": kind.replace(".", "/")})))
        else:
            self.reply(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(body)
        self.note(message)
        path, method = self.path, message.get("method")
        if path == "/old/messages?session=1":
            self.reply(202)
            if "id" in message and method:
                old[0].event(json.dumps(result(message)), event="message")
            return
        if path in ("/old", "/old-elsewhere"):
            return self.reply(405)
        if path == "/401":
            return self.reply(401, b'{"error": "invalid_token"}', "application/json",
                              WWW_Authenticate='Bearer resource_metadata="https://auth.example.org/"')
        if path == "/403":
            return self.reply(403, b"go away")
        if path == "/404":
            return self.reply(404, b"<html>Not Found</html>", "text/html")
        if path == "/500":
            return self.reply(500, b"out of cheese \x1b[31m")
        if path == "/oauth":
            return self.reply(400, b'{"error": {"message": "no such API"}}', "application/json")
        if path == "/html":
            return self.reply(200, b"<html>Welcome</html>", "text/html")
        if path == "/202":
            return self.reply(202)
        if path == "/garbage":
            return self.reply(200, b"{", "application/json")
        if path == "/away":
            return self.reply(307, Location="http://localhost:1/plain")
        if path == "/moved":
            return self.reply(301, Location="/plain")
        if path == "/loop":
            return self.reply(307, Location="/loop")
        if path == "/here":
            return self.reply(308, Location="/plain")
        if path == "/cut":
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"jsonrpc"')
            self.close_connection = True
            return
        if path == "/silent":
            time.sleep(20)
            return
        if path == "/drip":
            self.begin_stream()
            while True:
                self.wfile.write(b": still here\n\n")
                self.wfile.flush()
                time.sleep(0.05)
        if path == "/deaf" and method == "notifications/x":
            return self.reply(400, b"pardon?")
        if "id" not in message or not method:
            return self.reply(202)
        if path == "/wide" and method == "tools/list":
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.close_connection = True
            while True:
                self.wfile.write(b"[" * (1 << 20))
        if path == "/long" and method == "tools/list":
            self.begin_stream()
            self.wfile.write(b"data: ")
            while True:
                self.wfile.write(b"[" * (1 << 20))
        if path == "/gone" and method == "tools/list":
            return self.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}, 404)
        if path in ("/break", "/break-forever", "/break-silently") and method == "tools/list":
            self.begin_stream()
            if path != "/break-silently":
                self.event("", id=f"{message['id']}/{method.replace('/', '.')}", retry=60)
            self.event(json.dumps({"jsonrpc": "2.0", "method": "notifications/message",
                                   "params": {"level": "info", "data": "before the break"}}))
            return
        if path == "/asks" and method == "tools/call":
            self.begin_stream()
            self.event(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}))
            time.sleep(0.3)
            self.event(json.dumps(result(message)))
            return
        if path == "/batch" and method == "tools/list":
            return self.say([{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "first"}}, result(message)])
        headers = {"Mcp_Session_Id": "s e/1"} if method == "initialize" else {}
        self.say(result(message), **headers)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()

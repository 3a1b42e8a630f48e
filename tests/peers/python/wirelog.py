"""The Python peers' own account of the wire; same format as the Rust one (`wirelog.rs`).

`client()` and `server()` patch the SDK where it hands bytes to the operating system, so what is
logged is what is written and read, byte for byte.
"""

import hashlib
import json
import os

TEXT_LIMIT = 2048


class WireLog:
    def __init__(self, role):
        directory = os.environ.get("WIRE_LOG_DIR")
        path = directory and os.path.join(directory, f"{role}-{os.getpid()}.jsonl")
        self.file = path and os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.rest = {"sent": b"", "received": b""}

    def note(self, way, data):
        if not self.file:
            return
        *lines, self.rest[way] = (self.rest[way] + bytes(data)).split(b"\n")
        for line in lines:
            text = None
            if len(line) <= TEXT_LIMIT:
                try:
                    text = line.decode()
                except UnicodeDecodeError:
                    pass
            frame = {
                "way": way,
                "bytes": len(line),
                "sha256": hashlib.sha256(line).hexdigest(),
                "text": text,
            }
            os.write(self.file, json.dumps(frame).encode() + b"\n")


class LoggedFile:
    """A binary file that notes what passes through it."""

    def __init__(self, inner, log):
        self._inner = inner
        self._log = log

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def read1(self, *size):
        data = self._inner.read1(*size)
        self._log.note("received", data)
        return data

    def read(self, *size):
        data = self._inner.read(*size)
        self._log.note("received", data)
        return data

    def write(self, data):
        count = self._inner.write(data)
        self._log.note("sent", bytes(data)[:count])
        return count


def server():
    """Notes what the SDK's stdio server reads and writes in this process."""
    import mcp.server.stdio as stdio

    log = WireLog("server")
    claim = stdio._claim_fd

    def logged_claim(*arguments):
        wire, release = claim(*arguments)
        return LoggedFile(wire, log), release

    stdio._claim_fd = logged_claim


def client():
    """Notes what the SDK's stdio client reads and writes in this process."""
    import anyio

    log = WireLog("client")
    open_process = anyio.open_process

    async def logged_open_process(*arguments, **options):
        process = await open_process(*arguments, **options)
        send, receive = process.stdin.send, process.stdout.receive

        async def logged_send(data):
            await send(data)
            log.note("sent", data)

        async def logged_receive(*size):
            data = await receive(*size)
            log.note("received", data)
            return data

        process.stdin.send = logged_send
        process.stdout.receive = logged_receive
        return process

    anyio.open_process = logged_open_process


def http_client():
    """Notes the messages that the SDK's HTTP transports send and receive in this process.

    A message is the body of a request, the body of a response that is JSON, or the data of an event.
    """
    import httpx2

    log = WireLog("client")
    handle = httpx2.AsyncHTTPTransport.handle_async_request

    async def logged_handle(self, request):
        body = await request.aread()
        if body:
            log.note("sent", body + b"\n")
        response = await handle(self, request)
        kind = response.headers.get("content-type", "")
        if kind.startswith(("application/json", "text/event-stream")):
            response.stream = LoggedBody(response.stream, log, is_events=kind.startswith("text"))
        return response

    class LoggedBody(httpx2.AsyncByteStream):
        def __init__(self, inner, log, is_events):
            self.inner, self.log, self.is_events = inner, log, is_events
            self.rest = b""

        async def __aiter__(self):
            async for chunk in self.inner:
                self.rest += chunk
                if self.is_events:
                    *events, self.rest = self.rest.replace(b"\r\n", b"\n").split(b"\n\n")
                    for event in events:
                        self.note_event(event)
                yield chunk
            if not self.is_events and self.rest:
                self.log.note("received", self.rest + b"\n")
                self.rest = b""

        def note_event(self, event):
            lines = event.split(b"\n")
            if b"event: endpoint" not in lines:
                data = b"\n".join(line[6:] for line in lines if line.startswith(b"data: "))
                if data:
                    self.log.note("received", data + b"\n")

        async def aclose(self):
            await self.inner.aclose()

    httpx2.AsyncHTTPTransport.handle_async_request = logged_handle

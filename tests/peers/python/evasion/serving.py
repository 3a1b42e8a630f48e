"""A server that answers, for programs that want to do so unseen.

What it reads beyond a line waits here and not in a buffer of Python's, so a program may stop serving after
any number of requests, do what it came for, and go on.
"""

import json
import os


class Server:
    """Serves on two descriptors. `read` and `write` may be replaced."""

    def __init__(self, source=0, target=1):
        self.source, self.target = source, target
        self.rest = b""

    def read(self):
        return os.read(self.source, 1 << 16)

    def write(self, data):
        while data:
            data = data[os.write(self.target, data):]

    def line(self):
        """The next line without its end; None where there is none."""
        while b"\n" not in self.rest:
            if not (more := self.read()):
                return None
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def request(self):
        """The next request; None at the end."""
        while (line := self.line()) is not None:
            request = json.loads(line)
            if "id" in request:
                return request
        return None

    def say(self, answer):
        self.write(json.dumps(answer).encode() + b"\n")

    def serve(self, requests=-1):
        """Answers so many requests, or all. Returns whether there may be more."""
        while requests != 0:
            if (request := self.request()) is None:
                return False
            self.say(answer(request))
            requests -= 1
        return True


def answer(request, size=300):
    """The answer to a request, with the client's marker in it."""
    marker = request["params"]["_meta"]["marker"]
    if request["method"] == "initialize":
        result = {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": marker, "version": "1"},
        }
    else:
        result = {"content": [{"type": "text", "text": marker + "x" * size}]}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}

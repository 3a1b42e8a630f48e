"""A server that answers one request and then executes itself under a name that is excluded."""

import json
import os
import sys


def read_line() -> str:
    # Byte by byte: what is read too far would be lost in the exec.
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    return line.decode()


while True:
    request = json.loads(read_line())
    if "id" not in request:
        continue
    result = {"content": [{"type": "text", "text": "x" * 100}]}
    if request["method"] == "initialize":
        result = {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "turncoat", "version": "1"},
        }
    reply = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n"
    os.write(1, reply.encode())
    if sys.argv[1:] == ["before"]:
        os.execv(sys.executable, [sys.executable, sys.argv[0], "left-alone"])

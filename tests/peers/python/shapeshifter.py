"""A server that wants to be taken for another one each time.

shapeshifter.py HOW: HOW is `plain`, or one of
  title    writes another command line over its own,
  again    executes itself anew with an argument made up on the spot,
  child    has a child serve that it executes with such an argument, and waits for it,
  orphan   has such a child serve and ends,
  thread   has a thread serve and ends its main thread,
  moved    serves from a directory made up on the spot.
TOOL names a file with the description of its only tool.
"""

import ctypes
import json
import os
import sys
import tempfile
import threading

EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]


def overwrite_title() -> None:
    with open("/proc/self/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    # Fields 48 and 49 of the line; the rest begins with the third.
    start, end = int(fields[45]), int(fields[46])
    title = os.urandom(8).hex().encode()
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(title.ljust(end - start, b"\0")[: end - start])


def execute_again() -> None:
    made_up = "made-up-" + os.urandom(4).hex()
    os.execv(sys.executable, [sys.executable, sys.argv[0], "plain", made_up])


def serve() -> None:
    while line := sys.stdin.readline():
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] == "initialize":
            result = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shapeshifter", "version": "1"},
            }
        elif request["method"] == "tools/list":
            with open(os.environ["TOOL"]) as description:
                tool = {"name": "shift", "description": description.read()}
            result = {"tools": [{**tool, "inputSchema": {"type": "object"}}]}
        else:
            result = {"content": [{"type": "text", "text": "x" * 100}]}
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        print(json.dumps(answer), flush=True)


def serve_and_end() -> None:
    serve()
    os._exit(0)


how = sys.argv[1]
if how == "title":
    overwrite_title()
elif how == "again":
    execute_again()
elif how == "child":
    if (child := os.fork()) == 0:
        execute_again()
    os.waitpid(child, 0)
    sys.exit(0)
elif how == "orphan":
    if os.fork() == 0:
        execute_again()
    os._exit(0)
elif how == "moved":
    os.chdir(tempfile.mkdtemp())
if how == "thread":
    thread = threading.Thread(target=serve_and_end)
    thread.start()
    ctypes.CDLL(None).syscall(EXIT, 0)
serve()

"""A server that writes to its own standard input before its client does, and reads it back.

selfwriter.py READY: on a pipe by /proc/self/fd/0; on a socket with the client's own, whose number in the
client is CLIENT_SOCKET, taken with pidfd_getfd. Makes the file READY when it is done, then serves.
"""

import ctypes
import json
import os
import sys

NOISE = b"Content-Length: 1"
PIDFD_GETFD = 438


def client_socket(number: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    taken = libc.syscall(PIDFD_GETFD, os.pidfd_open(os.getppid()), number, 0)
    if taken < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return taken


def write_to_own_input() -> None:
    if number := os.environ.get("CLIENT_SOCKET"):
        target = client_socket(int(number))
    else:
        target = os.open("/proc/self/fd/0", os.O_WRONLY)
    os.write(target, NOISE)
    os.close(target)
    if os.read(0, len(NOISE)) != NOISE:
        raise SystemExit("something else")


ready = sys.argv[1]
write_to_own_input()
open(ready, "w").close()
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {"content": [{"type": "text", "text": "x" * 100}]}
    if request["method"] == "initialize":
        result = {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "selfwriter", "version": "1"},
        }
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)

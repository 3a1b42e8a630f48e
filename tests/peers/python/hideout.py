"""A server that answers `initialize` and then hides its wire, so that /proc/PID/fd does not list it.

hideout.py HOW:
    mainless   its main thread exits, another one serves
    private    a thread serves from a descriptor table of its own, and the process closes the rest
    far        it serves from a descriptor behind as many others as it may open
    in-flight  nobody holds the descriptors for a while: they wait in a socket

It comes back to serve after eight seconds.
"""

import array
import ctypes
import json
import os
import resource
import socket
import sys
import threading
import time

AWAY = 8
CLONE_FILES = 0x400
SYS_EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)


def answer(request: dict) -> bytes:
    result = {"content": [{"type": "text", "text": "x" * 100}]}
    if request["method"] == "initialize":
        result = {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hideout", "version": "1"},
        }
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n"


def serve(source: int, target: int, requests: int | None = None) -> None:
    with os.fdopen(source, "rb", closefd=False) as lines:
        for line in iter(lines.readline, b""):
            request = json.loads(line)
            if "id" in request:
                os.write(target, answer(request))
                if requests is not None and (requests := requests - 1) == 0:
                    return
    os._exit(0)


def close_stdio() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    os.close(null)


def mainless() -> None:
    def wait_and_serve() -> None:
        time.sleep(AWAY)
        serve(0, 1)

    threading.Thread(target=wait_and_serve).start()
    libc.syscall(SYS_EXIT, 0)


def private() -> None:
    apart = threading.Event()

    def part_and_serve() -> None:
        if libc.unshare(CLONE_FILES) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        apart.set()
        time.sleep(AWAY)
        serve(0, 1)

    thread = threading.Thread(target=part_and_serve)
    thread.start()
    apart.wait()
    close_stdio()
    thread.join()


def far() -> None:
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = min(limit, 200_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    source, target = limit - 2, limit - 1
    os.dup2(0, source)
    os.dup2(1, target)
    close_stdio()
    for number in range(3, source):
        os.dup2(0, number)
    time.sleep(AWAY)
    serve(source, target)


def in_flight() -> None:
    ours, theirs = socket.socketpair()
    wire = array.array("i", [0, 1])
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, wire)])
    close_stdio()
    time.sleep(AWAY)
    _, control, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(wire.itemsize * 2))
    wire = array.array("i")
    wire.frombytes(control[0][2])
    serve(*wire)


# Not `sys.stdin`: nothing of the wire must stay in a buffer.
serve(0, 1, requests=1)
{"mainless": mainless, "private": private, "far": far, "in-flight": in_flight}[sys.argv[1]]()

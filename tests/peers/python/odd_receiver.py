"""A client of MCP over HTTP that takes its answers from the socket in ways that an observer of calls may
misread.

odd_receiver.py PORT HOW:
    truncating    has the kernel throw an answer away, and shows a forged one to whoever reads its buffer
    mapping       receives an answer by TCP_ZEROCOPY_RECEIVE
    error-queue   reads its own packets back, with the times at which they were sent

Every answer is read whole before the next request is sent. Prints the number of calls whose answers it has
read by ordinary calls.
"""

import ctypes
import json
import socket
import struct
import sys
import time

port, how = int(sys.argv[1]), sys.argv[2]
wire = socket.create_connection(("127.0.0.1", port))
wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
session = ""
TCP_ZEROCOPY_RECEIVE = 35
MSG_ERRQUEUE = 0x2000
SO_TIMESTAMPING = 37
FORGED = "forged by its client"


def send(message: dict) -> None:
    body = json.dumps(message).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\n{session}Content-Length: {len(body)}\r\n\r\n"
    )
    wire.sendall(head.encode() + body)


def whole(data: bytes) -> bool:
    head, blank, body = data.partition(b"\r\n\r\n")
    if not blank:
        return False
    lines = head.decode().lower().split("\r\n")
    lengths = [int(line.split(":")[1]) for line in lines if line.startswith("content-length:")]
    return len(body) >= (lengths[0] if lengths else 0)


def receive() -> bytes:
    data = b""
    while not whole(data):
        piece = wire.recv(1 << 16)
        assert piece, "the server hung up"
        data += piece
    return data


def waiting() -> int:
    """The bytes of a whole answer, which stay in the socket."""
    while True:
        data = wire.recv(1 << 20, socket.MSG_PEEK)
        if whole(data):
            return len(data)
        time.sleep(0.01)


def call(number: int) -> None:
    arguments = {"message": f"call {number}"}
    params = {"name": "echo", "arguments": arguments}
    send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def truncating() -> None:
    length = waiting()
    forged = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": FORGED}]}})
    body = forged.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    buffer = bytearray((head.encode() + body).ljust(length, b" "))
    taken = wire.recv_into(buffer, length, socket.MSG_TRUNC)
    assert taken == length and FORGED.encode() in buffer


def mapping() -> None:
    length = waiting()
    copy = ctypes.create_string_buffer(1 << 16)
    option = ctypes.create_string_buffer(64)
    struct.pack_into("QIIIiQi", option, 0, 0, 0, 0, 0, 0, ctypes.addressof(copy), len(copy))
    size = ctypes.c_uint32(64)
    libc = ctypes.CDLL(None, use_errno=True)
    got = libc.getsockopt(wire.fileno(), socket.IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, option, ctypes.byref(size))
    assert got == 0, ctypes.get_errno()
    assert struct.unpack_from("i", option, 32)[0] == length


def error_queue() -> None:
    for _ in range(100):
        try:
            data = wire.recvmsg(1 << 16, 1 << 12, MSG_ERRQUEUE)[0]
        except BlockingIOError:
            time.sleep(0.01)
            continue
        assert b"POST /mcp" in data
        break
    else:
        raise AssertionError("no packet came back")
    receive()


send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {},
    "clientInfo": {"name": "odd-receiver", "version": "1"}}})
for line in receive().decode().split("\r\n"):
    if line.lower().startswith("mcp-session-id:"):
        session = f"Mcp-Session-Id: {line.split(':')[1].strip()}\r\n"
send({"jsonrpc": "2.0", "method": "notifications/initialized"})
receive()
if how == "error-queue":
    # Software times of sent packets.
    wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 2 | 16)
ways = {"truncating": truncating, "mapping": mapping, "error-queue": error_queue}
call(1)
ways[how]()
if how == "error-queue":
    wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)
for number in range(2, 6):
    call(number)
    receive()
print(4 if how in ("truncating", "mapping") else 5)

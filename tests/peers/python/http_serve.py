"""A server on the Python SDK over HTTP: http_serve.py PORT [sse|json|stateless]

It has the tool `echo`, and a plain page beside MCP's path. Where TLS_CERTIFICATE and TLS_KEY name files, it
speaks HTTPS. Where UNIX_SOCKET is a path, it listens there instead of on the port.
"""

import functools
import os
import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("http-echo")


@server.tool()
def echo(message: str, size: int = 0) -> str:
    """Gives back the message, and as many more letters as asked for."""
    return message + "x" * size


if certificate := os.environ.get("TLS_CERTIFICATE"):
    key = os.environ["TLS_KEY"]
    uvicorn.Config = functools.partial(uvicorn.Config, ssl_certfile=certificate, ssl_keyfile=key)
if path := os.environ.get("UNIX_SOCKET"):
    uvicorn.Config = functools.partial(uvicorn.Config, uds=path)
port, words = int(sys.argv[1]), sys.argv[2:]
if "sse" in words:
    server.run("sse", port=port)
else:
    server.run(
        "streamable-http",
        port=port,
        json_response="json" in words,
        stateless_http="stateless" in words,
    )

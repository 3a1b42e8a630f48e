"""A server on the Python SDK over HTTP: http_serve.py PORT [sse|json|stateless]

It has the tool `echo`, and a plain page beside MCP's path.
"""

import sys

from mcp.server import MCPServer

server = MCPServer("http-echo")


@server.tool()
def echo(message: str, size: int = 0) -> str:
    """Gives back the message, and as many more letters as asked for."""
    return message + "x" * size


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

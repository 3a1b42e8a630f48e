"""A server on the Python SDK with one tool, for the benchmarks."""

from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool()
def echo(message: str, size: int = 0) -> str:
    """Gives back the message."""
    return message


server.run("stdio")

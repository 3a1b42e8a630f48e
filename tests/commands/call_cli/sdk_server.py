"""A server of the Python SDK with something of everything, on the transport that its argument names.

Over HTTP it listens on a free port of this machine, and prints its URL.
"""
import socket
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import Completion
from pydantic import BaseModel, Field

server = MCPServer("something-of-everything")


class Person(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def where(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Says where."""
    return f"in {region}"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("out of cheese")


@server.tool()
async def tell(context: Context) -> str:
    """Says that its tools have changed, and how far it is."""
    await context.report_progress(1, 2)
    await context.notify_tools_changed()
    return "told"


@server.tool()
async def ask(context: Context) -> str:
    """Asks for a name."""
    answer = await context.elicit("Who?", Person)
    return answer.action


@server.resource("note://one")
def note() -> str:
    return "a note"


@server.resource("note://of/{name}")
def note_of(name: str) -> str:
    return f"a note of {name}"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


@server.completion()
async def complete(ref, argument, context):
    names = ["Ann", "Anton", "Bob"]
    return Completion(values=[name for name in names if name.startswith(argument.value)])


how = sys.argv[1]
if how == "stdio":
    server.run()
    sys.exit()
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
port = listening.getsockname()[1]
apps = {
    "stream": ("/mcp", lambda: server.streamable_http_app()),
    "json": ("/mcp", lambda: server.streamable_http_app(json_response=True)),
    "stateless": ("/mcp", lambda: server.streamable_http_app(stateless_http=True)),
    "sse": ("/sse", lambda: server.sse_app()),
}
path, app = apps[how]
app = app()
print(f"http://127.0.0.1:{port}{path}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])

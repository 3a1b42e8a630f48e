"""A client of the Python SDK: lists the tools of the server at a URL and calls some, on the transport that its
first argument names. Prints what came, as JSON."""
import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

transport, url = sys.argv[1:]


async def answer(context, params):
    return ElicitResult(action="decline")


async def call(session, name, arguments):
    try:
        result = await session.call_tool(name, arguments)
        return {"isError": result.is_error, "text": result.content[0].text}
    except Exception as error:
        return {"error": str(error)}


async def main():
    connect = sse_client if transport == "sse" else streamable_http_client
    async with connect(url) as streams:
        async with ClientSession(streams[0], streams[1], elicitation_callback=answer) as session:
            await session.initialize()
            found = {"tools": [tool.name for tool in (await session.list_tools()).tools]}
            found["add"] = await call(session, "add", {"a": 2, "b": 40})
            found["where"] = await call(session, "where", {"region": "hunter2"})
            found["fail"] = await call(session, "fail", {})
            found["tell"] = await call(session, "tell", {})
            found["ask"] = await call(session, "ask", {})
            print(json.dumps(found))


asyncio.run(main())

"""A client on the Python SDK's HTTP transports: http_client.py URL SIZES WORD…

It calls `echo` with as many letters as each size says: one call after the other, or all at once if a word
is `together`. `large` asks for answers that are larger by 8 MiB, `sse` is the transport of 2024-11-05, and
`linger` waits for the end of standard input before the session ends. Where UNIX_SOCKET is a path, it connects
to that.
"""

import functools
import os
import sys

import anyio
import httpx2
import wirelog
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


async def main():
    url, sizes, *words = sys.argv[1:]
    more = {"size": 8 << 20} if "large" in words else {}
    calls = [{"message": "m" * int(size), **more} for size in sizes.split(",")]
    connect = sse_client if "sse" in words else streamable_http_client
    if path := os.environ.get("UNIX_SOCKET"):
        transport = httpx2.AsyncHTTPTransport(uds=path)
        client = httpx2.AsyncClient(transport=transport, timeout=60)
        connect = functools.partial(connect, http_client=client)
    async with connect(url) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        await session.list_tools()
        if "together" in words:
            async with anyio.create_task_group() as group:
                for parameters in calls:
                    group.start_soon(session.call_tool, "echo", parameters)
        else:
            for parameters in calls:
                await session.call_tool("echo", parameters)
        if "linger" in words:
            print("ready", flush=True)
            await anyio.to_thread.run_sync(sys.stdin.read)


wirelog.http_client()
anyio.run(main)

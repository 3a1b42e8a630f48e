"""A client on the Python SDK: client.py CALLS SERVER ARGUMENT… where CALLS is a file with [[TOOL, ARGUMENTS], …]"""

import json
import os
import pathlib
import sys

import anyio
import wirelog
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    calls, command, *arguments = sys.argv[1:]
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ), cwd=os.getcwd())
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        await session.list_tools()
        for name, parameters in json.loads(pathlib.Path(calls).read_text()):
            await session.call_tool(name, parameters)
        await session.list_tools()


wirelog.client()
anyio.run(main)

"""Runs a Python MCP server with its wire logged: serve.py MODULE ARGUMENT…"""

import runpy
import sys

import wirelog

wirelog.server()
module = sys.argv[1]
sys.argv = sys.argv[1:]
runpy.run_module(module, run_name="__main__", alter_sys=True)

"""A server in a few lines. Its argument says how it behaves."""
import json, os, sys, threading, time
how = sys.argv[1]
if how == "dies":
    print("no configuration", file=sys.stderr)
    sys.exit(3)
modern = how == "modern"
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}, "b": {"type": "string"}}}
tools = [{"name": "show", "inputSchema": schema}, {"name": "ask", "inputSchema": {"type": "object"}},
         {"name": "crash", "inputSchema": {"type": "object"}}, {"name": "odd", "inputSchema": {"$ref": "https://example.org/x"}}]
waiting = None
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method is None and waiting is not None:
        say({"id": waiting, "result": {"content": [], "structuredContent": {k: message[k] for k in ("result", "error") if k in message}}})
        waiting = None
        continue
    if "id" not in message:
        continue
    answer = lambda result: say({"id": message["id"], "result": result})
    refuse = lambda code: say({"id": message["id"], "error": {"code": code, "message": "no\x1b[31m", "data": 7}})
    if method == "server/discover" and modern:
        answer({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}})
    elif method == "initialize" and not modern:
        answer({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "little"}})
    elif method == "tools/list":
        start = int(params.get("cursor", 0))
        answer({"tools": tools[start:start + 2], **({"nextCursor": "2"} if start == 0 else {})})
    elif method == "tools/call" and params["name"] == "show":
        say({"method": "notifications/message", "params": {"level": "warning", "logger": "little", "data": "shown"}})
        if "_meta" in params:
            say({"method": "notifications/progress", "params": {"progressToken": params["_meta"]["progressToken"], "progress": 1}})
        print("stray", flush=True)
        print("on stderr", file=sys.stderr, flush=True)
        answer({"content": [{"type": "text", "text": json.dumps(params["arguments"])}], "isError": params["arguments"].get("b") == "fail",
                "structuredContent": {"env": os.environ.get("CALLED"), **params["arguments"]}})
    elif method == "tools/call" and params["name"] == "ask" and modern:
        given = params.get("inputResponses")
        answer({"resultType": "complete", "content": [], "structuredContent": given} if given else
               {"resultType": "input_required", "requestState": "s", "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "Who?"}}}})
    elif method == "tools/call" and params["name"] == "ask":
        waiting = message["id"]
        say({"id": "q1", "method": "sampling/createMessage", "params": {"maxTokens": 1}})
    elif method == "tools/call" and params["name"] == "crash":
        print("out of cheese", file=sys.stderr, flush=True)
        os.abort()
    elif method == "subscriptions/listen":
        say({"method": "notifications/subscriptions/acknowledged", "params": {"notifications": params["notifications"]}})
        say({"method": "notifications/tools/list_changed"})
    elif method == "x/later":
        answer({})
        threading.Timer(0.2, say, [{"method": "notifications/tools/list_changed", "params": {"later": True}}]).start()
    elif method == "x/leave":
        answer({})
        threading.Timer(0.2, os._exit, [7]).start()
    elif method == "hang":
        time.sleep(600)
    else:
        refuse(-32601)

// A server of MCP over HTTPS without sessions, for Bun: bun_server.mjs PORT. It answers with JSON, and has the tool
// `echo`.
const { TLS_CERTIFICATE, TLS_KEY } = process.env;
const port = Number(process.argv[2]);
const echo = {
  name: 'echo',
  description: 'Returns the message.',
  inputSchema: { type: 'object', properties: { message: { type: 'string' } } },
};
const results = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'bun', version: '1' },
  }),
  'tools/list': () => ({ tools: [echo] }),
  'tools/call': ({ arguments: { message } }) => ({ content: [{ type: 'text', text: message }] }),
};

Bun.serve({
  port,
  hostname: '127.0.0.1',
  tls: { cert: Bun.file(TLS_CERTIFICATE), key: Bun.file(TLS_KEY) },
  async fetch(request) {
    const { id, method, params } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    return Response.json({ jsonrpc: '2.0', id, result: results[method](params) });
  },
});

// A server on the TypeScript SDK, for Node (with wirelog.cjs as a preload) and Bun.
import wirelog from './wirelog.cjs';

wirelog.logOwnStreamsByMethod?.();
const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
const { CallToolRequestSchema, ListToolsRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');

const server = new Server({ name: 'echo', version: '1.0.0' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: [{ name: 'echo', description: 'Gives back the message.', inputSchema: { type: 'object', properties: { message: { type: 'string' } } } }],
}));
server.setRequestHandler(CallToolRequestSchema, ({ params }) => ({ content: [{ type: 'text', text: params.arguments.message }] }));
await server.connect(new StdioServerTransport());

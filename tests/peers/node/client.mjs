// A client on the TypeScript SDK, for Node and Bun: client.mjs CALLS SERVER ARGUMENT…
// where CALLS is a file with [[TOOL, ARGUMENTS], …].
import { readFileSync } from 'node:fs';
import wirelog from './wirelog.cjs';

wirelog.logChildren();
const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');

const [calls, command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'typescript', version: '1.0.0' });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
await client.listTools();
for (const [name, parameters] of JSON.parse(readFileSync(calls, 'utf8'))) await client.callTool({ name, arguments: parameters });
await client.listTools();
await client.close();

// A client without an SDK on Bun's own process interface, which uses system calls that Node does not:
// bun-client.mjs CALLS SERVER ARGUMENT…
// where CALLS is a file with [[TOOL, ARGUMENTS], …].
import { readFileSync } from 'node:fs';
import wirelog from './wirelog.cjs';

const note = wirelog.wireLog('client');
const [calls, ...cmd] = process.argv.slice(2);
const server = Bun.spawn({ cmd, stdin: 'pipe', stdout: 'pipe', stderr: 'inherit', env: process.env });
const reader = server.stdout.getReader();
const decoder = new TextDecoder();
let pending = '';
let lastId = 0;

function send(message) {
  const line = JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n';
  note('sent', line, 'utf8');
  server.stdin.write(line);
  server.stdin.flush();
}

async function request(method, params) {
  const id = ++lastId;
  send({ id, method, params });
  for (;;) {
    let end;
    while ((end = pending.indexOf('\n')) >= 0) {
      const message = JSON.parse(pending.slice(0, end));
      pending = pending.slice(end + 1);
      if (message.id === id && !message.method) return message;
      if (message.id !== undefined && message.method) send({ id: message.id, result: {} });
    }
    const { value, done } = await reader.read();
    if (done) throw new Error(`the server is gone, ${method} unanswered`);
    note('received', Buffer.from(value));
    pending += decoder.decode(value, { stream: true });
  }
}

await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'bun', version: '1.0.0' } });
send({ method: 'notifications/initialized' });
await request('tools/list', {});
for (const [name, parameters] of JSON.parse(readFileSync(calls, 'utf8'))) await request('tools/call', { name, arguments: parameters });
server.stdin.end();
await server.exited;

// A client on the TypeScript SDK over HTTP and HTTPS: http_client.mjs URL SIZES. It calls `echo` with as many letters as
// each size says, one call after the other.
import wirelog from './wirelog.cjs';

const note = wirelog.wireLog('client');
const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');

// Notes the bodies of requests, the bodies of answers that are JSON, and the data of events.
async function loggedFetch(url, init) {
  if (init?.body) note('sent', init.body + '\n', 'utf8');
  const response = await fetch(url, init);
  const kind = response.headers.get('content-type') ?? '';
  if (!response.body || !/^(application\/json|text\/event-stream)/.test(kind)) return response;
  let rest = '';
  const decoder = new TextDecoder();
  const logged = new TransformStream({
    transform(chunk, out) {
      rest += decoder.decode(chunk, { stream: true });
      if (kind.startsWith('text/')) {
        const events = rest.split(/\r?\n\r?\n/);
        rest = events.pop();
        for (const event of events) {
          const data = event.split(/\r?\n/).filter((line) => line.startsWith('data: ') && line.length > 6);
          if (data.length) note('received', data.map((line) => line.slice(6)).join('\n') + '\n', 'utf8');
        }
      }
      out.enqueue(chunk);
    },
    flush() {
      if (!kind.startsWith('text/') && rest) note('received', rest + '\n', 'utf8');
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(logged), { status, statusText, headers });
}

const [url, sizes] = process.argv.slice(2);
const client = new Client({ name: 'typescript', version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: loggedFetch }));
await client.listTools();
for (const size of sizes.split(',')) {
  await client.callTool({ name: 'echo', arguments: { message: 'm'.repeat(Number(size)) } });
}
await client.close();

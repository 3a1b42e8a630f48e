// A server on Streamable HTTP that has what the public conformance suite asks servers for. It prints its URL.

import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

const text = (text) => ({ type: 'text', text });
const PIXEL =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const audio = { type: 'audio', data: 'UklGRiQAAABXQVZFZm10IA==', mimeType: 'audio/wav' };
const resource = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const form = (properties) => ({
    mode: 'form',
    message: 'Please fill this in',
    requestedSchema: { type: 'object', properties, required: [] },
});

const DEFAULTS = {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
};

const words = ['option1', 'option2', 'option3'];
const titled = words.map((word, at) => ({ const: word, title: `Title ${at + 1}` }));
const CHOICES = {
    untitledSingle: { type: 'string', enum: words },
    titledSingle: { type: 'string', oneOf: titled },
    legacyEnum: { type: 'string', enum: words, enumNames: ['One', 'Two', 'Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: words } },
    titledMulti: { type: 'array', items: { anyOf: titled } },
};

const SCHEMA = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
        address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } },
    },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
    additionalProperties: false,
};

// By name: what a tool answers, given its arguments and its session.
const TOOLS = {
    test_simple_text: () => [text('This is a simple text response for testing.')],
    test_image_content: () => [image],
    test_audio_content: () => [audio],
    test_embedded_resource: () => [resource('test://embedded-resource', 'text/plain', 'embedded')],
    test_multiple_content_types: () => [
        text('Several kinds:'),
        image,
        resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
    async test_tool_with_logging(_, { tell }) {
        for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
            await tell('notifications/message', { level: 'info', data });
            await pause(50);
        }
        return [text('logged')];
    },
    async test_tool_with_progress(_, { tell, progressToken }) {
        for (const progress of [0, 50, 100]) {
            await tell('notifications/progress', { progressToken, progress, total: 100 });
            await pause(50);
        }
        return [text(String(progressToken))];
    },
    test_error_handling() {
        throw new Error('This tool intentionally returns an error for testing');
    },
    async test_reconnection(_, { hangUp }) {
        hangUp();
        await pause(100);
        return [text('Reconnection test completed successfully.')];
    },
    async test_sampling({ prompt }, { ask }) {
        const messages = [{ role: 'user', content: text(prompt) }];
        const params = { messages, maxTokens: 100 };
        const answer = await ask('sampling/createMessage', params, types.CreateMessageResultSchema);
        return [text(`LLM response: ${answer.content.text}`)];
    },
    async test_elicitation({ message }, { elicit }) {
        const answer = await elicit({ ...form({ response: { type: 'string' } }), message });
        return [text(`User response: ${JSON.stringify(answer)}`)];
    },
    test_elicitation_sep1034_defaults: async (_, { elicit }) => [
        text(`Elicitation completed: ${JSON.stringify(await elicit(form(DEFAULTS)))}`),
    ],
    test_elicitation_sep1330_enums: async (_, { elicit }) => [
        text(`Elicitation completed: ${JSON.stringify(await elicit(form(CHOICES)))}`),
    ],
    json_schema_2020_12_tool: (given) => [text(JSON.stringify(given))],
};

const RESOURCES = {
    'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
    'test://static-binary': { mimeType: 'image/png', blob: PIXEL },
    'test://watched-resource': { mimeType: 'text/plain', text: 'watched' },
};

const say = (...content) => content.map((content) => ({ role: 'user', content }));
const PROMPTS = {
    test_simple_prompt: [[], () => say(text('This is a simple prompt for testing.'))],
    test_prompt_with_arguments: [
        ['arg1', 'arg2'],
        ({ arg1, arg2 }) => say(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
    ],
    test_prompt_with_embedded_resource: [
        ['resourceUri'],
        ({ resourceUri }) => say(resource(resourceUri, 'text/plain', 'embedded'), text('Please use it.')),
    ],
    test_prompt_with_image: [[], () => say(image, text('What is in this picture?'))],
};

// What was sent on each stream, so that a client that was cut off gets the rest.
function memory() {
    const events = [];
    return {
        async storeEvent(stream, message) {
            events.push({ stream, message });
            return `${events.length}`;
        },
        async replayEventsAfter(last, { send }) {
            const stream = events[Number(last) - 1]?.stream;
            for (let at = Number(last); at < events.length; at += 1) {
                const { stream: its, message } = events[at];
                if (its === stream && Object.keys(message).length > 0) {
                    await send(`${at + 1}`, message);
                }
            }
            return stream;
        },
    };
}

function session(transport) {
    const capabilities = {
        tools: {},
        resources: { subscribe: true },
        prompts: {},
        logging: {},
        completions: {},
    };
    const server = new Server({ name: 'everything-asked', version: '1' }, { capabilities });
    const on = (schema, answer) => server.setRequestHandler(schema, answer);
    on(types.ListToolsRequestSchema, () => ({
        tools: Object.keys(TOOLS).map((name) => {
            const inputSchema = name === 'json_schema_2020_12_tool' ? SCHEMA : { type: 'object' };
            return { name, description: name, inputSchema };
        }),
    }));
    on(types.CallToolRequestSchema, async ({ params }, extra) => {
        const ask = (method, params, schema) => extra.sendRequest({ method, params }, schema);
        const its = {
            ask,
            elicit: (params) => ask('elicitation/create', params, types.ElicitResultSchema),
            tell: (method, params) => extra.sendNotification({ method, params }),
            progressToken: params._meta?.progressToken ?? 0,
            hangUp: () => extra.closeSSEStream?.(),
        };
        try {
            return { content: await TOOLS[params.name](params.arguments ?? {}, its) };
        } catch (error) {
            return { content: [text(error.message)], isError: true };
        }
    });
    on(types.ListResourcesRequestSchema, () => ({
        resources: Object.entries(RESOURCES).map(([uri, { mimeType }]) => ({ uri, name: uri, mimeType })),
    }));
    on(types.ListResourceTemplatesRequestSchema, () => ({
        resourceTemplates: [
            { uriTemplate: 'test://template/{id}/data', name: 'data', mimeType: 'application/json' },
        ],
    }));
    on(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
        const id = /^test:\/\/template\/(.*)\/data$/.exec(uri)?.[1];
        const made = { mimeType: 'application/json', text: JSON.stringify({ id, data: `Data for ${id}` }) };
        return { contents: [{ uri, ...(id === undefined ? RESOURCES[uri] : made) }] };
    });
    on(types.SubscribeRequestSchema, () => ({}));
    on(types.UnsubscribeRequestSchema, () => ({}));
    on(types.SetLevelRequestSchema, () => ({}));
    on(types.ListPromptsRequestSchema, () => ({
        prompts: Object.entries(PROMPTS).map(([name, [names]]) => ({
            name,
            description: name,
            arguments: names.map((name) => ({ name, required: true })),
        })),
    }));
    on(types.GetPromptRequestSchema, ({ params }) => ({
        messages: PROMPTS[params.name][1](params.arguments ?? {}),
    }));
    on(types.CompleteRequestSchema, () => ({
        completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false },
    }));
    return server.connect(transport);
}

const transports = new Map();

async function answer(request, response) {
    let transport = transports.get(request.headers['mcp-session-id']);
    if (!transport) {
        transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            eventStore: memory(),
            retryInterval: 500,
            enableDnsRebindingProtection: true,
            allowedHosts: ['127.0.0.1', 'localhost'].map((host) => `${host}:${listener.address().port}`),
            onsessioninitialized: (id) => transports.set(id, transport),
        });
        await session(transport);
    }
    await transport.handleRequest(request, response);
}

const listener = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
});
listener.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));

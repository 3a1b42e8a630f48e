// The JavaScript peers' own account of the wire; same format as the Rust one (`wirelog.rs`).
//
// As a preload (`node --require`) it notes what this process reads on descriptor 0 and writes on
// descriptor 1. `logChildren()` notes what it exchanges with the processes that it spawns.
'use strict';
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const TEXT_LIMIT = 2048;

function wireLog(role) {
  const directory = process.env.WIRE_LOG_DIR;
  if (!directory) return () => {};
  const file = path.join(directory, `${role}-${process.pid}.jsonl`);
  const rest = { sent: Buffer.alloc(0), received: Buffer.alloc(0) };
  return (way, chunk, encoding) => {
    if (typeof chunk === 'string') chunk = Buffer.from(chunk, encoding);
    let all = Buffer.concat([rest[way], chunk]);
    for (let end; (end = all.indexOf(10)) >= 0; all = all.subarray(end + 1)) {
      const line = all.subarray(0, end);
      const text = line.length <= TEXT_LIMIT && Buffer.from(line.toString()).equals(line) ? line.toString() : null;
      const sha256 = crypto.createHash('sha256').update(line).digest('hex');
      fs.appendFileSync(file, JSON.stringify({ way, bytes: line.length, sha256, text }) + '\n');
    }
    rest[way] = all;
  };
}

function encodingOf(argument) {
  return typeof argument === 'string' ? argument : 'utf8';
}

function logOwnStreams() {
  const { Readable, Writable, Duplex } = require('node:stream');
  const note = wireLog('server');
  const push = Readable.prototype.push;
  Readable.prototype.push = function (chunk, encoding) {
    if (this.fd === 0 && chunk) note('received', chunk, encodingOf(encoding));
    return push.call(this, chunk, encoding);
  };
  for (const { prototype } of [Writable, Duplex]) {
    const write = prototype.write;
    prototype.write = function (chunk, encoding, done) {
      if (this.fd === 1 && chunk) note('sent', chunk, encodingOf(encoding));
      return write.call(this, chunk, encoding, done);
    };
  }
}

// Bun's standard streams are not Node's, but have the same methods.
function logOwnStreamsByMethod() {
  const note = wireLog('server');
  const { stdin, stdout } = process;
  const on = stdin.on.bind(stdin);
  stdin.on = (event, listener) =>
    on(event, event !== 'data' ? listener : (chunk) => { note('received', chunk, 'utf8'); listener(chunk); });
  const write = stdout.write.bind(stdout);
  stdout.write = (chunk, ...others) => { note('sent', chunk, encodingOf(others[0])); return write(chunk, ...others); };
}

function logChildren() {
  const childProcess = require('node:child_process');
  const note = wireLog('client');
  const spawn = childProcess.spawn;
  childProcess.spawn = function (...command) {
    const child = spawn.apply(this, command);
    const write = child.stdin.write.bind(child.stdin);
    child.stdin.write = (chunk, ...others) => {
      note('sent', chunk, encodingOf(others[0]));
      return write(chunk, ...others);
    };
    child.stdout.on('data', (chunk) => note('received', chunk, 'utf8'));
    return child;
  };
  require('node:module').syncBuiltinESMExports();
}

module.exports = { wireLog, logChildren };
if (module.parent?.id === 'internal/preload') logOwnStreams();
else if (process.versions.bun) module.exports.logOwnStreamsByMethod = logOwnStreamsByMethod;

// A preload: servers of plain HTTP speak HTTPS with the test's certificate.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');

const options = {
  cert: fs.readFileSync(process.env.TLS_CERTIFICATE),
  key: fs.readFileSync(process.env.TLS_KEY),
};
http.createServer = (...rest) => https.createServer(options, ...rest.filter((one) => typeof one === 'function'));

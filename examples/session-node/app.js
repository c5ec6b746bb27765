// A whole app over a session: it is handed tasks by the sidecar beside it and returns what became of them.
//
//   npm install
//   sched-sidecar run --app-protocol grpc --app-listen unix:///tmp/sched.sock -- node app.js
'use strict';

const crypto = require('node:crypto');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const proto = process.env.SCHED_PROTO || path.join(__dirname, '../../proto');
const definition = loader.loadSync('sched/worker/v1/worker.proto', { includeDirs: [proto], keepCase: true, longs: String, enums: String, defaults: true });
const { WorkerService } = grpc.loadPackageDefinition(definition).sched.worker.v1;

const instance = crypto.randomUUID(); // the same for as long as this process lives
const running = new Map(); // lease -> task
let unsent = []; // results that wait for a session

// What the app is about: a function for each kind. It returns the output, or throws.
const handlers = {
  async hello(args) {
    return { greeting: `Hello, ${args.name || 'world'}!` };
  },
};

async function work(task, send) {
  running.set(task.lease, task);
  const result = { task_id: task.id, lease: task.lease, outcome: 'OUTCOME_COMPLETE' };
  try {
    const output = await handlers[task.kind](JSON.parse(task.args.toString()));
    if (output !== undefined) result.output = Buffer.from(JSON.stringify(output));
  } catch (err) {
    result.outcome = 'OUTCOME_RETRY';
    result.error = String(err.stack || err);
  }
  if (!running.delete(task.lease)) return; // it was cancelled meanwhile
  unsent.push(result);
  send();
}

function session() {
  const client = new WorkerService(process.env.SCHED_TARGET, grpc.credentials.createInsecure());
  const stream = client.Session();
  let open = false;
  let beat;
  const send = () => {
    if (!open || unsent.length === 0) return;
    stream.write({ results: { results: unsent } });
    unsent = [];
  };
  stream.on('data', (response) => {
    if (response.welcome) {
      open = true;
      for (const lost of response.welcome.lost) running.delete(lost.lease);
      beat = setInterval(() => stream.write({ heartbeat: { in_flight: running.size, load_percent: -1 } }), response.welcome.heartbeat_ms);
      send();
    }
    if (response.tasks) for (const task of response.tasks.tasks) work(task, () => current && current());
    if (response.cancel) running.delete(response.cancel.lease);
  });
  stream.on('error', (err) => console.error(`session: ${err.message}`));
  stream.on('close', () => {
    open = false;
    clearInterval(beat);
    client.close();
    if (!stopping) setTimeout(session, 200 + Math.random() * 300); // the sidecar may be restarting
  });
  stream.write({
    hello: {
      instance_id: instance,
      window: 100,
      kinds: Object.keys(handlers),
      in_flight: [...running.values(), ...unsent.map((r) => ({ id: r.task_id, lease: r.lease }))].map((t) => ({ task_id: t.id, lease: t.lease })),
    },
  });
  current = send;
  goodbye = () => {
    stream.write({ goodbye: { reason: 'the app stops' } });
    const wait = setInterval(() => {
      if (running.size > 0 || unsent.length > 0) return;
      clearInterval(wait);
      stream.end();
    }, 20);
  };
}

let current;
let goodbye;
let stopping = false;
process.on('SIGTERM', () => {
  stopping = true;
  goodbye();
});
session();

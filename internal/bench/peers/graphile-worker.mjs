// graphile-worker with tasks that do nothing: `fill N`, then `work`. The database
// is that of the PG* variables.
import { Logger, WorkerPreset, makeWorkerUtils, run } from "graphile-worker";
import { Recorder, groups, main } from "./recorder.mjs";

const task = "bench.noop";
const setting = (name) => Number(process.env[name]);
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") console.error(message);
});
const preset = {
  extends: [WorkerPreset],
  worker: {
    connectionString: undefined,
    maxPoolSize: setting("BENCH_POOL"),
    concurrentJobs: setting("BENCH_CONCURRENT"),
    localQueue: { size: setting("BENCH_BATCH") },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger,
  },
};

await main({
  async fill(n) {
    const utils = await makeWorkerUtils({ preset });
    await utils.migrate();
    for (const numbers of groups(n, 10000)) {
      await utils.addJobs(numbers.map((n) => ({ identifier: task, payload: { n } })));
    }
    await utils.release();
  },
  async work() {
    const recorder = new Recorder();
    const runner = await run({
      preset,
      noHandleSignals: true,
      parsedCronItems: [],
      taskList: { [task]: (_payload, { job }) => recorder.record(job.attempts > 1, job.locked_at) },
    });
    await recorder.serve(() => runner.stop());
  },
});

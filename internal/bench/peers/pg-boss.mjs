// pg-boss with tasks that do nothing: `fill N`, then `work`. The database is that
// of the PG* variables.
import PgBoss from "pg-boss";
import { Recorder, groups, main } from "./recorder.mjs";

const queue = "bench.noop";
const setting = (name) => Number(process.env[name]);
const boss = new PgBoss({ max: setting("BENCH_POOL") });
boss.on("error", (error) => console.error(error));
await boss.start();

await main({
  async fill(n) {
    await boss.createQueue(queue);
    for (const numbers of groups(n, 10000)) {
      await boss.insert(numbers.map((n) => ({ name: queue, data: { n } })));
    }
    await boss.stop({ graceful: false });
  },
  async work() {
    const recorder = new Recorder();
    const options = { batchSize: setting("BENCH_BATCH"), pollingIntervalSeconds: 0.5, priority: false };
    for (let i = 0; i < setting("BENCH_CONCURRENT"); i++) {
      const id = await boss.work(queue, options, async (jobs) => {
        for (const _ of jobs) recorder.record();
        boss.notifyWorker(id); // where there was a batch there is likely another: no wait for the next poll
      });
    }
    await recorder.serve(() => boss.stop({ graceful: false }));
  },
});

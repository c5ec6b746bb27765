// Counts the tasks that start in this process, for the bench process to ask: the
// same addresses as those of recorder.go, and what only the library's own rows tell.
import { createServer } from "node:http";

export class Recorder {
  #starts = 0;
  #again = 0;
  #first = Infinity; // milliseconds since 1970
  #target = Infinity;
  #reached = () => {};

  /** A task starts: whether it did before, and when it was claimed, as the database says. */
  record(again = false, claimed = undefined) {
    this.#starts++;
    if (again) this.#again++;
    if (claimed < this.#first) this.#first = +claimed;
    if (this.#starts >= this.#target) this.#reached();
  }

  /** Listens until the bench process is gone or asks for the end. */
  async serve(stop) {
    const server = createServer(async (request, response) => {
      const url = new URL(request.url, "http://bench");
      if (url.pathname === "/bench/claims") {
        response.end(JSON.stringify({ starts: this.#starts, again: this.#again, first_ms: this.#first }));
        return;
      }
      const n = Number(url.searchParams.get("n"));
      if (this.#starts < n) {
        this.#target = n;
        await new Promise((resolve) => (this.#reached = resolve));
      }
      response.end(`${this.#starts}\n`);
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    console.log(JSON.stringify({ addr: `127.0.0.1:${server.address().port}` }));
    await new Promise((resolve) => {
      process.once("SIGTERM", resolve).once("SIGINT", resolve);
      process.stdin.once("end", resolve).resume();
    });
    await stop();
    process.exit(0);
  }
}

/** The numbers 1..n in groups of a size. */
export function* groups(n, size) {
  for (let from = 1; from <= n; from += size) {
    yield Array.from({ length: Math.min(size, n - from + 1) }, (_, i) => from + i);
  }
}

/** Runs `fill N` or `work`. */
export function main({ fill, work }) {
  const [command, n] = process.argv.slice(2);
  return command === "fill" ? fill(Number(n)) : work();
}

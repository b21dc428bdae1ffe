// Declaring and running tests, and what both clients' tests share.

import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";

export const BOOTSTRAP = process.env.HULD_BOOTSTRAP ?? "127.0.0.1:9092";
export const START_MS = 1_700_000_000_000;
export const MAX_MESSAGE_BYTES = 1_048_588; // The broker's default.
export const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"];
const TEST_LIMIT_MS = 30_000;
const WAIT_LIMIT_MS = 10_000;

// The modules are in the cache folder, where an import does not look.
export const require = createRequire(`${process.env.HULD_CACHE}/node/`);

const tests = [];

export const test = (name, run) => tests.push({ name, run });
export const topicName = () => `it-${randomBytes(6).toString("hex")}`;
export const range = (start, end) => Array.from({ length: end - start }, (_, index) => start + index);

export function check(holds, what) {
  if (!holds) throw new Error(what);
}

export function equal(actual, expected, what = "value") {
  if (isDeepStrictEqual(actual, expected)) return;
  const shorten = value => JSON.stringify(value, (_, part) => (typeof part === "bigint" ? `${part}n` : part))?.slice(0, 200);
  throw new Error(`${what}: ${shorten(actual)} instead of ${shorten(expected)}`);
}

// Checks what a change that was answered has brought about. On huld it must hold at once; Kafka's broker hears of it from
// its controller a moment after the answer, so there one may look again.
export async function settled(look, expected, what) {
  const end = performance.now() + 5000;
  while (process.env.HULD_TARGET !== "huld" && !isDeepStrictEqual(await look(), expected) && performance.now() < end) {
    await sleep(20);
  }
  equal(await look(), expected, what);
}

// Not before the max wait (clocks may round one millisecond away), and at most 400 ms later.
export function checkLongPoll(elapsedMs, maxWaitMs) {
  check(elapsedMs >= maxWaitMs - 1, `answered after ${elapsedMs} ms, before ${maxWaitMs}`);
  check(elapsedMs <= maxWaitMs + 400, `answered after ${elapsedMs} ms, long after ${maxWaitMs}`);
}

export async function fails(work, matches, what) {
  try {
    await work();
  } catch (error) {
    check(matches(error), `${what} failed with ${error.name}: ${error.message}`);
    return;
  }
  throw new Error(`${what} succeeded`);
}

// Things that a client's callbacks change, and those who wait for them.
export class Watched {
  #waiting = new Set();

  changed() {
    for (const look of this.#waiting) look();
  }

  async until(what, holds) {
    if (holds(this)) return;
    let look;
    const done = new Promise(resolve => {
      look = () => holds(this) && resolve(true);
      this.#waiting.add(look);
    });
    const inTime = await Promise.race([done, sleep(WAIT_LIMIT_MS, false, { ref: false })]);
    this.#waiting.delete(look);
    check(inTime, `${what}: not within ${WAIT_LIMIT_MS} ms`);
  }
}

// Undoes, last first, what a test has set up.
export class Cleanup {
  #work = [];

  add(work) {
    this.#work.push(work);
  }

  async run() {
    for (const work of this.#work.reverse()) await work();
  }
}

export async function main() {
  const filter = process.argv[2] ?? "";
  let failures = 0;
  for (const { name, run } of tests.filter(each => each.name.includes(filter))) {
    const began = performance.now();
    const cleanup = new Cleanup();
    try {
      const timeIsUp = sleep(TEST_LIMIT_MS, undefined, { ref: false }).then(() => check(false, "the test's time is up"));
      await Promise.race([run(cleanup).finally(() => cleanup.run()), timeIsUp]);
      console.log(`ok ${name}`);
    } catch (error) {
      failures += 1;
      console.error(error);
      console.log(`not ok ${name}: ${String(error.message).replace(/\s+/g, " ")}`);
    }
    console.error(`  ${name} took ${((performance.now() - began) / 1000).toFixed(2)} s`);
  }
  process.exit(failures ? 1 : 0);
}

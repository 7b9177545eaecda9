// Runs the tests of players: `run.mjs FILE…`. Two cores cannot always run four players in real
// time, so a few tests that fail are run again, each alone. Those that then pass are named in the
// output and in the file that `LATEMUX_SKIPPED` names, because each of them is a bug to find. A
// test that fails twice has failed.

import { appendFile } from "node:fs/promises";
import { resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

/** If more tests than these fail, the product is broken, and none is run again. */
const MOST_RUN_AGAIN = 3;

/** Runs tests and prints their results. Returns the failed ones, and how many passed. */
async function results(options, output) {
  const failed = [];
  let passed = 0;
  const events = run({ concurrency: 1, ...options });
  const isSuite = ({ details }) => details?.type === "suite";
  events.on("test:fail", (test) => {
    if (!isSuite(test) || test.details.error?.failureType !== "subtestsFailed") failed.push(test);
  });
  events.on("test:pass", (test) => {
    const skipped = test.skip !== undefined || test.todo !== undefined;
    if (!isSuite(test) && !skipped) passed += 1;
  });
  const reporter = new spec();
  events.pipe(reporter).pipe(output, { end: false });
  await new Promise((done) => reporter.on("end", done));
  return { failed, passed };
}

const escaped = (name) => name.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");

/** Returns true if a test that failed passes when it is run alone. */
async function passesAlone({ file, name }, output) {
  const { failed, passed } = await results({ files: [file], testNamePatterns: [new RegExp(`^${escaped(name)}$`)] }, output);
  return failed.length === 0 && passed > 0;
}

/**
 * Runs the test files. Returns true if all tests passed in the end, and the names of those that
 * passed only when run again.
 */
export async function runTests(files, output = process.stdout) {
  const { failed, passed } = await results({ files }, output);
  if (failed.length === 0) return { passed: passed > 0, again: [] };
  if (failed.length > MOST_RUN_AGAIN) return { passed: false, again: [] };
  const again = [];
  for (const test of failed) {
    output.write(`\nThis test failed, and is run again alone: ${test.name}\n`);
    if (!(await passesAlone(test, output))) return { passed: false, again };
    again.push(test.name);
  }
  return { passed: true, again };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { passed, again } = await runTests(process.argv.slice(2).map((file) => resolve(file)));
  for (const name of again) {
    const line = `e2e: failed once, and passed when run again alone: ${name}\n`;
    process.stdout.write(line);
    if (process.env.LATEMUX_SKIPPED) await appendFile(process.env.LATEMUX_SKIPPED, line);
  }
  process.exitCode = passed ? 0 : 1;
}

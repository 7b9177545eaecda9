import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../e2e/run.mjs", import.meta.url));

/** Runs a file of tests. Returns whether the run passed, and what it writes to the summary. */
async function runText(text) {
  const folder = await mkdtemp(join(tmpdir(), "latemux-run-"));
  try {
    const file = join(folder, "a.test.mjs");
    const head = `import { describe, it } from "node:test";
      import { existsSync, writeFileSync } from "node:fs";
      const failsOnce = (name) => { const file = ${JSON.stringify(folder)} + "/" + name;
        if (!existsSync(file)) { writeFileSync(file, ""); throw new Error("once"); } };`;
    await writeFile(file, head + text);
    const summary = join(folder, "summary.txt");
    await writeFile(summary, "");
    // A test runner within a test would run nothing.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { status } = spawnSync(process.execPath, [program, file], { env: { ...env, LATEMUX_SKIPPED: summary } });
    return { passed: status === 0, summary: await readFile(summary, "utf8") };
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("tests that pass are not run again", async () => {
  assert.deepEqual(await runText(`describe("all", () => { it("one", () => {}); });`), { passed: true, summary: "" });
});

test("a test that fails once is run again, and named", async () => {
  const found = await runText(`describe("all", () => {
    it("two (2) [x] a+b/c", () => failsOnce("a")); it("two", () => {}); });`);
  assert.deepEqual(found, { passed: true, summary: "e2e: failed once, and passed when run again alone: two (2) [x] a+b/c\n" });
});

test("a test that fails twice has failed", async () => {
  const found = await runText(`describe("all", () => { it("one", () => { throw new Error("always"); }); it("two", () => {}); });`);
  assert.equal(found.passed, false);
});

test("a test outside a suite, a hook that fails and a file that cannot be loaded fail", async () => {
  assert.equal((await runText(`it("one", () => { throw new Error("always"); });`)).passed, false);
  const hook = `import { before } from "node:test";
    describe("all", () => { before(() => { throw new Error("hook"); }); it("one", () => {}); });`;
  assert.equal((await runText(hook)).passed, false);
  assert.equal((await runText(`throw new Error("load");`)).passed, false);
  // Then no name says what to run again.
  assert.equal((await runText(`failsOnce("a"); it("one", () => {});`)).passed, false);
});

test("with many failures, nothing is run again", async () => {
  const many = [1, 2, 3, 4].map((n) => `it("t${n}", () => failsOnce("${n}"));`).join("");
  assert.deepEqual(await runText(`describe("all", () => { ${many} });`), { passed: false, summary: "" });
});

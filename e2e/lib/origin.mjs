// Starts a latemux process for a test, on a port that the system selects.

import { spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { run } from "./tools.mjs";

const repository = fileURLToPath(new URL("../..", import.meta.url));
const START_MS = 20_000;

/** Returns the path in LATEMUX_BIN, or else that of the binary built last. */
export function binary() {
  if (process.env.LATEMUX_BIN) return process.env.LATEMUX_BIN;
  const target = process.env.CARGO_TARGET_DIR ?? join(repository, "target");
  const built = ["debug", "release"].map((profile) => join(target, profile, "latemux")).filter(existsSync);
  if (built.length === 0) throw new Error("no latemux binary: `make build`, or name one in LATEMUX_BIN");
  return built.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0];
}

/** Runs latemux to its end; resolves to its output and rejects if it fails. */
export const runLatemux = (...arguments_) => run(binary(), ...arguments_);

/** Starts the origin. Resolves when it has printed the URL of its page. */
export const startOrigin = ({ library = join(repository, "samples/library") } = {}) =>
  startLatemux(["serve", library, "--listen", "127.0.0.1:0"]);

/** Starts latemux with `arguments_`. Resolves when it has printed a URL of this machine. */
export async function startLatemux(arguments_) {
  const child = spawn(binary(), arguments_, { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  let said = "";
  child.stderr.on("data", (text) => (log += text));
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));

  const address = await new Promise((resolve, reject) => {
    const give = (error) => reject(new Error(`latemux did not start: ${error}\n${log}`));
    const timer = setTimeout(() => give(`no address after ${START_MS} ms`), START_MS);
    child.once("error", give);
    child.once("exit", (code, signal) => give(`ended with ${code ?? signal}`));
    createInterface({ input: child.stdout }).on("line", (line) => {
      said += `${line}\n`;
      const found = line.match(/http:\/\/127\.0\.0\.1:\d+\//);
      if (!found) return;
      clearTimeout(timer);
      resolve(found[0]);
    });
  });

  return {
    /** URL of its page, which ends with a slash. */
    address,
    /** Returns its standard error so far. */
    log: () => log,
    /** Returns its standard output so far. */
    said: () => said,
    /** Resolves to its exit code when it ends. */
    ended,
    async stop(signal = "SIGINT") {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      const timer = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await ended;
      clearTimeout(timer);
    },
  };
}

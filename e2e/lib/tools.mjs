// Runs the programs that tests need besides the browser.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

const execute = promisify(execFile);
const RUN_MS = 120_000;
const BUFFER = 64 << 20;

/** Runs a program to its end. Resolves to its output; rejects if it fails. */
export const run = (program, ...args) => execute(program, args, { timeout: RUN_MS, maxBuffer: BUFFER });

/** Returns false if a program runs, or else the reason for skipping the tests that need it. */
export async function missing(program, ...args) {
  try {
    await run(program, ...args);
    return false;
  } catch {
    return `${[program, ...args].join(" ")} does not run: \`make tools\` installs it`;
  }
}

/** Returns the MD5 of every packet in a file's streams of a kind (`v`, `a`), by ffprobe. */
export async function packets(file, kind) {
  const { stdout } = await run(
    "ffprobe",
    ...["-v", "error", "-select_streams", kind, "-show_packets", "-show_data_hash", "md5"],
    ...["-show_entries", "packet=data_hash", "-of", "csv=p=0", file],
  );
  // Lines may also contain side data.
  return stdout.match(/MD5:\w+/g);
}

// Programs that tests run beside the browser.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

const execute = promisify(execFile);
const RUN_MS = 120_000;
const BUFFER = 64 << 20;

/** Runs a program to its end; resolves to what it wrote, rejects where it fails. */
export const run = (program, ...args) => execute(program, args, { timeout: RUN_MS, maxBuffer: BUFFER });

/** Whether a program runs at all. Where it does not, tests that need it are skipped with this said: `make tools`. */
export async function missing(program, ...args) {
  try {
    await run(program, ...args);
    return false;
  } catch {
    return `${[program, ...args].join(" ")} does not run: \`make tools\` installs it`;
  }
}

/** MD5 of every packet of a file's streams of a kind (`v`, `a`), by ffprobe. */
export async function packets(file, kind) {
  const { stdout } = await run(
    "ffprobe",
    ...["-v", "error", "-select_streams", kind, "-show_packets", "-show_data_hash", "md5"],
    ...["-show_entries", "packet=data_hash", "-of", "csv=p=0", file],
  );
  // Lines may name side data too.
  return stdout.match(/MD5:\w+/g);
}

// Sizes and names of source files.

/** Lines of a source file without its tests: a longer file is questioned, or refused. */
const LINES_ASKED = 600;
const LINES_REFUSED = 800;

export const isTest = (path) =>
  /(^|\/)(tests?|benches|fuzz|e2e)\/|(_tests?|\/tests?)\.rs$|\.test\.mjs$/.test(path);

/** Refuses source files that are too long. @param {File[]} files */
export function sizes(files) {
  const complaints = [];
  for (const { path, text } of files) {
    if (!/\.(rs|ts|mjs|css|sh)$/.test(path) || isTest(path)) continue;
    const [code] = text.split(/^#\[cfg\(test\)\]\nmod /m);
    const lines = code.split("\n").length - 1;
    if (lines > LINES_REFUSED) complaints.push(`${path}:1: ${lines} lines without tests, more than ${LINES_REFUSED}`);
    else if (lines > LINES_ASKED) console.log(`tidy: ${path} has ${lines} lines without tests: can it be split?`);
  }
  return complaints;
}

/** Refuses names that do not tell what a file or module holds. @param {File[]} files */
export function names(files) {
  const empty = /(^|\/)(utils?|common|helpers?|misc|types|stuff|shared)(\.(rs|ts|mjs)|\/)/;
  const complaints = files
    .filter(({ path }) => empty.test(path))
    .map(({ path }) => `${path}:1: the name does not tell what the file holds`);
  for (const { path, text } of files) {
    if (!path.endsWith(".rs")) continue;
    for (const [place, line] of text.split("\n").entries()) {
      const module = line.match(/^\s*(?:pub(?:\([a-z]+\))? )?mod (utils?|common|helpers?|misc|types|stuff|shared)\b/);
      if (module) complaints.push(`${path}:${place + 1}: the name of module ${module[1]} does not tell what it holds`);
    }
  }
  return complaints;
}

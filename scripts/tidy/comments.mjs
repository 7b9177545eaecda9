// Comments in source files: their width, and how doc comments begin.

const MOST_COLUMNS = 100;
/**
 * Words that a doc comment does not begin with, and the share of a crate's doc comments that may.
 */
const OPENERS = /^(What|Which|Whether|How|That|So)\b/;
const MOST_OPENERS = 0.01;
/** An `# Errors` section of fewer words does not tell which error has which cause. */
const LEAST_WORDS = 4;

const COMMENT_LINE = { rs: /^\s*\/\//, ts: /^\s*(\/\/|\/\*|\*)/, mjs: /^\s*(\/\/|\/\*|\*)/, sh: /^\s*#/ };

/**
 * Refuses comment lines that are too long. One long word, such as a URL, may exceed the limit.
 * @param {File[]} files
 */
export function commentWidths(files) {
  const complaints = [];
  for (const { path, text } of files) {
    const pattern = COMMENT_LINE[path.match(/\.(\w+)$/)?.[1]];
    if (pattern === undefined) continue;
    for (const [place, line] of text.split("\n").entries()) {
      const columns = [...line].length;
      if (columns <= MOST_COLUMNS || !pattern.test(line) || line.trim().split(/\s+/).length <= 2) continue;
      complaints.push(`${path}:${place + 1}: a comment of ${columns} columns, more than ${MOST_COLUMNS}`);
    }
  }
  return complaints;
}

/**
 * Yields the doc comments of a Rust file: the number of the first line, and the lines without their
 * slashes.
 */
export function* docComments(text) {
  let lines = [];
  let first = 0;
  for (const [place, line] of `${text}\n`.split("\n").entries()) {
    const content = line.match(/^\s*\/\/[/!](?!\/)\s?(.*)$/)?.[1];
    if (content !== undefined) {
      if (lines.length === 0) first = place + 1;
      lines.push(content);
    } else if (lines.length > 0) {
      yield { first, lines };
      lines = [];
    }
  }
}

/**
 * Refuses doc comments of a crate that begin with a question word, if they are too many.
 * @param {File[]} files
 */
export function docOpeners(files) {
  const crates = new Map();
  for (const { path, text } of files) {
    const crate = path.match(/^crates\/([^/]+)\/.*\.rs$/)?.[1];
    if (crate === undefined) continue;
    if (!crates.has(crate)) crates.set(crate, { count: 0, found: [] });
    const counted = crates.get(crate);
    for (const { first, lines } of docComments(text)) {
      counted.count += 1;
      const opener = lines[0].match(OPENERS)?.[1];
      if (opener) counted.found.push(`${path}:${first}: a doc comment begins with "${opener}"`);
    }
  }
  return [...crates.values()].flatMap(({ count, found }) => (found.length > count * MOST_OPENERS ? found : []));
}

/** Refuses `# Errors` sections that are too short to tell anything. @param {File[]} files */
export function errorSections(files) {
  const complaints = [];
  for (const { path, text } of files) {
    if (!path.endsWith(".rs")) continue;
    for (const { first, lines } of docComments(text)) {
      const start = lines.findIndex((line) => /^# Errors\s*$/.test(line));
      if (start === -1) continue;
      const section = lines.slice(start + 1);
      const end = section.findIndex((line) => line.startsWith("#"));
      const words = section.slice(0, end === -1 ? section.length : end).join(" ").split(/\s+/).filter(Boolean);
      if (words.length < LEAST_WORDS) {
        complaints.push(`${path}:${first + start}: "# Errors" does not tell which error has which cause`);
      }
    }
  }
  return complaints;
}

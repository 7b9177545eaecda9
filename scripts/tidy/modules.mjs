// Reads which modules of a Rust crate use which, as far as paths in its source tell.

/**
 * @typedef {{path: string, line: number, from: string[], to: string[]}} Use One use of another
 * module: the file and line, and the two modules' paths below the crate's root. The root itself is
 * an empty path.
 */

/** Returns the module that a file below `src/` holds. */
export function moduleOf(path) {
  const parts = path.replace(/^.*?\bsrc\//, "").replace(/\.rs$/, "").split("/");
  if (["lib", "main", "mod"].includes(parts.at(-1))) parts.pop();
  return parts;
}

/** Blanks comments, strings and characters, so that only code is left. Lines keep their numbers. */
export function codeOf(text) {
  const blank = (all) => all.replace(/[^\n]/g, " ");
  return text.replace(
    /\/\/[^\n]*|\/\*[^]*?\*\/|\bb?r(#*)"[^]*?"\1|b?"(?:[^"\\]|\\[^])*"|b?'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))'/g,
    blank,
  );
}

/** Blanks inline modules that only tests have. */
function withoutTests(code) {
  const start = /#\[cfg\((?:test|all\(test[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{/g;
  for (let found = start.exec(code); found !== null; found = start.exec(code)) {
    const end = blockEnd(code, start.lastIndex);
    code = code.slice(0, found.index) + code.slice(found.index, end).replace(/[^\n]/g, " ") + code.slice(end);
  }
  return code;
}

/** Returns the position behind the brace that closes the one before `from`. */
function blockEnd(code, from) {
  let depth = 1;
  let at = from;
  for (; at < code.length && depth > 0; at += 1) {
    if (code[at] === "{") depth += 1;
    else if (code[at] === "}") depth -= 1;
  }
  return at;
}

/**
 * Reads a use tree: returns the paths it names, each with the position of its last name, and the
 * position behind the tree. A glob ends with `*`.
 */
export function useTree(code, from) {
  const space = /\s*/y;
  const name = /(?:r#)?(\w+|\*)/y;
  const skip = () => {
    space.lastIndex = at;
    at += space.exec(code)[0].length;
  };
  let at = from;
  let last = from;
  const path = [];
  for (;;) {
    skip();
    if (code[at] === "{") {
      at += 1;
      const paths = [];
      for (skip(); code[at] !== "}" && at < code.length; skip()) {
        const branch = useTree(code, at);
        paths.push(...branch.paths.map((rest) => ({ path: [...path, ...rest.path], at: rest.at })));
        at = branch.end;
        // An alias, or the comma between branches.
        while (at < code.length && !/[,}]/.test(code[at])) at += 1;
        if (code[at] === ",") at += 1;
      }
      return { paths, end: at + 1 };
    }
    name.lastIndex = at;
    const found = name.exec(code);
    if (found === null) return { paths: path.length > 0 ? [{ path, at: last }] : [], end: Math.max(at, from + 1) };
    path.push(found[1]);
    last = at;
    at = name.lastIndex;
    space.lastIndex = at;
    const next = at + space.exec(code)[0].length;
    if (!code.startsWith("::", next)) return { paths: [{ path, at: last }], end: at };
    // `::<` begins type arguments.
    if (code[next + 2] === "<") return { paths: [{ path, at: last }], end: next };
    at = next + 2;
  }
}

/**
 * Returns the uses in a crate's source files, tests left out.
 * @param {File[]} files Files below its `src/`.
 */
export function uses(files) {
  const modules = new Map();
  for (const { path, text } of files) {
    const module = moduleOf(path);
    modules.set(module.join("::"), { path, module, code: withoutTests(codeOf(text)), exports: new Map(), found: [] });
  }
  for (const one of modules.values()) read(one, modules);
  const all = [];
  for (const { path, module, found } of modules.values()) {
    for (const { line, target } of found) {
      const to = defining(target, modules);
      if (to.join("::") !== module.join("::")) all.push({ path, line, from: module, to });
    }
  }
  return all;
}

/** Collects the paths that a module's code names, as absolute paths, and what it re-exports. */
function read({ module, code, exports, found }, modules) {
  const isChild = (name) => modules.has([...module, name].join("::"));
  const inline = [...code.matchAll(/\bmod (\w+)\s*\{/g)].map((block) => {
    const from = block.index + block[0].length;
    return { name: block[1], from, to: blockEnd(code, from) };
  });
  // A path begins where no path goes on: at `crate`, `self`, `super`, or at the name of a child.
  for (const start of code.matchAll(/(?<![\w:.]|::\s)(?:(pub(?:\([^)]*\))?\s+)?use\s+)?(?:::)?(\w+)(?=\s*::)/g)) {
    const [, visibility, first] = start;
    const isUse = start[0].includes("use");
    const at = start.index + start[0].length - first.length;
    const around = inline.filter(({ from, to }) => from <= at && at < to).map(({ name }) => name);
    if (!["crate", "self", "super"].includes(first) && !(around.length === 0 && isChild(first))) continue;
    for (const { path, at: end } of useTree(code, at).paths) {
      const line = code.slice(0, end).split("\n").length;
      const target = absolute(path, [...module, ...around]);
      // A facade's `pub use` of its own children is no use of them.
      const isFacade = visibility !== undefined && isUse && target.slice(0, module.length).join() === module.join();
      if (isUse && around.length === 0 && path.at(-1) !== "*") exports.set(path.at(-1), target);
      if (!isFacade) found.push({ line, target });
    }
  }
}

/** Returns a path from the crate's root for one that stands in a module. */
function absolute(path, module) {
  let base = [...module];
  let rest = path;
  if (rest[0] === "crate") [base, rest] = [[], rest.slice(1)];
  else if (rest[0] === "self") rest = rest.slice(1);
  while (rest[0] === "super") [base, rest] = [base.slice(0, -1), rest.slice(1)];
  const target = [...base, ...rest];
  return ["*", "self"].includes(target.at(-1)) ? target.slice(0, -1) : target;
}

/** Returns the module that defines what a path names; re-exports are followed. */
function defining(target, modules, depth = 0) {
  let known = [];
  for (let length = 1; length <= target.length && modules.has(target.slice(0, length).join("::")); length += 1) {
    known = target.slice(0, length);
  }
  const next = target[known.length];
  const exported = next === undefined ? undefined : modules.get(known.join("::"))?.exports.get(next);
  if (exported === undefined || depth > 8) return known;
  return defining([...exported, ...target.slice(known.length + 1)], modules, depth + 1);
}

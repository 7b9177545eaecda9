// Each rule of tidy.mjs complains of what it is there for, and of nothing else.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { commentWidths, docOpeners, errorSections } from "./tidy/comments.mjs";
import { edges, manifests } from "./tidy/crates.mjs";
import { codePaths, foreignWords, linkedPages, links, mapLength, markdownWidths, namedTests } from "./tidy/documents.mjs";
import { folders } from "./tidy/folders.mjs";
import { moduleOf, uses } from "./tidy/modules.mjs";
import { names, sizes } from "./tidy/sizes.mjs";

const file = (path, text = "") => ({ path, text });
const lines = (count) => "x\n".repeat(count);

describe("tidy", () => {
  it("counts lines without tests", () => {
    assert.equal(sizes([file("crates/a/src/lib.rs", lines(801))]).length, 1);
    assert.deepEqual(sizes([file("crates/a/src/lib.rs", `${lines(500)}#[cfg(test)]\nmod tests {\n${lines(900)}`)]), []);
    assert.deepEqual(sizes([file("crates/a/tests/it/all.rs", lines(2000))]), []);
    for (const end of ["ts", "mjs", "css", "sh"]) assert.equal(sizes([file(`web/a.${end}`, lines(801))]).length, 1, end);
  });

  it("asks for a reason from 601 lines on", (test) => {
    const said = test.mock.method(console, "log", () => {});
    sizes([file("crates/a/src/lib.rs", lines(600))]);
    assert.equal(said.mock.callCount(), 0);
    sizes([file("crates/a/src/lib.rs", lines(601))]);
    assert.match(said.mock.calls[0].arguments[0], /crates\/a\/src\/lib.rs has 601 lines/);
  });

  it("refuses names that say nothing", () => {
    for (const name of ["util", "utils", "common", "helper", "helpers", "misc", "types", "stuff", "shared"]) {
      assert.equal(names([file(`crates/a/src/${name}.rs`)]).length, 1, name);
      assert.equal(names([file(`web/src/${name}/page.ts`)]).length, 1, name);
      assert.equal(names([file("crates/a/src/lib.rs", `mod ${name};`)]).length, 1, name);
    }
    assert.match(names([file("crates/a/src/lib.rs", "\npub(crate) mod helpers {\n}")])[0], /^crates\/a\/src\/lib.rs:2: /);
    assert.deepEqual(names([file("crates/a/src/timescale.rs", "mod tests;")]), []);
  });

  it("finds words of a machine, also in lock files", () => {
    const path = ["/wo", "rk/main"].join("");
    const host = ["https://registry.npm", "js.org/x.tgz"].join("");
    assert.equal(foreignWords([file("a.sh", `cd ${path}`)]).length, 1);
    assert.equal(foreignWords([file("package-lock.json", `"resolved": "${host}"`)]).length, 1);
    const others = [
      ...[["/ro", "ot/x"], ["/ho", "me/anna/x"], ["registry.yarn", "pkg.com"], ["static.cra", "tes.io"]],
      ...[["index.cra", "tes.io"], ["proxy.gol", "ang.org"], ["deb.deb", "ian.org"]],
      ...[["files.python", "hosted.org"], ["py", "pi.org"]],
    ].map((pieces) => pieces.join(""));
    for (const word of others) assert.equal(foreignWords([file("a.md", `see ${word}`)]).length, 1, word);
    assert.deepEqual(foreignWords([file("a.md", "crates/work/x and ../shared/media")]), []);
  });

  it("follows the paths in the tables of the architecture", () => {
    const tree = ["crates/a/src/read/body.rs", "crates/a/src/read.rs", "crates/b/src/lib.rs"].map((path) => file(path));
    const page = (text) => codePaths([...tree, file("ARCHITECTURE.md", `\n${text}`)]);
    assert.deepEqual(page("| `a/src/` | `read/`, `body.rs`, `read.rs` |\n| ? | `a/src/read/body.rs`, `b/src/lib.rs` |"), []);
    assert.match(page("| `a/src/` | `reads/` |")[0], /^ARCHITECTURE.md:2: reads\/ /);
    assert.equal(page("| ? | `body.rs` |\n| `a/src/lib.rs` | |").length, 2);
    assert.deepEqual(page("Prose may name `other.rs`."), []);
    assert.equal(codePaths([file("crates/a/src/read.rs.orig"), file("ARCHITECTURE.md", "| `a/src/read.rs` |")]).length, 1);
  });

  it("limits the architecture and the glossary together", () => {
    const both = (one, other) => mapLength([file("ARCHITECTURE.md", "é".repeat(one)), file("GLOSSARY.md", "x".repeat(other))]);
    assert.deepEqual(both(9000, 3400), []);
    assert.match(both(9000, 3401)[0], /^ARCHITECTURE.md:1: .* 12401 characters/);
  });

  it("follows relative links", () => {
    const exists = (path) => path === "docs/a.md";
    assert.match(links([file("docs/b.md", "\n[a](c.md)")], exists)[0], /^docs\/b.md:2: /);
    assert.deepEqual(links([file("docs/b.md", "[a](a.md#part) [b](https://example.org/x)")], exists), []);
  });

  it("wants the configuration's page, and a link to it", () => {
    const page = file("docs/configuration.md", "# Configuration");
    const readme = file("README.md", "[keys](docs/configuration.md)");
    assert.deepEqual(linkedPages([page, readme]), []);
    assert.equal(linkedPages([page, file("README.md")]).length, 1);
    assert.equal(linkedPages([readme]).length, 1);
  });

  it("looks for the tests that the page of faults names", () => {
    const source = file("crates/a/tests/it/waits.rs", "#[test]\nfn for_a_reply() {}\n");
    const of = (cell) => namedTests([source, file("docs/faults.md", `| Fault | Test |\n|---|---|\n| slow | ${cell} |\n`)]);
    assert.deepEqual(of("`waits::for_a_reply`, `waits::for…`, cache `waits`"), []);
    assert.match(of("`waits::for_nothing`")[0], /^docs\/faults.md:3: .*for_nothing/);
    assert.equal(of("`waits::to…`, the same").length, 1);
    assert.match(namedTests([source, file("SECURITY.md", "| Attack | `waits::for_nothing` |")])[0], /^SECURITY.md:1: /);
    const prose = (text) => namedTests([source, file("docs/faults.md", text)]).length;
    assert.equal(prose("`waits::for_nothing`"), 1);
    assert.equal(prose("`waits::for_a_reply`, `clippy.toml`, `connect_timeout`"), 0);
  });

  it("limits lines of Markdown outside tables and code blocks", () => {
    const long = "word ".repeat(30);
    assert.match(markdownWidths([file("a.md", `short\n${long}`)])[0], /^a.md:2: /);
    assert.equal(markdownWidths([file("a.md", `\`\`\`\n\`\`\`\n${long}`)]).length, 1);
    assert.deepEqual(markdownWidths([file("a.md", `| ${long}|\n\`\`\`toml\n${long}\n\`\`\`\n`)]), []);
    assert.deepEqual(markdownWidths([file("a.md", `${"é".repeat(60)} ${"é".repeat(59)}`)]), []);
    assert.deepEqual(markdownWidths([file("a.md", `<https://example.org/${"x".repeat(120)}>`)]), []);
  });

  it("limits comment lines, not code", () => {
    const long = "word ".repeat(25);
    const comments = [
      ...[["a.rs", `    /// ${long}`], ["a.rs", `//! ${long}`], ["a.mjs", ` * ${long}`], ["a.ts", `// ${long}`]],
      ["a.sh", `# ${long}`],
    ];
    for (const [path, line] of comments) {
      assert.match(commentWidths([file(path, `x\n${line}`)])[0], new RegExp(`^${path}:2: `), line);
    }
    assert.deepEqual(commentWidths([file("a.rs", `let x = "${long}";\n// ${"u".repeat(120)}`), file("a.md", `# ${long}`)]), []);
  });

  describe("doc comments", () => {
    const good = "/// Returns it.\nfn a() {}\n".repeat(99);

    it("may begin with a question word once in a hundred", () => {
      const one = file("crates/a/src/b.rs", "/// What it is.\nfn b() {}\n");
      assert.deepEqual(docOpeners([file("crates/a/src/lib.rs", good), one]), []);
      assert.equal(docOpeners([file("crates/a/src/lib.rs", good), one, file("crates/a/src/c.rs", "//! How it works.\n")]).length, 2);
      assert.equal(docOpeners([file("crates/other/src/lib.rs", good), one]).length, 1);
      for (const word of ["What", "Which", "Whether", "How", "That", "So"]) {
        const [complaint] = docOpeners([file("crates/a/src/b.rs", `/// ${word} it is.\nfn b() {}\n`)]);
        assert.match(complaint, new RegExp(`^crates/a/src/b.rs:1: .*"${word}"`));
      }
    });

    it("are judged by their first line only", () => {
      assert.deepEqual(docOpeners([file("crates/a/src/b.rs", "/// Reads it.\n/// What follows is a detail.\nfn b() {}\n")]), []);
      assert.deepEqual(docOpeners([file("crates/a/src/b.rs", "/// Whatever it is.\nfn b() {}\n")]), []);
    });

    it("have sections of errors with four words or more", () => {
      const section = (text) => errorSections([file("a.rs", `/// Reads.\n///\n/// # Errors\n${text}fn a() {}\n`)]);
      assert.match(section("/// As above.\n")[0], /^a.rs:3: /);
      assert.equal(section("/// Those of storage.\n").length, 1);
      assert.deepEqual(section("/// Those of the storage.\n"), []);
      assert.equal(section("").length, 1);
      assert.equal(section("/// # Panics\n/// If the file has no header at all.\n").length, 1);
      assert.deepEqual(section("/// An error of storage,\n/// as it came.\n"), []);
    });
  });

  describe("crate manifests", () => {
    const manifest = [
      "[package]",
      'description = "a"',
      'keywords = ["a"]',
      'categories = ["a"]',
      "readme.workspace = true",
      ...["version", "edition", "rust-version", "license", "publish"].map((key) => `${key}.workspace = true`),
      "",
      "[lints]",
      "workspace = true",
      "",
    ].join("\n");
    const of = (text) => manifests([file("crates/a/Cargo.toml", text)]);

    it("inherit the workspace's lints and package keys, and describe the crate", () => {
      assert.deepEqual(of(manifest), []);
      assert.equal(of(manifest.replace("[lints]\nworkspace = true\n", "")).length, 1);
      for (const line of manifest.match(/^[a-z-]+(\.workspace)? = .*\n(?=[^]*\[lints\])/gm)) {
        assert.equal(of(manifest.replace(line, "")).length, 1, line);
      }
      assert.equal(of(manifest.replace("license.workspace = true", 'license = "MIT"')).length, 1);
    });

    it("state the Rust version that the toolchain file tests", () => {
      const of2 = (channel) =>
        manifests([file("rust-toolchain.toml", `channel = "${channel}"`), file("Cargo.toml", 'rust-version = "1.95"\nmissing_docs = "warn"\n')]);
      assert.deepEqual(of2("1.95.0"), []);
      assert.equal(of2("1.96.0").length, 1);
    });

    it("leave no public item without documentation", () => {
      assert.equal(manifests([file("Cargo.toml", "[workspace.lints.rust]\n")]).length, 1);
      assert.deepEqual(manifests([file("Cargo.toml", 'missing_docs = "warn"\n')]), []);
      assert.match(manifests([file("crates/a/src/lib.rs", "\n#![allow(missing_docs)]\n")])[0], /lib.rs:2: /);
      assert.equal(manifests([file("crates/a/src/lib.rs", '#[expect(missing_docs, reason = "new")]\n')]).length, 1);
    });
  });

  describe("modules", () => {
    const modules = (texts) => uses(Object.entries(texts).map(([path, text]) => file(`crates/a/src/${path}`, text)));
    const seen = (texts) => modules(texts).map(({ from, to }) => `${from.join("::")} -> ${to.join("::")}`);

    it("are named by their files", () => {
      assert.deepEqual(moduleOf("crates/a/src/lib.rs"), []);
      assert.deepEqual(moduleOf("crates/a/src/b/mod.rs"), ["b"]);
      assert.deepEqual(moduleOf("crates/a/src/b/c.rs"), ["b", "c"]);
    });

    it("are found in nested braces, over several lines", () => {
      const b = "use crate::{\n    c::{self, One, deep::{Two, Three as Four}},\n    d::*,\n};\nuse std::fmt;\n";
      const found = modules({ "lib.rs": "", "b.rs": b, "c.rs": "", "c/deep.rs": "", "d.rs": "" });
      assert.deepEqual(
        found.map(({ line, to }) => `${line} ${to.join("::")}`),
        ["2 c", "2 c", "2 c::deep", "2 c::deep", "3 d"],
      );
    });

    it("are found by super, self, children and paths in code", () => {
      const mod = "mod x;\nuse self::x::Y;\nfn f() { crate::c::f(); x::g(); ::std::x::y(); }\n";
      const x = "use super::super::c;\nuse super::{f, y};\n";
      assert.deepEqual(seen({ "b/mod.rs": mod, "b/x.rs": x, "b/y.rs": "", "c.rs": "" }), [
        ...["b -> b::x", "b -> c", "b -> b::x"],
        ...["b::x -> c", "b::x -> b", "b::x -> b::y"],
      ]);
    });

    it("are counted from an inline module as from the file", () => {
      assert.deepEqual(seen({ "b.rs": "mod inner {\n use super::super::c::X;\n}\n", "c.rs": "" }), ["b -> c"]);
      assert.deepEqual(seen({ "b.rs": "mod inner {\n use super::y::X;\n}\n", "b/y.rs": "", "y.rs": "" }), ["b -> b::y"]);
    });

    it("are where a re-export leads", () => {
      const lib = "pub use error::Error;\n";
      assert.deepEqual(seen({ "lib.rs": lib, "b.rs": "use crate::Error;\n", "error.rs": "" }), ["b -> error"]);
    });

    it("are not found in comments, strings and tests", () => {
      const b = `// crate::c::x\nconst A: &str = "crate::c::x"; const Q: char = '"';\n#[cfg(test)]\nmod tests {\n use crate::c::X;\n}\n`;
      assert.deepEqual(seen({ "b.rs": b, "c.rs": "" }), []);
    });
  });

  describe("folders", () => {
    const check = (texts, table) =>
      folders(
        Object.entries({ "lib.rs": "", "top/mod.rs": "", ...texts }).map(([path, text]) => file(`crates/a/src/${path}`, text)),
        { a: table },
      );
    const table = { lib: ["*"], top: ["base"], base: [] };

    it("may use what the table allows", () => {
      assert.deepEqual(check({ "top/x.rs": "use crate::base::B;\n", "base.rs": "" }, table), []);
    });

    it("may use nothing else", () => {
      const [complaint] = check({ "top/x.rs": "", "base/mod.rs": "", "base/y.rs": "use std::io;\nuse super::super::top::x::X;\n" }, table);
      assert.match(complaint, /^crates\/a\/src\/base\/y.rs:2: base must not use top$/);
    });

    it("must be in the table", () => {
      assert.match(check({ "new.rs": "use crate::base::B;\n", "base.rs": "" }, table)[0], /new.rs:1: .*does not list/);
    });

    it("have no import cycle, even if the table allows it", () => {
      const circle = { top: ["base"], base: ["top"] };
      const complaints = check({ "top/x.rs": "use crate::base::B;\n", "base.rs": "use crate::top::x::X;\n" }, circle);
      assert.match(complaints[0], /an import cycle of the folders base, top/);
    });

    it("have no import cycle in a crate without a table either, but for the circles that are listed", () => {
      const files = [
        file("crates/b/src/top/x.rs", "use crate::base::B;\n"),
        file("crates/b/src/top/mod.rs", ""),
        file("crates/b/src/base.rs", "use crate::top::x::X;\n"),
      ];
      assert.match(folders(files, {}, {})[0], /^crates\/b\/src\/lib.rs:1: an import cycle of the folders base, top$/);
      assert.deepEqual(folders(files, {}, { b: ["base", "top"] }), []);
      assert.notDeepEqual(folders(files, {}, { b: ["base"] }), []);
    });

    it("may form a small cycle if they are single files of src/", () => {
      const circle = { one: ["two"], two: ["one"], lib: ["*"] };
      assert.deepEqual(check({ "one.rs": "use crate::two::T;\n", "two.rs": "use crate::one::O;\n" }, circle), []);
    });

    it("may not form a larger cycle even if they are single files of src/", () => {
      const names_ = ["one", "two", "three", "four"];
      const files = names_.map((name, n) => file(`crates/b/src/${name}.rs`, `use crate::${names_[(n + 1) % 4]}::X${n};\n`));
      assert.match(folders(files, {})[0], /an import cycle of the folders four, one, three, two/);
    });

    it("may use everything in tests", () => {
      assert.deepEqual(check({ "base/mod.rs": "", "base/y_tests.rs": "use crate::top::X;\n" }, table), []);
    });

    it("hold at most three files that import each other", () => {
      const circle = (count) =>
        Object.fromEntries(
          Array.from({ length: count }, (_, n) => [`top/f${n}.rs`, `use super::f${(n + 1) % count}::X${n};\n`]),
        );
      assert.deepEqual(check(circle(3), table), []);
      assert.match(check(circle(4), table)[0], /an import cycle of 4 files: top::f0, top::f1, top::f2, top::f3/);
    });

    it("may have a facade that re-exports its files", () => {
      const file_ = "use super::{A, B, C};\n";
      const texts = { "top/mod.rs": "pub use a::A;\npub(crate) use {b::B, c::C};\n", "top/a.rs": "", "top/b.rs": "", "top/c.rs": file_ };
      assert.deepEqual(check(texts, table), []);
    });
  });

  describe("edges", () => {
    /** Metadata of a workspace; `uses` maps a crate to [name, kind] pairs. */
    const workspace = (uses_) => {
      const every = [...new Set([...Object.keys(uses_), ...Object.values(uses_).flatMap((all) => all.map(([name]) => name))])];
      const ours = (name) => name.startsWith("latemux-");
      return {
        workspace_members: every.filter(ours),
        packages: every.map((name) => ({
          id: name,
          name,
          manifest_path: `/x/crates/${name.replace("latemux-", "")}/Cargo.toml`,
          dependencies: (uses_[name] ?? []).map(([to, kind]) => ({ name: to, kind })),
        })),
        resolve: {
          nodes: every.map((name) => ({
            id: name,
            deps: (uses_[name] ?? []).map(([to, kind]) => ({ pkg: to, dep_kinds: [{ kind }] })),
          })),
        },
      };
    };

    it("point one way", () => {
      assert.deepEqual(edges(workspace({ "latemux-index": [["latemux-isobmff", null]] })), []);
      assert.equal(edges(workspace({ "latemux-isobmff": [["latemux-index", null]] })).length, 1);
      assert.equal(edges(workspace({ "latemux-packager": [["latemux-storage", null]] })).length, 1);
      assert.equal(edges(workspace({ "latemux-client": [["latemux-packager", null]] })).length, 1);
      assert.equal(edges(workspace({ "latemux-load": [["latemux-capture", null]] })).length, 1);
      assert.equal(edges(workspace({ "latemux-origin": [["latemux-testmedia", null]] })).length, 1);
      assert.deepEqual(edges(workspace({ "latemux-origin": [["latemux-testmedia", "dev"]] })), []);
      assert.equal(edges(workspace({ "latemux-origin": [["latemux-instructions", "dev"]] })).length, 1);
    });

    it("want a new crate to be listed", () => {
      assert.equal(edges(workspace({ "latemux-newcomer": [] })).length, 1);
    });

    it("keep the pure crates pure, at any distance, but not their tests", () => {
      assert.equal(edges(workspace({ "latemux-index": [["half", null]], half: [["tokio", null]] })).length, 1);
      assert.deepEqual(edges(workspace({ "latemux-index": [["proptest", "dev"]], proptest: [["rand", null]] })), []);
      assert.deepEqual(edges(workspace({ "latemux-storage": [["tokio", null]] })), []);
      for (const pure of ["isobmff", "index", "protect", "text", "packager", "streams"]) {
        assert.equal(edges(workspace({ [`latemux-${pure}`]: [["tokio", null]] })).length, 1, pure);
      }
      for (const impure of ["hyper", "mio", "socket2", "rand", "getrandom", "async-std", "object_store", "reqwest"]) {
        assert.equal(edges(workspace({ "latemux-text": [[impure, null]] })).length, 1, impure);
      }
    });
  });
});

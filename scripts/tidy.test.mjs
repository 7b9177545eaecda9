// Each check of tidy.mjs complains of what it is there for, and of nothing else.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { edges, foreignWords, links, names, sizes } from "./tidy.mjs";

const file = (path, text = "") => ({ path, text });
const lines = (count) => "x\n".repeat(count);

describe("tidy", () => {
  it("counts lines without tests", () => {
    assert.equal(sizes([file("crates/a/src/lib.rs", lines(801))]).length, 1);
    assert.deepEqual(sizes([file("crates/a/src/lib.rs", `${lines(500)}#[cfg(test)]\nmod tests {\n${lines(900)}`)]), []);
    assert.deepEqual(sizes([file("crates/a/tests/it/all.rs", lines(2000))]), []);
  });

  it("refuses names that say nothing", () => {
    assert.equal(names([file("crates/a/src/utils.rs")]).length, 1);
    assert.equal(names([file("crates/a/src/common/mod.rs")]).length, 1);
    assert.equal(names([file("crates/a/src/lib.rs", "pub(crate) mod helpers {\n}")]).length, 1);
    assert.deepEqual(names([file("crates/a/src/timescale.rs", "mod tests;")]), []);
  });

  it("finds words of a machine, also in lock files", () => {
    const path = ["/wo", "rk/main"].join("");
    const host = ["https://registry.npm", "js.org/x.tgz"].join("");
    assert.equal(foreignWords([file("a.sh", `cd ${path}`)]).length, 1);
    assert.equal(foreignWords([file("package-lock.json", `"resolved": "${host}"`)]).length, 1);
    assert.deepEqual(foreignWords([file("a.md", "crates/work/x and ../shared/media")]), []);
  });

  it("follows relative links", () => {
    const there = (path) => path === "docs/a.md";
    assert.equal(links([file("docs/b.md", "[a](c.md)")], there).length, 1);
    assert.deepEqual(links([file("docs/b.md", "[a](a.md#part) [b](https://example.org/x)")], there), []);
  });

  describe("edges", () => {
    /** Metadata of a workspace; `uses` maps a crate to [name, kind] pairs. */
    const workspace = (uses) => {
      const every = [...new Set([...Object.keys(uses), ...Object.values(uses).flatMap((all) => all.map(([name]) => name))])];
      const ours = (name) => name.startsWith("latemux-");
      return {
        workspace_members: every.filter(ours),
        packages: every.map((name) => ({
          id: name,
          name,
          manifest_path: `/x/crates/${name.replace("latemux-", "")}/Cargo.toml`,
          dependencies: (uses[name] ?? []).map(([to, kind]) => ({ name: to, kind })),
        })),
        resolve: {
          nodes: every.map((name) => ({
            id: name,
            deps: (uses[name] ?? []).map(([to, kind]) => ({ pkg: to, dep_kinds: [{ kind }] })),
          })),
        },
      };
    };

    it("point one way", () => {
      assert.deepEqual(edges(workspace({ "latemux-index": [["latemux-isobmff", null]] })), []);
      assert.equal(edges(workspace({ "latemux-isobmff": [["latemux-index", null]] })).length, 1);
      assert.equal(edges(workspace({ "latemux-packager": [["latemux-storage", null]] })).length, 1);
      assert.equal(edges(workspace({ "latemux-origin": [["latemux-testmedia", null]] })).length, 1);
      assert.deepEqual(edges(workspace({ "latemux-origin": [["latemux-testmedia", "dev"]] })), []);
    });

    it("want a new crate to be placed", () => {
      assert.equal(edges(workspace({ "latemux-newcomer": [] })).length, 1);
    });

    it("keep the pure crates pure, at any distance, but not their tests", () => {
      assert.equal(edges(workspace({ "latemux-index": [["half", null]], half: [["tokio", null]] })).length, 1);
      assert.deepEqual(edges(workspace({ "latemux-index": [["proptest", "dev"]], proptest: [["rand", null]] })), []);
      assert.deepEqual(edges(workspace({ "latemux-storage": [["tokio", null]] })), []);
    });
  });
});

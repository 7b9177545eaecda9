import assert from "node:assert/strict";
import test from "node:test";
import { compare, figures } from "./instructions.mjs";

test("a figure may grow by a twentieth, and no more", () => {
  assert.deepEqual(compare({ plan: 1000 }, { plan: 1050 }).complaints, []);
  assert.deepEqual(compare({ plan: 1000 }, { plan: 1051 }).complaints, ["plan: +5.10 %, more than 5 %"]);
});

test("what needs much less should be kept so", () => {
  const { complaints, wishes } = compare({ plan: 1000, other: 1000 }, { plan: 940, other: 960 });
  assert.deepEqual(complaints, []);
  assert.deepEqual(wishes, ["plan: -6.00 %"]);
});

test("no figure comes or goes unseen", () => {
  assert.deepEqual(compare({ gone: 1 }, { come: 1 }).complaints, ["come: no figure is kept of it", "gone: kept, but not counted"]);
});

test("figures are read by function and case", () => {
  const line = (function_name, id, count) =>
    JSON.stringify({ function_name, id, profiles: [{ data: { total: { metrics: { Ir: { values: { new: count } } } } } }] });
  const text = `${line("planned", "dash", 7)}\nsomething else\n${line("parsed", undefined, 8)}\n`;
  assert.deepEqual(figures(text), { "planned.dash": 7, parsed: 8 });
});

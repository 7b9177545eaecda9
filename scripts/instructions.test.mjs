import assert from "node:assert/strict";
import test from "node:test";
import { compare, figures } from "./instructions.mjs";

test("a figure may grow by 5 %, and no more", () => {
  assert.deepEqual(compare({ plan: 1000 }, { plan: 1050 }).complaints, []);
  assert.deepEqual(compare({ plan: 1000 }, { plan: 1051 }).complaints, ["plan: +5.10 %, more than 5 %"]);
});

test("a figure that fell by more than 5 % is reported as an improvement", () => {
  const { complaints, improvements } = compare({ plan: 1000, other: 1000 }, { plan: 940, other: 960 });
  assert.deepEqual(complaints, []);
  assert.deepEqual(improvements, ["plan: -6.00 %"]);
});

test("new and missing figures are complaints", () => {
  assert.deepEqual(compare({ gone: 1 }, { come: 1 }).complaints, ["come: the file has no figure", "gone: in the file, but not counted"]);
});

test("figures are read by function and case", () => {
  const line = (function_name, id, count) =>
    JSON.stringify({ function_name, id, profiles: [{ data: { total: { metrics: { Ir: { values: { new: count } } } } } }] });
  const text = `${line("planned", "dash", 7)}\nsomething else\n${line("parsed", undefined, 8)}\n`;
  assert.deepEqual(figures(text), { "planned.dash": 7, parsed: 8 });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { complaints, modelErrors, readings } from "./lab-quick.mjs";

const title = {
  segments: { dash: 13, smooth: 13, hls: 7, hds: 7 },
  bytes: { dash: 2_793_536, smooth: 2_798_804, hls: 2_959_496, hds: 2_810_437 },
  ism: 1165,
  media: 2_792_748,
  index: 21_796,
};

/** A right measurement of `ipp` in HLS, with changes. */
function record(changes, point = {}) {
  const measured = {
    requests: 7, failures: 0, bytes: 2_959_496, seconds: 0.5, latency: 50,
    storage_requests: 49, storage_bytes: 4_694_933, storage_connections: 3, link_bytes: 4_882_758, cached: 0,
    ...changes,
  };
  return { experiment: "edge", point: { setup: "ipp", format: "hls", ...point }, measured };
}

test("a right measurement has no complaints, and each wrong one names its assertion", () => {
  assert.deepEqual(complaints(record({}), title), []);
  for (const [changes, name] of [
    [{ failures: 1 }, "failures: 1, not 0"],
    [{ requests: 8 }, "requests of the client: 8, not 7"],
    [{ bytes: 1 }, "bytes to the client"],
    [{ storage_requests: 7 }, "requests to storage: 7, not 49"],
    [{ cached: 10_000 }, "bytes in caches: 10000, not 0"],
    [{ seconds: 0.05 }, "rate of the link"],
    [{ link_bytes: 0 }, "bytes on the link"],
    [{ storage_bytes: 2_959_496 }, "efficiency"],
  ]) {
    const found = complaints(record(changes), title).join("\n");
    assert.ok(found.includes(`edge setup=ipp format=hls: ${name}`), `${name}: ${found}`);
  }
});

test("several connections may share some reads, but not as many as a cache would save", () => {
  const several = (setup, changes) => complaints(record(changes, { setup, connections: "10" }), title).join("\n");
  assert.equal(several("ipp", { storage_requests: 46 }), "");
  assert.match(several("ipp", { storage_requests: 36 }), /requests to storage: 36, not 36.75 to 61.25/);
  const cached = { cached: 2_959_496, storage_bytes: 3_600_000, link_bytes: 3_100_000 };
  assert.equal(several("cdn", { ...cached, storage_requests: 20 }), "");
  assert.match(several("cdn", { ...cached, storage_requests: 6 }), /requests to storage: 6, not 7 to /);
});

test("a player that was not started as often, or that got its responses elsewhere, is a complaint", () => {
  const player = (setup, changes) => {
    const right = { requests: 38, bytes: 5_594_028, startups: [489, 231.8], storage_requests: setup === "ipp" ? 183 : 0 };
    return complaints({ ...record({ ...right, ...changes }), experiment: "player", point: { setup, format: "dash" } }, title).join("\n");
  };
  assert.equal(player("ipp", {}), "");
  assert.equal(player("n-single", {}), "");
  assert.match(player("ipp", { startups: [489] }), /start-up delays: 1, not 2/);
  assert.match(player("ipp", { startups: [489, 0] }), /shortest start-up delay: 0/);
  assert.match(player("ipp", { requests: 9 }), /requests of players: 9, not 10/);
  assert.match(player("ipp", { failures: 1 }), /failures: 1, not 0/);
  assert.match(player("ipp", { storage_requests: 92 }), /requests to storage: 92, not 114/);
  assert.match(player("n-single", { storage_requests: 1 }), /requests to storage: 1, not 0/);
});

test("a failed measurement is a complaint", () => {
  const failed = { ...record({}), measured: null, error: "the function does not answer" };
  assert.deepEqual(complaints(failed, title), ["edge setup=ipp format=hls: failed: the function does not answer"]);
});

test("a connection that is used again is a complaint where each request must open its own", () => {
  const own = { experiment: "back-ends", point: { setup: "a", format: "hls", before: "same" } };
  const efficiency = 2_959_496 / 3_130_000;
  const model = { storage_bytes: 3_125_000, model_requests: 28, model_bytes: 3_130_000, model_efficiency: efficiency };
  const measured = (connections, changes = {}) =>
    record({ storage_requests: 28, storage_connections: connections, ...model, ...changes }).measured;
  assert.deepEqual(complaints({ ...own, measured: measured(28) }, title), []);
  assert.match(complaints({ ...own, measured: measured(1) }, title)[0], /connections to storage: 1, not 28/);
  const wrong = (changes) => complaints({ ...own, measured: measured(28, changes) }, title).join("\n");
  assert.match(wrong({ model_requests: 27 }), /requests to storage by the cost model: 28, not 27/);
  assert.match(wrong({ model_bytes: 3_000_000 }), /bytes from storage \/ cost model: 1\.04/);
  assert.match(wrong({ model_efficiency: 0.9 }), /efficiency \/ cost model: 1\.05/);
  // Both deviate by the same ratio, so the efficiency does not.
  assert.match(wrong({ model_bytes: 3_000_000 }), /bytes to the client \/ cost model: 1\.04/);
  assert.match(wrong({ model_efficiency: efficiency * 1.006 }), /bytes to the client \/ cost model: 0\.99/);
  // A cell that the model does not cover would be checked by nothing.
  assert.match(wrong({ model_requests: null, model_bytes: null }), /by the cost model/);
  const unstated = wrong({ model_bytes: null, model_efficiency: null });
  for (const name of ["bytes from storage", "bytes to the client", "efficiency"]) assert.ok(unstated.includes(`${name} / cost model: `), unstated);
});

test("the deviations from the cost model are stated for each format", () => {
  const cell = (format, bytes, read) => ({
    experiment: "back-ends",
    point: { setup: "a", format },
    measured: { bytes, storage_bytes: read, model_bytes: 1000, model_efficiency: 0.5 },
  });
  const other = { experiment: "edge", point: { setup: "ipp", format: "hls" }, measured: {} };
  assert.deepEqual(modelErrors([cell("hls", 505, 990), cell("dash", 500, 1000), cell("hls", 500, 1010), other]), [
    "dash, 1 set-ups: bytes from storage / cost model 1.000 to 1.000, bytes to the client / cost model 1.000 to 1.000, efficiency / cost model 1.000 to 1.000",
    "hls, 2 set-ups: bytes from storage / cost model 0.990 to 1.010, bytes to the client / cost model 1.000 to 1.010, efficiency / cost model 0.990 to 1.020",
  ]);
});

test("a balancer that does not keep titles on one origin is a complaint", () => {
  const one = 7 * 2_792_748;
  const inTurn = Math.round((8 / 7) * one);
  const titles = (setup, reads, read, cached = setup === "two-origins-round-robin" ? inTurn : one) => {
    const measured = { requests: 91, bytes: 7 * 2_793_536, storage_requests: reads, storage_bytes: read, cached };
    return complaints({ ...record(measured), experiment: "titles", point: { setup, format: "dash" } }, title);
  };
  assert.deepEqual(titles("one-origin", 89, one + 7 * 261_181), []);
  assert.deepEqual(titles("two-origins-round-robin", 139, inTurn + 14 * 261_181), []);
  assert.match(titles("one-origin", 89, 7 * 3_053_929, 0).join("\n"), /bytes in caches: 0, not /);
  assert.match(titles("two-origins-hash", 139, inTurn + 14 * 261_181).join("\n"), /requests to storage: 139, not 89/);
  assert.match(titles("two-origins-round-robin", 89, 7 * 3_053_929).join("\n"), /requests to storage: 89, not 139/);
});

test("each set-up has the efficiency that follows from what it keeps", () => {
  const found = (setup, reads, read, cached) => {
    const model = { model_requests: reads, model_bytes: read, model_efficiency: 2_959_496 / read };
    const measured = record({ storage_requests: reads, storage_bytes: read, cached, ...model }).measured;
    return complaints({ experiment: "back-ends", point: { setup, format: "hls", before: "same" }, measured }, title).join("\n");
  };
  const media = 2_850_000;
  const [ism, index, start] = [1165, 21_796, 16_384];
  assert.equal(found("c", 28, media + 7 * (ism + index + start), 0), "");
  assert.equal(found("place-3-ism", 21, media + 7 * (index + start), ism + 500), "");
  assert.equal(found("place-2-meta", 14, media + 7 * start, ism + index + 900), "");
  assert.equal(found("n-index", 7, media, 0), "");
  assert.match(found("n-index", 7, media / 2, 0), /efficiency: 2\.07/);
  assert.match(found("n-index", 14, media, 0), /requests to storage: 14, not 7/);
  assert.match(found("place-2-meta", 14, media + 7 * start, ism), /bytes in caches: 1165, not 22961/);
});

test("an origin reads each range of its titles once", () => {
  assert.deepEqual(readings(title, "hls", false), { indexes: 7, ranges: 48, whole: 42 });
  // Each range is read by one origin, and one title is requested from one origin only.
  assert.deepEqual(readings(title, "hls", true), { indexes: 13, ranges: 49, whole: 42 });
});

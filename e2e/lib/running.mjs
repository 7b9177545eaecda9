// The origin and the browser of a file of tests.

import { after, before } from "node:test";
import { launchBrowser } from "./browser.mjs";
import { startOrigin } from "./origin.mjs";

/**
 * Starts an origin and a browser before the tests of a file, and stops both after them. Returns an
 * object that has them as `origin` and `browser` while the tests run. `prepare` returns the options
 * of `startOrigin`.
 */
export function startBeforeTests(prepare = () => ({})) {
  const running = {};
  before(async () => {
    const started = [startOrigin(await prepare()), launchBrowser()];
    // If one of them fails, the other one must be stopped nevertheless.
    const [origin, browser] = await Promise.allSettled(started);
    Object.assign(running, { origin: origin.value, browser: browser.value });
    await Promise.all(started);
  });
  after(async () => {
    await running.browser?.close();
    await running.origin?.stop();
  });
  return running;
}

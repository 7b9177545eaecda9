// Opens Smooth Streaming in Shaka Player 4, which the player page does not have, on a page of these
// tests.

import { fileURLToPath } from "node:url";
import { PlayerPage } from "./player-page.mjs";

const own = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const client = "shaka-4.mjs";
const scripts = {
  "iso_boxer.js": "node_modules/codem-isoboxer/dist/iso_boxer.min.js",
  "shaka.js": "node_modules/shaka-player/dist/shaka-player.compiled.js",
};

/**
 * Opens a manifest, given as a path of the origin. `more` has further parts of the query, see
 * clients/shaka-4.mjs.
 */
export async function openShaka4(browser, origin, manifest, more = {}) {
  const files = { "player.html": own("clients/player.html"), [client]: own(`clients/${client}`) };
  for (const [script, path] of Object.entries(scripts)) files[script] = own(path);
  const query = new URLSearchParams({ manifest: `/${manifest}`, client: `./${client}`, ...more });
  for (const script of Object.keys(scripts)) query.append("script", script);
  const viewer = await PlayerPage.openOwn(browser, origin.address, "player.html", query, files);
  // Audio and video do not begin at the same time. A player may seek to the later one, and cancel
  // its requests.
  viewer.record.action();
  return viewer;
}

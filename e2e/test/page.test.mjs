// The player page: the library, links to titles, the table of downloads, and errors.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";

let origin;
let browser;
before(async () => {
  [origin, browser] = await Promise.all([startOrigin(), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
});

/**
 * Opens the page with `query`, passes it to `use`, and checks afterwards that it recorded no fault.
 */
async function visit(query, use, { faults = [], script } = {}) {
  const viewer = await PlayerPage.open(browser, origin.address, query, script);
  try {
    await use(viewer, viewer.page);
  } finally {
    await viewer.close();
  }
  const unexpected = viewer.record.faults.filter((fault) => !faults.some((allowed) => allowed.test(fault)));
  assert.deepEqual(unexpected, []);
}

describe("page", { concurrency: 2 }, () => {
  it("lists the library and plays a title that is clicked", () =>
    visit({}, async (viewer, page) => {
      const titles = page.getByRole("navigation").getByRole("listitem");
      await titles.first().waitFor();
      const bases = await titles.locator("a").evaluateAll((links) => links.map((link) => link.dataset.title));
      assert.deepEqual(bases.sort(), ["buoy.mp4", "ferry.mp4", "harbour", "lighthouse.mp4"]);

      await page.getByRole("link", { name: "harbour" }).click();
      await viewer.ready();
      await viewer.plays(1);
      assert.match(page.url(), /\?title=harbour&protocol=dash&player=dash\.js$/);
      assert.equal(await page.getByLabel("Manifest").inputValue(), `${origin.address}harbour/.mpd`);
    }));

  it("switches protocol and player while it plays, and goes back through the history", () =>
    visit({ title: "harbour", protocol: "dash" }, async (viewer, page) => {
      await viewer.ready();
      await viewer.plays(1);
      viewer.record.action();
      await page.locator("#protocol").getByText("HLS TS").click();
      await viewer.opened("hls-ts", "hls.js");
      await viewer.plays(1);
      viewer.record.action();
      await page.getByLabel("Player", { exact: true }).selectOption("shaka");
      await viewer.opened("hls-ts", "shaka");
      await viewer.plays(1);
      viewer.record.action();
      await page.goBack();
      await viewer.opened("hls-ts", "hls.js");
      await viewer.plays(1);
    }));

  for (const title of ["lighthouse.mp4", "ferry.mp4"]) {
    for (const protocol of ["dash", "hls-ts", "hls-cmaf", "smooth"]) {
      it(`plays ${title} as ${protocol}`, () =>
        visit({ title, protocol }, async (viewer) => {
          // dash.js seeks to the time at which both audio and video have begun.
          if (protocol === "smooth") viewer.record.action();
          await viewer.ready();
          await viewer.plays(2);
          await viewer.seek(20.5);
          await viewer.playsOut();
          assert.deepEqual(await viewer.errors(), []);
        }));
    }
  }

  it("shows no error if hls.js instead of the browser jumps to a first frame later than 0", () => {
    // Simulates a browser that stays at 0 until hls.js sets the time, as a browser on a busy
    // machine does.
    const stays = () => {
      const { get, set } = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "currentTime");
      window.jumps = [];
      Object.defineProperty(HTMLMediaElement.prototype, "currentTime", {
        get() {
          return window.jumps.length ? get.call(this) : 0;
        },
        set(time) {
          window.jumps.push(time);
          set.call(this, time);
        },
      });
    };
    const watched = async (viewer, page) => {
      await viewer.ready();
      await page.waitForFunction(() => window.jumps.length > 0);
      await viewer.plays(1);
      assert.deepEqual(await viewer.errors(), []);
    };
    return visit({ title: "harbour", protocol: "hls-ts" }, watched, { script: stays });
  });

  it("shows each download with status, size and time", () =>
    visit({ title: "harbour", protocol: "hls-cmaf" }, async (viewer, page) => {
      await viewer.ready();
      await viewer.plays(2);
      const rows = await page.locator("#downloads tbody tr").evaluateAll((all) =>
        all.map((row) => ({ kind: row.dataset.kind, cells: [...row.cells].map((cell) => cell.textContent) })),
      );
      for (const kind of ["manifest", "init", "segment"]) {
        assert.ok(rows.some((row) => row.kind === kind), `no ${kind} among the downloads`);
      }
      for (const { cells } of rows) {
        assert.match(cells.slice(2).join("|"), /^200( cached)?\|[\d.]+ k?B\|[\d.]+ ms\|[\d.]+ ms$/, cells.join(" "));
      }
      const sums = await page.locator("[data-sums]").textContent();
      assert.match(sums, new RegExp(`^${rows.length} requests · [\\d.]+ [kM]B$`));
    }));

  for (const manifest of [".m3u8?hls_fmp4", "Manifest", ".f4m"]) {
    it(`opens the URL of a ${manifest} that is pasted into the field`, () =>
      visit({}, async (viewer, page) => {
        await page.getByLabel("Another title").fill(`${origin.address}ferry.mp4/${manifest}`);
        await page.getByRole("button", { name: "Open" }).click();
        await viewer.ready();
        await viewer.plays(1);
        assert.match(page.url(), /\?title=ferry\.mp4&protocol=dash&player=dash\.js$/);
      }));
  }

  it("links every manifest, also one that no player on the page supports", () =>
    visit({ title: "harbour" }, async (viewer, page) => {
      await viewer.ready();
      const links = await page.locator("#addresses a").evaluateAll((all) => all.map((a) => [a.textContent, a.href]));
      assert.deepEqual(
        links.map(([label, href]) => `${label} ${href.slice(origin.address.length)}`),
        [
          "DASH harbour/.mpd",
          "HLS TS harbour/.m3u8",
          "HLS CMAF harbour/.m3u8?hls_fmp4",
          "Smooth harbour/Manifest",
          "HDS harbour/.f4m",
        ],
      );
      const types = await Promise.all(links.map(async ([, href]) => (await fetch(href)).headers.get("content-type")));
      assert.deepEqual(types, [
        "application/dash+xml",
        "application/vnd.apple.mpegurl",
        "application/vnd.apple.mpegurl",
        "application/vnd.ms-sstr+xml",
        "application/f4m+xml",
      ]);
    }));

  for (const [protocol, player] of [["dash", "dash.js"], ["dash", "shaka"], ["hls-ts", "hls.js"]]) {
    it(`shows the origin's error for a title that does not exist (${player})`, () =>
      visit(
        { title: "no/such/title.mp4", protocol, player },
        async (viewer, page) => {
          await page.locator("#player[data-state=error]").waitFor();
          await page.getByText("The origin's response: 404").first().waitFor();
          assert.ok((await viewer.errors()).length >= 2, "the errors of the player and of the origin");
        },
        { faults: [/^HTTP 404: .*\/no\/such\/title\.mp4\//, /^console: Failed to load resource: .* 404/, /^console: .*404/] },
      ));
  }

  it("plays HEVC, or shows an error if this browser cannot", () =>
    visit({ title: "buoy.mp4", protocol: "dash", player: "shaka" }, async (viewer, page) => {
      const isSupported = await page.evaluate(() => MediaSource.isTypeSupported('video/mp4; codecs="hvc1.1.6.L60.90"'));
      if (isSupported) {
        await viewer.ready();
        await viewer.plays(1);
      } else {
        await page.locator("#player[data-state=error]").waitFor();
        assert.ok((await viewer.errors()).length > 0);
      }
    }));

  it("fits a narrow screen", () =>
    visit({ title: "harbour" }, async (viewer, page) => {
      await page.setViewportSize({ width: 360, height: 780 });
      await viewer.ready();
      const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(content <= screen, `${content} px of content on a screen of ${screen} px`);
    }));
});

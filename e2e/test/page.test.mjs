// The player page: the library, links to titles, the table of downloads, and errors.

import assert from "node:assert/strict";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";

/** More titles than the origin lists at a time. All but two are damaged. */
const MANY = 1005;

let origin;
let large;
let library;
let browser;
before(async () => {
  library = await mkdtemp(join(tmpdir(), "latemux-library-"));
  const name = (number) => join(library, `title-${String(number).padStart(4, "0")}.mp4`);
  for (let number = 0; number < MANY; number += 1) await writeFile(name(number), "not an MP4 file");
  for (const number of [2, 777]) await copyFile(new URL("../../samples/library/ferry.mp4", import.meta.url), name(number));
  [origin, large, browser] = await Promise.all([startOrigin(), startOrigin({ library }), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await Promise.all([origin?.stop(), large?.stop()]);
  if (library) await rm(library, { recursive: true });
});

/**
 * Opens the page with `query`, passes it to `use`, and checks afterwards that it recorded no fault.
 */
async function visit(query, use, { faults = [], script, at = origin } = {}) {
  const viewer = await PlayerPage.open(browser, at.address, query, script);
  try {
    await use(viewer, viewer.page);
  } finally {
    await viewer.close();
  }
  const unexpected = viewer.record.faults.filter((fault) => !faults.some((allowed) => allowed.test(fault)));
  assert.deepEqual(unexpected, []);
}

/** Simulates a browser that decodes no HEVC. */
const withoutHevc = () => {
  const isTypeSupported = MediaSource.isTypeSupported.bind(MediaSource);
  MediaSource.isTypeSupported = (type) => !/hvc1|hev1/.test(type) && isTypeSupported(type);
};

/** Simulates a browser that says that it decodes everything. */
const withEverything = () => (MediaSource.isTypeSupported = () => true);

/** What the browser reports if the origin refuses a title that the page opens. */
const REFUSED = [/^HTTP 4\d\d: /, /^console: Failed to load resource: .* 4\d\d/];

/** Returns the texts that are longer than their place: entries of menus, and the manifest's URL. */
const cutOff = (page) =>
  page.evaluate(() => {
    const context = document.createElement("canvas").getContext("2d");
    const menus = [...document.querySelectorAll("select")].filter((menu) => {
      const style = getComputedStyle(menu);
      context.font = style.font;
      const text = context.measureText(menu.selectedOptions[0]?.label ?? "").width;
      // The arrow is as wide as a letter of the font is high.
      return text + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) + parseFloat(style.fontSize) > menu.clientWidth;
    });
    const manifest = document.querySelector("#manifest");
    const fits = manifest.scrollWidth <= manifest.clientWidth && manifest.scrollHeight <= manifest.clientHeight;
    return [...menus.map((menu) => menu.selectedOptions[0].label), ...(fits ? [] : [manifest.value])];
  });

/** Goes to the folder `harbour`, and opens the title that its files are. */
async function openHarbour(page) {
  await page.locator('#titles a[data-folder="harbour"]').click();
  await page.locator('#titles a[data-title="harbour"]').click();
  await page.waitForURL(/title=harbour/);
}

describe("page", { concurrency: 4 }, () => {
  it("lists the library and plays a title that is clicked", () =>
    visit({}, async (viewer, page) => {
      const titles = page.getByRole("navigation").getByRole("listitem");
      await titles.first().waitFor();
      const bases = await titles.locator("a").evaluateAll((links) => links.map((link) => link.dataset.title));
      assert.deepEqual(bases, [undefined, undefined, "buoy.mp4", "ferry.mp4", "lighthouse.mp4"]);

      await viewer.ready();
      viewer.record.action();
      await openHarbour(page);
      await viewer.ready();
      await viewer.plays(1);
      assert.match(page.url(), /\?folder=harbour&title=harbour&protocol=dash&player=dash\.js$/);
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
      // At the start, dash.js seeks to the time at which both audio and video have begun.
      const faults = protocol === "smooth" ? [/net::ERR_ABORTED.*Fragments\(\w+=0\)/] : [];
      it(`plays ${title} as ${protocol}`, () =>
        visit(
          { title, protocol },
          async (viewer) => {
            await viewer.ready();
            await viewer.plays(2);
            await viewer.seek(20.5);
            await viewer.playsOut();
            assert.deepEqual(await viewer.errors(), []);
          },
          { faults },
        ));
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
      // Read at one time, since the player goes on.
      const { rows, sums } = await page.evaluate(() => ({
        rows: [...document.querySelectorAll("#downloads tbody tr")].map((row) => ({
          kind: row.dataset.kind,
          cells: [...row.cells].map((cell) => cell.textContent),
        })),
        sums: document.querySelector("[data-sums]").textContent,
      }));
      for (const kind of ["manifest", "init", "segment"]) {
        assert.ok(rows.some((row) => row.kind === kind), `no ${kind} among the downloads`);
      }
      for (const { cells } of rows) {
        assert.match(cells.slice(2).join("|"), /^200( cached)?\|[\d.]+ k?B\|[\d.]+ ms\|[\d.]+ ms$/, cells.join(" "));
      }
      assert.match(sums, new RegExp(`^${rows.length} requests · [\\d.]+ [kM]B$`));
    }));

  for (const manifest of [".m3u8?hls_fmp4", "Manifest", ".f4m"]) {
    it(`opens the URL of a ${manifest} that is pasted into the field`, () =>
      visit({}, async (viewer, page) => {
        await viewer.ready();
        viewer.record.action();
        await page.getByLabel("Another title").fill(`${origin.address}ferry.mp4/${manifest}`);
        await page.getByRole("button", { name: "Open" }).click();
        await page.waitForURL(/title=ferry/);
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

  for (const [protocol, player] of [["dash", "dash.js"], ["dash", "shaka"], ["hls-ts", "hls.js"], ["smooth", "dash.js"]]) {
    it(`shows the sentence of the origin's error for a title that does not exist (${protocol}, ${player})`, () =>
      visit(
        { title: "no/such/title.mp4", protocol, player },
        async (viewer, page) => {
          await page.locator("#player[data-state=error]").waitFor();
          assert.deepEqual(await viewer.errors(), ["The origin's response: 404, no/such/title.mp4: not found (source_not_found)"]);
        },
        { faults: REFUSED },
      ));
  }

  it("shows the sentence of the origin's error for a file that is not MP4", () =>
    visit(
      { title: "title-0000.mp4" },
      async (viewer, page) => {
        await page.locator("#player[data-state=error]").waitFor();
        const [error, ...others] = await viewer.errors();
        assert.match(error, /^The origin's response: 415, title-0000\.mp4: \S+ .+ \(not_mp4\)$/);
        assert.deepEqual(others, []);
      },
      { faults: REFUSED, at: large },
    ));

  for (const player of ["dash.js", "shaka"]) {
    it(`shows the sentence of the origin's error for a segment, and no headers (${player})`, () =>
      visit(
        { title: "ferry.mp4", protocol: "dash", player },
        async (viewer, page) => {
          const body = JSON.stringify({ reason: "storage_unavailable", detail: "storage cannot be reached" });
          const headers = { "Latemux-Made-Up": "a header" };
          await page.route(/-video=.*-51200\.dash$/, (route) => route.fulfill({ status: 502, contentType: "application/json", headers, body }));
          await page.locator("#player[data-state=error]").waitFor({ timeout: 60_000 });
          await page.getByText("The origin's response: 502, storage cannot be reached (storage_unavailable)").waitFor();
          for (const error of await viewer.errors()) assert.doesNotMatch(error, /latemux-made-up|\[object|\{/i);
        },
        { faults: [/502/] },
      ));
  }

  it("opens with a title that this browser decodes, instead of HEVC with sound and no picture", () =>
    visit(
      {},
      async (viewer, page) => {
        await viewer.ready();
        assert.match(page.url(), /\?title=ferry\.mp4&protocol=dash&player=dash\.js$/);
        assert.equal(await page.evaluate(() => document.querySelector("video").paused), true);
        const note = await page.locator('#titles a[data-title="buoy.mp4"] .obstacle').textContent();
        assert.equal(note, "The video cannot be played here: this browser does not decode HEVC (hvc1.1.6.L60.90).");
      },
      { script: withoutHevc },
    ));

  for (const [protocol, player] of [["dash", "dash.js"], ["dash", "shaka"], ["hls-ts", "hls.js"], ["hls-cmaf", "hls.js"], ["smooth", "dash.js"]]) {
    it(`says that HEVC cannot be decoded, instead of playing the sound alone (${protocol}, ${player})`, () =>
      visit(
        { title: "buoy.mp4", protocol, player },
        async (viewer, page) => {
          await page.locator("#player[data-state=error]").waitFor();
          assert.deepEqual(await viewer.errors(), ["The video cannot be played here: this browser does not decode HEVC (hvc1.1.6.L60.90)."]);
        },
        { script: withoutHevc },
      ));
  }

  it("offers DASH for HEVC in Smooth Streaming, instead of playing the sound alone", () =>
    visit(
      { title: "buoy.mp4", protocol: "smooth" },
      async (viewer, page) => {
        await page.locator("#player[data-state=error]").waitFor();
        const sentence = "The video cannot be played here: the players on this page do not play HEVC in Smooth (ISM fragments).";
        assert.deepEqual(await viewer.errors(), [`${sentence} Play it as DASH`]);
        const link = page.getByRole("link", { name: "Play it as DASH" });
        assert.match(await link.evaluate((one) => one.href), /\?title=buoy\.mp4&protocol=dash&player=dash\.js$/);
      },
      { script: withEverything },
    ));

  it("opens a title from the library in DASH if the protocol chosen before cannot play it", () =>
    visit(
      { title: "lighthouse.mp4", protocol: "smooth" },
      async (viewer, page) => {
        // dash.js seeks to the time at which both audio and video have begun.
        viewer.record.action();
        await viewer.ready();
        viewer.record.action();
        await page.getByRole("link", { name: "buoy" }).click();
        await page.waitForURL(/\?title=buoy\.mp4&protocol=dash&player=dash\.js$/);
        viewer.record.action();
        await page.goBack();
        await page.waitForURL(/\?title=lighthouse\.mp4&protocol=smooth/);
      },
      // dash.js cancels what it has requested from before the time to which it seeks.
      { script: withEverything, faults: [/^request dropped \(net::ERR_ABORTED\): .*Fragments/] },
    ));

  it("says which rendition this browser cannot decode, and plays the others", () =>
    visit(
      { title: "harbour" },
      async (viewer, page) => {
        await page.locator("#player[data-state=ready]").waitFor();
        await viewer.plays(1);
        const [error, ...others] = await viewer.errors();
        assert.match(error, /^The video \(360p · \d+ kb\/s\) cannot be played here: this browser decodes AVC, but not this profile or level \(avc1\.64\w+\)\.$/);
        assert.deepEqual(others, []);
        assert.deepEqual(await viewer.heights(), [234, 180]);
      },
      {
        script: () => {
          const isTypeSupported = MediaSource.isTypeSupported.bind(MediaSource);
          MediaSource.isTypeSupported = (type) => !/avc1\.64/.test(type) && isTypeSupported(type);
          navigator.mediaCapabilities.decodingInfo = async ({ video }) => {
            const supported = !/avc1\.64/.test(video?.contentType ?? "");
            return { supported, smooth: supported, powerEfficient: supported };
          };
        },
      },
    ));

  it("says that a title has neither video nor audio, instead of reporting a player's error", () =>
    visit({}, async (viewer, page) => {
      await viewer.ready();
      viewer.record.action();
      const body = '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period><AdaptationSet mimeType="text/vtt"><Representation/></AdaptationSet></Period></MPD>';
      await page.route("**/harbour/.mpd", (route) => route.fulfill({ contentType: "application/dash+xml", body }));
      await openHarbour(page);
      await page.locator("#player[data-state=error]").waitFor();
      assert.deepEqual(await viewer.errors(), ["The title has neither video nor audio."]);
    }));

  it("opens another title although the origin does not respond for the one before", () =>
    visit(
      {},
      async (viewer, page) => {
        await viewer.ready();
        viewer.record.action();
        await page.route("**/lighthouse.mp4/.mpd", () => {});
        const requested = page.waitForRequest("**/lighthouse.mp4/.mpd");
        await page.getByRole("link", { name: "lighthouse" }).click();
        await requested;
        viewer.record.action();
        await openHarbour(page);
        await viewer.ready();
        await viewer.plays(1);
      },
      { faults: [/net::ERR_ABORTED.*lighthouse\.mp4\/\.mpd/] },
    ));

  for (const width of [320, 390, 768, 1440]) {
    it(`cuts off no text on a screen of ${width} px`, () =>
      visit({ title: "harbour" }, async (viewer, page) => {
        await page.setViewportSize({ width, height: 800 });
        await viewer.ready();
        await page.waitForFunction(() => /\(.*\)/.test(document.querySelector("#rendition").selectedOptions[0].label));
        assert.deepEqual(await cutOff(page), []);
      }));
  }

  it("lists a large folder page by page, and searches what is listed", () =>
    visit(
      {},
      async (viewer, page) => {
        // The first two titles are damaged.
        await viewer.ready();
        assert.match(page.url(), /title=title-0002\.mp4/);
        assert.equal(await page.locator("#titles .obstacle").count(), 2);
        const titles = page.locator("#titles li:visible");
        assert.equal(await titles.count(), 500);
        assert.equal(await page.locator("#found").textContent(), "500 listed");
        await page.getByText("The search covers only what is listed.").waitFor();
        const height = await page.evaluate(() => document.documentElement.scrollHeight);
        assert.ok(height < 3000, `${height} px high`);

        viewer.record.action();
        const find = page.getByLabel("Search the names listed here");
        await find.fill("mp4 0777");
        assert.equal(await titles.count(), 0);
        await page.getByRole("button", { name: "More" }).click();
        await page.getByText("1 of 1,000 listed").waitFor();
        assert.deepEqual(await titles.allTextContents(), ["title-0777 title-0777.mp4"]);
        await find.focus();
        await page.keyboard.press("Enter");
        await page.waitForURL(/title=title-0777\.mp4/);
        await viewer.ready();
        await viewer.plays(1);

        await find.fill("");
        assert.equal(await titles.count(), 1000);
        await page.getByRole("button", { name: "More" }).click();
        await page.getByText("1,005 listed").waitFor();
        assert.equal(await page.getByRole("button", { name: "More" }).count(), 0);
        assert.equal(await page.locator("#library-note").isVisible(), false);
      },
      { faults: REFUSED, at: large },
    ));

  it("goes through folders and back while a title plays, and names the folder in its URL", () =>
    visit({ title: "ferry.mp4", protocol: "dash" }, async (viewer, page) => {
      await viewer.ready();
      await viewer.plays(1);
      await page.locator('#titles a[data-folder="harbour"]').click();
      await page.waitForURL(/\?folder=harbour&title=ferry\.mp4&protocol=dash/);
      await page.locator('#titles a[data-title="harbour"]').waitFor();
      assert.equal(await page.locator("#trail").textContent(), "Libraryharbour");
      await viewer.plays(0.5);
      await page.goBack();
      await page.locator('#titles a[data-title="buoy.mp4"]').waitFor();
      await page.goForward();
      await page.locator('#titles a[data-title="harbour"]').waitFor();
      await page.getByRole("navigation").getByRole("link", { name: "Library" }).click();
      await page.locator('#titles a[data-title="buoy.mp4"]').waitFor();
      assert.match(page.url(), /\/\?title=ferry\.mp4/);
      await viewer.plays(0.5);

      viewer.record.action();
      await page.goto(`${origin.address}?folder=harbour`);
      await viewer.ready();
      assert.match(page.url(), /\?folder=harbour&title=harbour/);
    }));

  it("says that a folder does not exist, and leads back", () =>
    visit(
      { folder: "no/such" },
      async (viewer, page) => {
        await page.getByText("The library cannot be loaded. The origin's response: 404, no/such: not found").waitFor();
        await page.getByRole("navigation").getByRole("link", { name: "Library" }).click();
        await page.locator('#titles a[data-title="buoy.mp4"]').waitFor();
      },
      // The page opens a title when there is one to open.
      { faults: REFUSED },
    ));

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
    visit({ folder: "harbour", title: "harbour" }, async (viewer, page) => {
      await page.setViewportSize({ width: 320, height: 780 });
      await viewer.ready();
      const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(content <= screen, `${content} px of content on a screen of ${screen} px`);
      const outside = await page.evaluate(() => {
        const main = document.querySelector("main");
        const edge = main.getBoundingClientRect().right - parseFloat(getComputedStyle(main).paddingRight);
        const parts = [...main.querySelectorAll("*")].filter((part) => part.getBoundingClientRect().right > edge + 0.5);
        return parts.map((part) => part.outerHTML.slice(0, 80));
      });
      assert.deepEqual(outside, [], "parts reach into the margin");
    }));
});

// Uses the player page as a viewer does: through its menus and the controls of the video element.

import assert from "node:assert/strict";
import { Record } from "./browser.mjs";

/** The protocols of the page and the players of each, other than that of the browser itself. */
export const COMBINATIONS = [
  { protocol: "dash", player: "dash.js" },
  { protocol: "dash", player: "shaka" },
  { protocol: "hls-ts", player: "hls.js" },
  { protocol: "hls-cmaf", player: "hls.js" },
  { protocol: "hls-ts", player: "shaka" },
  { protocol: "hls-cmaf", player: "shaka" },
  { protocol: "smooth", player: "dash.js" },
];

const WAIT = { timeout: 60_000, polling: 50 };

export class PlayerPage {
  #page;
  #context;
  #origin;

  /**
   * Opens the page with `query`. If there is a `script`, it runs in the browser before the page.
   */
  static async open(browser, origin, query, script) {
    return PlayerPage.#open(browser, origin, `?${new URLSearchParams(query)}`, {}, script);
  }

  /**
   * Opens a page of these tests as if the origin served it. `files` maps names below `e2e/` to
   * paths on disk. The page has the same elements as the player page of the origin.
   */
  static async openOwn(browser, origin, page, query, files) {
    return PlayerPage.#open(browser, origin, `e2e/${page}?${new URLSearchParams(query)}`, files);
  }

  /**
   * Opens the page, and holds its requests for keys and licences back until `giveKeys` is called.
   */
  static async openWithoutKeys(browser, origin, query) {
    let giveKeys;
    const given = new Promise((resolve) => (giveKeys = resolve));
    const keys = { asked: 0 };
    const hold = async (route) => {
      keys.asked += 1;
      await given;
      await route.continue();
    };
    const prepare = (page) => page.route((url) => url.pathname.includes("/keys/"), hold);
    const driver = await PlayerPage.#open(browser, origin, `?${new URLSearchParams(query)}`, {}, undefined, prepare);
    driver.keys = keys;
    driver.giveKeys = giveKeys;
    return driver;
  }

  static async #open(browser, origin, path, files, script, prepare) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    await page.route(`${origin}e2e/**`, (route) => {
      const path = files[new URL(route.request().url()).pathname.slice("/e2e/".length)];
      return path === undefined ? route.abort() : route.fulfill({ path });
    });
    if (script) await page.addInitScript(script);
    await prepare?.(page);
    const driver = new PlayerPage(context, page, origin);
    await page.goto(origin + path);
    return driver;
  }

  constructor(context, page, origin) {
    this.#context = context;
    this.#page = page;
    this.#origin = origin;
    this.record = new Record(page, origin);
  }

  get page() {
    return this.#page;
  }

  close() {
    this.record.action();
    return this.#context.close();
  }

  /**
   * Waits until the player has read the manifest and the duration is known. Fails with the player's
   * errors, except those that `isExpected` accepts.
   */
  async ready(isExpected = () => false) {
    await this.until("the player to be ready", () => {
      const { state } = document.querySelector("#player").dataset;
      return (state === "ready" && document.querySelector("video").readyState > 0) || state === "error";
    });
    const errors = (await this.errors()).filter((error) => !isExpected(error));
    assert.deepEqual(errors, [], "the player reports errors");
  }

  /**
   * Waits until `player` has opened the title in `protocol`, after the previous player was closed.
   */
  async opened(protocol, player) {
    await this.#page.locator(`#player[data-protocol="${protocol}"][data-player="${player}"]`).waitFor();
    await this.ready();
    const query = new URL(this.#page.url()).searchParams;
    assert.deepEqual([query.get("protocol"), query.get("player")], [protocol, player], "the query of the page's address");
  }

  /** Returns the errors of the player so far, fatal or not. */
  errors() {
    return this.#page.locator("#player [role=alert] p").allTextContents();
  }

  /**
   * Returns the state of the video element: times in seconds; counts of bytes and frames since the
   * load.
   */
  state() {
    return this.#page.evaluate(() => {
      const video = document.querySelector("video");
      return {
        time: video.currentTime,
        duration: video.duration,
        height: video.videoHeight,
        ended: video.ended,
        audioBytes: video.webkitAudioDecodedByteCount,
        videoBytes: video.webkitVideoDecodedByteCount,
        frames: video.getVideoPlaybackQuality().totalVideoFrames,
      };
    });
  }

  /** Plays for `seconds`, and checks that audio and video were decoded meanwhile. */
  async plays(seconds) {
    const before = await this.state();
    await this.until(
      `playback of ${seconds} s from ${before.time} s on`,
      (end) => document.querySelector("video").currentTime >= end,
      Math.min(before.time + seconds, before.duration - 0.05),
    );
    const after = await this.state();
    assert.ok(after.audioBytes > before.audioBytes, `no audio decoded after ${before.time} s`);
    assert.ok(after.videoBytes > before.videoBytes, `no video decoded after ${before.time} s`);
    assert.ok(after.frames > before.frames, `no frame shown after ${before.time} s`);
  }

  /** Plays for `seconds`, with or without a picture. */
  async passes(seconds) {
    const { time, duration } = await this.state();
    await this.until(
      `${seconds} s to pass from ${time} s on`,
      (end) => document.querySelector("video").currentTime >= end,
      Math.min(time + seconds, duration - 0.05),
    );
  }

  /** Seeks to `seconds` and waits until playback continues from there. */
  async seek(seconds) {
    this.record.action();
    await this.#page.evaluate((to) => (document.querySelector("video").currentTime = to), seconds);
    await this.until(
      `playback to continue at ${seconds} s`,
      (to) => {
        const video = document.querySelector("video");
        return !video.seeking && video.currentTime > to + 0.2 && video.currentTime < to + 10;
      },
      seconds,
    );
  }

  /** Plays until everything up to the end of the title is buffered. */
  async buffersToEnd() {
    await this.until("the end of the title to be buffered", () => {
      const { buffered, duration } = document.querySelector("video");
      return buffered.length > 0 && buffered.end(buffered.length - 1) > duration - 0.1;
    });
  }

  /** Pauses, seeks to `seconds` and waits until the frame there is on screen. */
  async pauseAt(seconds) {
    this.record.action();
    await this.#page.evaluate(async (to) => {
      const video = document.querySelector("video");
      video.pause();
      video.currentTime = to;
    }, seconds);
    await this.until("a frame to be shown", () => {
      const video = document.querySelector("video");
      return !video.seeking && video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA;
    });
    // Two frames of the page: the second one is painted with the video's frame.
    await this.#page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))),
    );
  }

  /**
   * Plays to the end of the title: everything is buffered, and all but the last half second was
   * played. dash.js sometimes pauses half a second before the end, its threshold for a stall,
   * before it has marked the last segments as the last.
   */
  async playsOut() {
    await this.until("the title to end", () => {
      const { ended, buffered, currentTime, duration } = document.querySelector("video");
      const end = buffered.length === 0 ? 0 : buffered.end(buffered.length - 1);
      return ended || (end > duration - 0.1 && currentTime > duration - 0.6);
    });
    const { time, duration } = await this.state();
    assert.ok(Math.abs(time - duration) < 0.6, `ended at ${time} s of ${duration} s`);
  }

  /** Chooses the rendition with `height` lines and waits until the video element shows it. */
  async chooseHeight(height) {
    const value = await this.#page.locator(`#rendition option[data-height="${height}"]`).first().getAttribute("value");
    this.record.action();
    await this.#page.locator("#rendition").selectOption(value);
    await this.until(`${height} lines on screen`, (h) => document.querySelector("video").videoHeight === h, height);
  }

  /** Returns the heights in the menu, highest first. */
  heights() {
    return this.#page
      .locator("#rendition option[data-height]")
      .evaluateAll((options) => options.map((option) => Number(option.dataset.height)));
  }

  /** Chooses subtitles by their BCP 47 tag, as soon as the menu has them. */
  async chooseSubtitles(tag) {
    const option = this.#page.locator(`#subtitles option[data-tag="${tag}"]`);
    await option.waitFor({ state: "attached" });
    this.record.action();
    await this.#page.locator("#subtitles").selectOption(await option.getAttribute("value"));
  }

  /** Returns the BCP 47 tags in the menu. */
  async languages() {
    return this.#page.locator("#language option").evaluateAll((options) => options.map(({ dataset }) => dataset.tag));
  }

  async chooseLanguage(tag) {
    const value = await this.#page.locator(`#language option[data-tag="${tag}"]`).getAttribute("value");
    this.record.action();
    await this.#page.locator("#language").selectOption(value);
  }

  /** Waits until the loudest tone of the video element is `hertz`. */
  async hears(hertz) {
    await this.#page.evaluate(async () => {
      if (window.loudestTone) return;
      const context = new AudioContext();
      const analyser = new AnalyserNode(context, { fftSize: 8192, smoothingTimeConstant: 0 });
      context.createMediaElementSource(document.querySelector("video")).connect(analyser).connect(context.destination);
      await context.resume();
      const levels = new Float32Array(analyser.frequencyBinCount);
      window.loudestTone = () => {
        analyser.getFloatFrequencyData(levels);
        const peak = levels.indexOf(Math.max(...levels));
        // Digital silence has no tone.
        return levels[peak] > -80 ? (peak * context.sampleRate) / analyser.fftSize : 0;
      };
    });
    // The tolerance is two bins of the transform on either side.
    await this.until(`a tone of ${hertz} Hz`, (hz) => Math.abs(window.loudestTone() - hz) < 12, hertz);
  }

  /**
   * Waits for a condition. The error states what was expected, and the state of the video element.
   */
  async until(what, condition, argument) {
    try {
      await this.#page.waitForFunction(condition, argument, WAIT);
    } catch (error) {
      const state = { ...(await this.state()), errors: await this.errors(), faults: this.record.faults };
      throw new Error(`no success within the time limit: ${what}: ${JSON.stringify(state)}`, { cause: error });
    }
  }
}

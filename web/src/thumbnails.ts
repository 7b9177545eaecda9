// The seek bar of titles with thumbnails, which shows the picture of the time it points at.

import { addressOf, type Selection } from "./address";
import { request } from "./origin";

/** The part of a sheet that is shown for a time. */
export interface Tile {
  /** Seconds from the start of what is played. */
  readonly start: number;
  readonly end: number;
  readonly url: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

const CUE = /^(\d+):(\d\d):(\d\d\.\d{3}) --> (\d+):(\d\d):(\d\d\.\d{3})\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)$/gm;

/** Returns the tiles of a storyboard in WebVTT, whose URLs are relative to `address`. */
export function tilesIn(storyboard: string, address: string): Tile[] {
  return [...storyboard.matchAll(CUE)].map(([, h, m, s, eh, em, es, url, ...area]) => {
    const [x, y, width, height] = area.map(Number) as [number, number, number, number];
    const seconds = (hours = "0", minutes = "0", rest = "0") => (Number(hours) * 60 + Number(minutes)) * 60 + Number(rest);
    return { start: seconds(h, m, s), end: seconds(eh, em, es), url: new URL(url!, address).href, x, y, width, height };
  });
}

/** Reads the storyboard of a title. Rejects if the origin refuses it. */
export async function readTiles(title: Pick<Selection, "title" | "part">, signal: AbortSignal): Promise<Tile[]> {
  const address = addressOf(title, "/title-thumbs.vtt");
  return tilesIn(await (await request(address, signal)).text(), address);
}

/** Formats seconds as h:mm:ss or m:ss. */
function clock(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = String(Math.floor(seconds) % 60).padStart(2, "0");
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

export class SeekBar {
  readonly #root: HTMLElement;
  readonly #range: HTMLInputElement;
  readonly #preview: HTMLElement;
  readonly #tile: HTMLElement;
  readonly #time: HTMLElement;
  readonly #video: HTMLVideoElement;
  #tiles: readonly Tile[] = [];

  constructor(root: HTMLElement, video: HTMLVideoElement) {
    this.#root = root;
    this.#video = video;
    this.#range = root.querySelector("input")!;
    this.#preview = root.querySelector(".preview")!;
    this.#tile = root.querySelector(".tile")!;
    this.#time = root.querySelector("time")!;
    for (const event of ["timeupdate", "durationchange", "seeked"]) video.addEventListener(event, () => this.#follow());
    this.#range.addEventListener("pointermove", (event) => {
      const { left, width } = this.#range.getBoundingClientRect();
      this.#show(((event.clientX - left) / width) * this.#length);
    });
    this.#range.addEventListener("pointerleave", () => this.#hide());
    this.#range.addEventListener("blur", () => this.#hide());
    this.#range.addEventListener("input", () => {
      const time = Number(this.#range.value);
      this.#show(time);
      video.currentTime = time;
    });
  }

  /** Shows the bar for these tiles. Without any, hides it. */
  set tiles(tiles: readonly Tile[]) {
    this.#tiles = tiles;
    this.#root.hidden = tiles.length === 0;
    this.#hide();
    this.#follow();
  }

  get #length(): number {
    return Number.isFinite(this.#video.duration) ? this.#video.duration : 0;
  }

  #follow(): void {
    if (this.#root.hidden) return;
    this.#range.max = String(this.#length);
    this.#range.value = String(this.#video.currentTime);
    this.#range.setAttribute("aria-valuetext", clock(this.#video.currentTime));
  }

  #show(seconds: number): void {
    const time = Math.min(Math.max(seconds, 0), this.#length);
    const tile = this.#tiles.find(({ start, end }) => time >= start && time < end) ?? this.#tiles.at(-1);
    if (!tile) return;
    const { style, dataset } = this.#tile;
    style.width = `${tile.width}px`;
    style.height = `${tile.height}px`;
    style.backgroundImage = `url("${tile.url}")`;
    style.backgroundPosition = `-${tile.x}px -${tile.y}px`;
    dataset.start = String(tile.start);
    this.#time.textContent = clock(time);
    this.#preview.hidden = false;
    const share = this.#length > 0 ? time / this.#length : 0;
    // The preview stays within the bar.
    const room = this.#range.clientWidth - this.#preview.offsetWidth;
    const left = share * this.#range.clientWidth - this.#preview.offsetWidth / 2;
    this.#preview.style.left = `${Math.min(Math.max(left, 0), Math.max(room, 0))}px`;
  }

  #hide(): void {
    this.#preview.hidden = true;
  }
}

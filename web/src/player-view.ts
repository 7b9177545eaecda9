// The player's part of the page: menus, state, errors, and the status line.

import type { Selection } from "./address";
import { renditionLabel } from "./labels";
import type { Choice, Failure, Playing, Session } from "./session";

export type State = "idle" | "loading" | "ready" | "error";

const AUTOMATIC = "auto";
const OFF = "off";

export class PlayerView {
  readonly video: HTMLVideoElement;
  readonly #root: HTMLElement;
  readonly #rendition: HTMLSelectElement;
  readonly #language: HTMLSelectElement;
  readonly #subtitles: HTMLSelectElement;
  readonly #playing: HTMLElement;
  readonly #alert: HTMLElement;
  readonly #status: HTMLElement;
  readonly #encryption: HTMLElement;
  #session: Session | null = null;

  constructor(root: HTMLElement) {
    this.#root = root;
    this.video = root.querySelector("video")!;
    this.#rendition = root.querySelector("#rendition")!;
    this.#language = root.querySelector("#language")!;
    this.#subtitles = root.querySelector("#subtitles")!;
    this.#playing = root.querySelector("[data-playing]")!;
    this.#alert = root.querySelector("[role=alert]")!;
    this.#status = root.querySelector("[data-now]")!;
    this.#encryption = root.querySelector("[data-encryption]")!;

    this.#rendition.addEventListener("change", () => {
      const id = this.#rendition.value;
      this.#session?.chooseRendition(id === AUTOMATIC ? null : id);
      this.refresh();
    });
    this.#language.addEventListener("change", () => {
      this.#session?.chooseLanguage(this.#language.value);
      this.refresh();
    });
    this.#subtitles.addEventListener("change", () => {
      const id = this.#subtitles.value;
      this.#session?.chooseSubtitles(id === OFF ? null : id);
      this.refresh();
    });
    for (const event of ["timeupdate", "resize", "progress", "seeked", "emptied"]) {
      this.video.addEventListener(event, () => this.#showStatus());
    }
  }

  set state(state: State) {
    this.#root.dataset.state = state;
  }

  /** Connects the menus to `session`; null empties them. */
  attach(session: Session | null): void {
    this.#session = session;
    this.refresh();
  }

  /** Resets the view for a new selection, after the session before it was closed. */
  begin({ protocol, player }: Selection): void {
    this.attach(null);
    this.state = "loading";
    this.#root.dataset.protocol = protocol;
    this.#root.dataset.player = player;
    this.#root.dataset.errors = "0";
    delete this.#root.dataset.barred;
    this.showEncryption(null);
    this.#alert.replaceChildren();
    this.#alert.hidden = true;
  }

  /** Shows another error. A fatal one sets the state to `error`. */
  showFailure({ message, fatal }: Failure): void {
    this.#root.dataset.errors = String(Number(this.#root.dataset.errors ?? "0") + 1);
    if (fatal) this.state = "error";
    this.#showLine(fatal ? message : `${message} (playback continues)`, fatal ? "fatal" : "notice");
  }

  /** Shows scheme and keys of an encrypted title. */
  showEncryption(encryption: string | null): void {
    this.#encryption.textContent = encryption ?? "";
    this.#encryption.hidden = encryption === null;
  }

  /** Shows what is left out while the rest plays. */
  showNotice(message: string): void {
    this.#showLine(message, "notice");
  }

  /** Shows that the selection cannot be played, and a link to one that can be, if there is one. */
  showObstacle(message: string, link: HTMLAnchorElement | null): void {
    this.state = "error";
    this.#root.dataset.barred = "";
    this.#showLine(message, "fatal", ...(link ? [" ", link] : []));
  }

  /** Players may report the same error for each attempt; it is shown once. */
  #showLine(text: string, kind: "fatal" | "notice", ...more: (Node | string)[]): void {
    if ([...this.#alert.children].some((line) => line.textContent === text)) return;
    const line = document.createElement("p");
    line.className = kind;
    line.append(text, ...more);
    this.#alert.append(line);
    this.#alert.hidden = false;
  }

  /** Fills the menus with the renditions and languages of the session. */
  refresh(): void {
    const renditions = this.#session?.renditions() ?? [];
    const active = renditions.find((one) => one.active);
    const automatic = this.#session?.automatic() ?? true;
    const first = active ? `Automatic (${active.label})` : "Automatic";
    const heights = renditions.map((one) => one.height);
    fill(this.#rendition, [{ id: AUTOMATIC, label: first, active: automatic }, ...renditions], automatic);
    for (const [place, height] of heights.entries()) {
      const option = this.#rendition.options[place + 1];
      if (option && height !== null) option.dataset.height = String(height);
    }
    this.#rendition.disabled = renditions.length < 2;

    const languages = withNumbers(this.#session?.languages() ?? []);
    fill(this.#language, languages, false);
    for (const [place, { tag }] of languages.entries()) this.#language.options[place]!.dataset.tag = tag;
    this.#language.disabled = languages.length < 2;
    const subtitles = withNumbers(this.#session?.subtitles() ?? []);
    const isOff = !subtitles.some((one) => one.active);
    fill(this.#subtitles, [{ id: OFF, label: "Off", active: isOff }, ...subtitles], isOff);
    for (const [place, { tag }] of subtitles.entries()) this.#subtitles.options[place + 1]!.dataset.tag = tag;
    this.#subtitles.disabled = subtitles.length === 0;
    const playing = this.#session?.playing() ?? [];
    this.#playing.textContent = playing.map(playingLabel).join(" · ");
    this.#playing.hidden = playing.length === 0;
    this.#root.dataset.language = languages.find((one) => one.active)?.tag ?? "";
    this.#showStatus();
  }

  #showStatus(): void {
    const { video } = this;
    const parts: string[] = [];
    if (video.videoWidth > 0) parts.push(`${video.videoWidth} × ${video.videoHeight}`);
    if (video.readyState > 0) parts.push(`${ahead(video).toFixed(1)} s buffered ahead`);
    const frames = video.getVideoPlaybackQuality();
    if (frames.totalVideoFrames > 0) {
      parts.push(`${frames.droppedVideoFrames} of ${frames.totalVideoFrames} frames dropped`);
    }
    this.#status.textContent = parts.join(" · ");
  }
}

/** Returns the codec and the bit rate of what plays, such as "avc1.64001f, 151 kb/s". */
function playingLabel({ codec, bitrate }: Playing): string {
  return bitrate ? `${codec}, ${renditionLabel(null, bitrate)}` : codec;
}

/** Numbers the entries whose label is also that of another one. */
function withNumbers<C extends Choice>(choices: readonly C[]): C[] {
  return choices.map((one, place) => {
    const same = (other: Choice) => other.label === one.label;
    if (choices.filter(same).length === 1) return one;
    return { ...one, label: `${one.label} ${choices.slice(0, place + 1).filter(same).length}` };
  });
}

/**
 * Replaces a menu's entries if they differ. Replacing equal ones would close a menu that is open.
 */
function fill(menu: HTMLSelectElement, choices: readonly Choice[], firstIsActive: boolean): void {
  const shown = Array.from(menu.options, (option) => `${option.value}\n${option.label}`).join("\n");
  if (shown !== choices.map((one) => `${one.id}\n${one.label}`).join("\n")) {
    menu.replaceChildren(...choices.map((one) => new Option(one.label, one.id)));
  }
  const active = firstIsActive ? choices[0] : choices.findLast((one) => one.active);
  if (active) menu.value = active.id;
}

/** Returns the seconds that can be played without another download. */
function ahead(video: HTMLVideoElement): number {
  for (let range = 0; range < video.buffered.length; range += 1) {
    const end = video.buffered.end(range);
    if (video.buffered.start(range) <= video.currentTime && video.currentTime <= end) return end - video.currentTime;
  }
  return 0;
}

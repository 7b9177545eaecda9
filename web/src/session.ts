// The interface between the page and a player.

/** One entry of a menu. */
export interface Choice {
  /** Identifies the entry within one session. */
  readonly id: string;
  readonly label: string;
  /** True for the chosen entry; with automatic choice, for the one that is loaded. */
  readonly active: boolean;
}

export interface Rendition extends Choice {
  /** Height of the video in lines, or null if the manifest does not state it. */
  readonly height: number | null;
}

export interface Language extends Choice {
  /** BCP 47 tag in its shortest form ("en", not "eng"); "und" if unknown. */
  readonly tag: string;
}

/** A track that plays. */
export interface Playing {
  /** The codec as RFC 6381 states it. */
  readonly codec: string;
  /** Bit rate in bit/s, or null if the manifest does not state it. */
  readonly bitrate: number | null;
}

export interface Session {
  /**
   * Returns the video renditions, highest first. Empty until the manifest is read, and if the
   * browser hides them.
   */
  renditions(): Rendition[];
  /** Returns true while the player chooses the rendition. */
  automatic(): boolean;
  /** Chooses a rendition; with `null` the player chooses. */
  chooseRendition(id: string | null): void;
  languages(): Language[];
  chooseLanguage(id: string): void;
  /** Returns the subtitles. None is active while they are off. */
  subtitles(): Language[];
  /** Chooses subtitles; `null` turns them off. */
  chooseSubtitles(id: string | null): void;
  /** Returns what plays: video and audio. Empty if the player does not tell. */
  playing(): Playing[];
  close(): Promise<void>;
}

export interface Failure {
  readonly message: string;
  /** The URL that could not be loaded, if that is the cause. */
  readonly url?: string | undefined;
  /** False if the player reports that playback continues. */
  readonly fatal: boolean;
}

/** Receives the events of a session. There are none after `close`. */
export interface Listener {
  /** The manifest was read, and the menus can be filled. */
  ready(): void;
  /** The choices or the active choice have changed. */
  changed(): void;
  failed(failure: Failure): void;
}

/** Starts a player on `video`. Rejects only if the player's code cannot be loaded or started. */
export type OpenSession = (video: HTMLVideoElement, manifest: string, listener: Listener) => Promise<Session>;

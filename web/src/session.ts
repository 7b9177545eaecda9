// What the page needs from a player, whichever library it is.

/** One entry of a menu. */
export interface Choice {
  /** Names the entry to the player; only meaningful within one session. */
  readonly id: string;
  readonly label: string;
  /** True for the entry now chosen (with automatic choice: now loaded). */
  readonly active: boolean;
}

export interface Rendition extends Choice {
  /** Lines of the picture, or null where the manifest does not say. */
  readonly height: number | null;
}

export interface Language extends Choice {
  /** BCP 47 tag in its shortest form ("en", not "eng"); "und" where unknown. */
  readonly tag: string;
}

export interface Session {
  /** Video renditions, highest first; empty until the manifest is read, or where the browser keeps them to itself. */
  renditions(): Rendition[];
  /** True while the player picks the rendition by itself. */
  automatic(): boolean;
  /** `null` lets the player choose by itself. */
  chooseRendition(id: string | null): void;
  languages(): Language[];
  chooseLanguage(id: string): void;
  close(): Promise<void>;
}

export interface Failure {
  readonly message: string;
  /** False where the player says it goes on by itself. */
  readonly fatal: boolean;
}

/** Calls a session makes while it lives; none after `close`. */
export interface Listener {
  /** The manifest has been read: the menus can be filled. */
  ready(): void;
  /** What is chosen or what there is to choose from has changed. */
  changed(): void;
  failed(failure: Failure): void;
}

/** Starts a player on `video`. Rejects only where the player's code itself cannot be loaded or started. */
export type OpenSession = (video: HTMLVideoElement, manifest: string, listener: Listener) => Promise<Session>;

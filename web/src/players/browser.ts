// HLS by the browser's native player, which exposes no renditions and few languages.

import { languageLabel, languageTag } from "../labels";
import type { Language, OpenSession } from "../session";

/** `HTMLMediaElement.audioTracks` (HTML, 4.8.11.10.1), which not every browser supports. */
interface WithAudioTracks {
  readonly audioTracks?: ArrayLike<{ id: string; language: string; enabled: boolean }> & EventTarget;
}

export const open: OpenSession = async (video, manifest, listener) => {
  const stop = new AbortController();
  const tracks = () => Array.from((video as WithAudioTracks).audioTracks ?? []);

  const texts = () => Array.from(video.textTracks).filter(({ kind }) => kind === "subtitles" || kind === "captions");

  video.addEventListener("loadedmetadata", () => listener.ready(), { signal: stop.signal });
  video.addEventListener(
    "error",
    () => listener.failed({ message: `Native player: ${video.error?.message || "cannot play this title"}`, fatal: true }),
    { signal: stop.signal },
  );
  (video as WithAudioTracks).audioTracks?.addEventListener("change", () => listener.changed(), { signal: stop.signal });
  video.src = manifest;

  return {
    renditions: () => [],
    automatic: () => true,
    chooseRendition() {},
    languages(): Language[] {
      return tracks().map((track) => {
        const tag = languageTag(track.language);
        return { id: track.id, tag, label: languageLabel(tag), active: track.enabled };
      });
    },
    chooseLanguage(id) {
      for (const track of tracks()) track.enabled = track.id === id;
    },
    subtitles(): Language[] {
      return texts().map((track, index) => {
        const tag = languageTag(track.language);
        return { id: String(index), tag, label: track.label || languageLabel(tag), active: track.mode === "showing" };
      });
    },
    chooseSubtitles(id) {
      for (const [index, track] of texts().entries()) track.mode = String(index) === id ? "showing" : "disabled";
    },
    playing: () => [],
    async close() {
      stop.abort();
      video.removeAttribute("src");
      video.load();
    },
  };
};

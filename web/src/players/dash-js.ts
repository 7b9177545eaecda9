// DASH with dash.js, and Smooth Streaming with its extension.

import { MediaPlayer, type MediaInfo, type Representation } from "dashjs";
import { clearKeyAddress } from "../encryption";
import { languageLabel, languageTag, renditionLabel } from "../labels";
import type { OpenSession } from "../session";

export const open: OpenSession = async (video, manifest, listener) => {
  // The extension registers itself with the player.
  if (/\/manifest(\?|$)/i.test(manifest)) await import("dashjs/mss");
  const player = MediaPlayer().create();
  const events = MediaPlayer.events;
  let automatic = true;

  player.initialize();
  player.updateSettings({
    debug: { logLevel: 0 },
    streaming: {
      // On-demand playback needs no clock.
      utcSynchronization: { enabled: false },
      buffer: { fastSwitchEnabled: true },
      trackSwitchMode: { audio: "alwaysReplace" },
    },
  });
  player.on(events.STREAM_INITIALIZED, () => listener.ready());
  for (const change of [events.QUALITY_CHANGE_RENDERED, events.TRACK_CHANGE_RENDERED, events.TEXT_TRACKS_ADDED] as const) {
    player.on(change, () => listener.changed());
  }
  player.on(events.ERROR, (event) => {
    const { error } = event as { error: string | { code?: number; message?: string; data?: { request?: { url?: string } } } };
    const url = typeof error === "string" ? undefined : error.data?.request?.url;
    const message = typeof error === "string" ? error : `${error.message ?? "unknown error"} (${error.code ?? "?"})`;
    // dash.js does not tell which errors end playback, and has already retried the others.
    listener.failed({ message: `dash.js: ${message}`, url, fatal: true });
  });
  player.attachView(video);
  // dash.js draws timed text into this element, over the video.
  const captions = document.createElement("div");
  captions.className = "captions";
  video.after(captions);
  player.attachTTMLRenderingDiv(captions);
  player.setAutoPlay(false);
  // The address in the manifest is relative, and dash.js would take it as one of this page.
  player.setProtectionData({ "org.w3.clearkey": { serverURL: clearKeyAddress(manifest) } });
  player.attachSource(manifest);

  const byBitrate = (a: Representation, b: Representation) => b.bandwidth - a.bandwidth;
  const track = (index: string): MediaInfo | undefined =>
    player.getTracksFor("audio").find((one) => String(one.index) === index);

  return {
    renditions() {
      const current = player.getCurrentRepresentationForType("video")?.id;
      return [...player.getRepresentationsByType("video")].sort(byBitrate).map((one) => ({
        id: one.id,
        label: renditionLabel(one.height || null, one.bandwidth),
        height: one.height || null,
        active: one.id === current,
      }));
    },
    automatic: () => automatic,
    chooseRendition(id) {
      automatic = id === null;
      player.updateSettings({ streaming: { abr: { autoSwitchBitrate: { video: automatic } } } });
      // Replacing the buffered media shows the choice at once.
      if (id !== null) player.setRepresentationForTypeById("video", id, true);
    },
    languages() {
      const current = player.getCurrentTrackFor("audio")?.index;
      return player.getTracksFor("audio").map((one) => {
        const tag = languageTag(one.lang);
        return { id: String(one.index), tag, label: languageLabel(tag), active: one.index === current };
      });
    },
    chooseLanguage(id) {
      const chosen = track(id);
      if (chosen) player.setCurrentTrack(chosen);
    },
    subtitles() {
      const current = player.isTextEnabled() ? player.getCurrentTextTrackIndex() : -1;
      return player.getTracksFor("text").map((one, index) => {
        const tag = languageTag(one.lang);
        return { id: String(index), tag, label: languageLabel(tag), active: index === current };
      });
    },
    chooseSubtitles(id) {
      player.setTextTrack(id === null ? -1 : Number(id));
    },
    playing() {
      const current = (["video", "audio"] as const).flatMap((kind) => player.getCurrentRepresentationForType(kind) ?? []);
      return current.map(({ codecs, bandwidth }) => ({ codec: codecs ?? "", bitrate: bandwidth }));
    },
    async close() {
      player.destroy();
      captions.remove();
    },
  };
};

// HLS with TS and with CMAF, by hls.js.

import Hls, { ErrorDetails, Events, type ErrorData } from "hls.js";
import { languageLabel, languageTag, renditionLabel } from "../labels";
import type { OpenSession } from "../session";

/**
 * Returns true for a stall although media is buffered: the machine is too busy to decode, and
 * nothing was delivered late. A player that waits for media has at most a few frames left in its
 * buffer.
 */
const isLateDecoder = ({ details, bufferInfo }: ErrorData): boolean =>
  details === ErrorDetails.BUFFER_STALLED_ERROR && (bufferInfo?.len ?? 0) > 0.5;

/**
 * Returns true for the jump to the first frame. The timeline of hls.js starts at the first decode
 * time, so video with B-frames begins some frames after 0, as in every TS. Browsers skip that gap.
 * If a browser is slow to do so, hls.js skips it and reports an error. Later or longer gaps are
 * real errors.
 */
const isStartGap = ({ details, bufferInfo }: ErrorData, longest: number): boolean =>
  details === ErrorDetails.BUFFER_SEEK_OVER_HOLE && bufferInfo?.end === 0 && (bufferInfo.nextStart ?? Infinity) <= longest;

/**
 * Returns true if hls.js has not counted an append of audio. It lets audio wait for video, and if
 * the video arrives meanwhile, it takes the end of the wait for that of the append. An append that
 * really adds nothing is repeated, and counted again.
 */
const isUncountedAppend = ({ details, parent, appendsWithoutProgress }: ErrorData): boolean =>
  details === ErrorDetails.BUFFER_APPEND_NO_PROGRESS && parent === "audio" && appendsWithoutProgress === 1;

/**
 * Returns true if hls.js itself ended a request, because the viewer chose another language or
 * rendition before the response was complete.
 */
const isOwnAbort = ({ details, fatal }: ErrorData): boolean => details === ErrorDetails.INTERNAL_ABORTED && !fatal;

export const open: OpenSession = async (video, manifest, listener) => {
  const hls = new Hls({ enableWorker: false });

  hls.on(Events.MANIFEST_PARSED, () => listener.ready());
  for (const change of [Events.LEVEL_SWITCHED, Events.AUDIO_TRACKS_UPDATED, Events.AUDIO_TRACK_SWITCHED, Events.SUBTITLE_TRACKS_UPDATED, Events.SUBTITLE_TRACK_SWITCH] as const) {
    hls.on(change, () => listener.changed());
  }
  hls.on(Events.ERROR, (_, data) => {
    if (isLateDecoder(data) || isStartGap(data, hls.config.maxBufferHole)) return;
    if (isUncountedAppend(data) || isOwnAbort(data)) return;
    const { type, details, fatal, error, url, frag, response } = data;
    const status = response?.code ? `, HTTP ${response.code}` : "";
    const failedUrl = url ?? frag?.url;
    listener.failed({ message: `hls.js: ${type}, ${details}${status}: ${error.message} ${failedUrl ?? ""}`.trim(), url: failedUrl, fatal });
  });
  hls.loadSource(manifest);
  hls.attachMedia(video);

  return {
    renditions() {
      return hls.levels
        .map((level, index) => ({
          id: String(index),
          label: renditionLabel(level.height || null, level.bitrate),
          height: level.height || null,
          bitrate: level.bitrate,
          active: index === hls.currentLevel,
        }))
        .sort((a, b) => b.bitrate - a.bitrate);
    },
    automatic: () => hls.autoLevelEnabled,
    chooseRendition(id) {
      // `currentLevel` flushes the buffer, so the choice shows at once. -1 means automatic.
      if (id === null) hls.nextLevel = -1;
      else hls.currentLevel = Number(id);
    },
    languages() {
      return hls.audioTracks.map((track, index) => {
        const tag = languageTag(track.lang);
        return { id: String(index), tag, label: languageLabel(tag), active: index === hls.audioTrack };
      });
    },
    chooseLanguage(id) {
      hls.audioTrack = Number(id);
    },
    subtitles() {
      return hls.subtitleTracks.map((track, index) => {
        const tag = languageTag(track.lang);
        return { id: String(index), tag, label: track.name || languageLabel(tag), active: index === hls.subtitleTrack };
      });
    },
    chooseSubtitles(id) {
      hls.subtitleTrack = id === null ? -1 : Number(id);
      hls.subtitleDisplay = id !== null;
    },
    playing() {
      const level = hls.levels[hls.currentLevel];
      const codecs = [level?.videoCodec, level?.audioCodec].filter((codec) => codec !== undefined);
      // The bit rate of a level is that of all its tracks.
      return level && codecs.length > 0 ? [{ codec: codecs.join(", "), bitrate: level.bitrate }] : [];
    },
    async close() {
      hls.destroy();
    },
  };
};

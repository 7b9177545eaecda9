// Smooth Streaming by dash.js and its MSS extension.

const TAGS = { eng: "en", fra: "fr", en: "en", fr: "fr" };

export async function open(video, manifest, failed) {
  const { MediaPlayer } = window.dashjs;
  const player = MediaPlayer().create();
  const { events } = MediaPlayer;
  player.initialize();
  player.updateSettings({
    debug: { logLevel: 0 },
    streaming: {
      utcSynchronization: { enabled: false },
      buffer: { fastSwitchEnabled: true },
      trackSwitchMode: { audio: "alwaysReplace" },
    },
  });
  player.on(events.ERROR, ({ error }) => failed(`dash.js: ${error.message ?? error} (${error.code ?? "?"})`));
  const ready = new Promise((resolve) => player.on(events.STREAM_INITIALIZED, resolve));
  player.attachView(video);
  player.setAutoPlay(false);
  player.attachSource(manifest);
  await ready;
  return {
    renditions: () =>
      player
        .getRepresentationsByType("video")
        .toSorted((a, b) => b.bandwidth - a.bandwidth)
        .map(({ id, height }) => ({ id, dataset: { height } })),
    chooseRendition(id) {
      player.updateSettings({ streaming: { abr: { autoSwitchBitrate: { video: false } } } });
      player.setRepresentationForTypeById("video", id, true);
    },
    languages: () =>
      player.getTracksFor("audio").map(({ index, lang }) => ({ id: String(index), dataset: { tag: TAGS[lang] ?? lang } })),
    chooseLanguage: (id) =>
      player.setCurrentTrack(player.getTracksFor("audio").find(({ index }) => String(index) === id)),
  };
}

// The actions of a viewer on one title of the sample library, for every player: play, switch
// rendition, seek, change language, and play to the end.

import assert from "node:assert/strict";

// The title's renditions and the tone of each language, as in samples/README.md.
export const TITLE = { title: "harbour", heights: [360, 234, 180], duration: 48, tones: { en: 440, fr: 660 } };

// Forward to where the rest of the title gets buffered, then back to before everything that is
// buffered.
export const SEEKS = [33.3, 5, 21];

/** Watches the title with a player. */
export async function watch(viewer) {
  await viewer.ready();
  await viewer.plays(2);
  assert.ok(Math.abs((await viewer.state()).duration - TITLE.duration) < 0.1, "the title's duration");

  assert.deepEqual(await viewer.heights(), TITLE.heights);
  for (const height of [180, 360, 234]) {
    await viewer.chooseHeight(height);
    await viewer.plays(1);
  }

  for (const seconds of SEEKS) {
    await viewer.seek(seconds);
    await viewer.plays(1.5);
  }

  assert.deepEqual((await viewer.languages()).sort(), ["en", "fr"]);
  for (const tag of ["en", "fr", "en"]) {
    await viewer.chooseLanguage(tag);
    await viewer.hears(TITLE.tones[tag]);
    await viewer.plays(1);
  }

  await viewer.seek(45);
  await viewer.playsOut();
  assert.deepEqual(await viewer.errors(), []);
}

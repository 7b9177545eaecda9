// The player page. The address bar holds the folder that the library shows, and the selection
// (title, protocol, player). Opening a selection closes the session before it.

import {
  addressOf,
  basePath,
  folderOf,
  folderQuery,
  fromQuery,
  fromText,
  manifestAddress,
  selection,
  toQuery,
  type Selection,
} from "./address";
import { addEntries, filterEntries, loadPage, markCurrent, markObstacle, showTrail, type Page } from "./library";
import { readEncryption } from "./encryption";
import { request } from "./origin";
import { PlayerView } from "./player-view";
import { elsewhere, isPlayer, isProtocol, players, protocols, supported, type ProtocolId } from "./protocols";
import type { Failure, Session } from "./session";
import { obstacles, readTracks, type Contents } from "./tracks";
import { readTiles, SeekBar } from "./thumbnails";
import { watchTraffic } from "./traffic";
import { TrafficView } from "./traffic-view";

const element = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;

const NO_TRACKS = "The title has neither video nor audio.";

/** Most titles that are tried to find one that can be played here. */
const MAX_TRIED = 8;

const titles = element("titles");
const search = element<HTMLFormElement>("search");
const other = element<HTMLFormElement>("other");
const protocolForm = element<HTMLFormElement>("protocol");
const playerMenu = element<HTMLSelectElement>("player-choice");
const manifest = element<HTMLTextAreaElement>("manifest");
const view = new PlayerView(element("player"));
const seekBar = new SeekBar(element("seek"), view.video);
const traffic = new TrafficView(element("downloads"));

const more = element<HTMLButtonElement>("more");

let current: Selection | null = null;
/** The folder that the library shows. */
let folder = folderOf(location.search);
/** The token of the folder's next page. */
let nextPage: string | null = null;
let stopListing = new AbortController();
/** Closes the open session. Opening another one waits until this has completed. */
let close: () => Promise<void> = async () => {};

function protocolChosen(): ProtocolId {
  const value = String(new FormData(protocolForm).get("protocol"));
  return isProtocol(value) ? value : "dash";
}

/** Shows the selection in every control, the title bar and the list. */
function show(chosen: Selection): void {
  element("welcome").hidden = true;
  element("player").hidden = false;
  element("downloads").hidden = false;
  element("title").textContent = chosen.part === "" ? chosen.title : `${chosen.title} ?${chosen.part}`;
  document.title = `${chosen.title} – latemux`;
  manifest.value = manifestAddress(chosen);
  protocolForm.querySelector<HTMLInputElement>(`input[value="${chosen.protocol}"]`)!.checked = true;
  playerMenu.replaceChildren(
    ...protocols[chosen.protocol].players.map((id) => {
      const option = new Option(players[id].label, id, false, id === chosen.player);
      option.disabled = !supported(id);
      return option;
    }),
  );
  showAddresses(chosen);
  markCurrent(titles, chosen.title);
}

/** Links every manifest of a title, also those that no player in a browser supports. */
function showAddresses(chosen: Selection): void {
  const links = [...Object.values(protocols), ...elsewhere].map(({ label, detail, manifest }) => {
    const link = document.createElement("a");
    link.href = addressOf(chosen, manifest);
    // There are two links for HLS, so they state the container.
    link.textContent = label === "HLS" ? `${label} ${detail.split(" ")[0]}` : label;
    link.title = detail;
    return link;
  });
  element("addresses").replaceChildren(...links.flatMap((link, place) => (place > 0 ? [" · ", link] : [link])));
}

/** Returns the origin's refusal of an address, in words, or null if it responds. */
async function refusal(address: string, signal: AbortSignal): Promise<string | null> {
  if (!address.startsWith(location.origin)) return null;
  try {
    const response = await request(address, signal);
    await response.body?.cancel();
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Returns the contents of a title, or null if only the manifest of the chosen protocol can be read.
 */
async function contentsOf(chosen: Selection, signal: AbortSignal): Promise<Contents | null> {
  try {
    return await readTracks(chosen, signal);
  } catch (error) {
    if (chosen.protocol === "dash" || (await refusal(manifestAddress(chosen), signal)) !== null) throw error;
    return null;
  }
}

/** Returns the title in the first protocol in which the origin serves it, or null. */
async function firstServed(chosen: Selection, signal: AbortSignal): Promise<Selection | null> {
  for (const protocol of ["dash", "hls-cmaf", "hls-ts"] as const) {
    if (protocol === chosen.protocol) continue;
    const other = selection(chosen, protocol, null);
    if ((await refusal(manifestAddress(other), signal)) === null) return other;
  }
  return null;
}

interface Manner {
  /** Another protocol may be used if the selected one cannot play all tracks. */
  readonly anyProtocol?: boolean;
  /** Playback does not start by itself. */
  readonly isPaused?: boolean;
}

async function open(chosen: Selection, manner: Manner = {}): Promise<void> {
  const closeBefore = close;
  let wanted = true;
  const stop = new AbortController();
  let stopTraffic = () => {};
  let session: Promise<Session | null> = Promise.resolve(null);
  close = async () => {
    wanted = false;
    stop.abort();
    await (await session)?.close();
    stopTraffic();
  };
  current = chosen;
  show(chosen);
  session = closeBefore().then(() => (wanted ? check() : null));
  await session;

  /** Starts the player, unless the title cannot be played. */
  async function check(): Promise<Session | null> {
    view.begin(chosen);
    seekBar.tiles = [];
    traffic.reset(basePath(chosen.title));
    const bar = (message: string, link: HTMLAnchorElement | null) => {
      view.showObstacle(message, link);
      markObstacle(titles, chosen.title, message);
      return null;
    };
    let contents: Contents | null;
    try {
      contents = await contentsOf(chosen, stop.signal);
    } catch (error) {
      const served = await firstServed(chosen, stop.signal);
      if (!wanted) return null;
      if (served && manner.anyProtocol) return instead(served);
      return bar((error as Error).message, served && linkTo(served));
    }
    if (!wanted) return null;
    showEncryption(contents);
    if (contents === null) return start();
    const { tracks } = contents;
    if (tracks.length === 0) return bar(NO_TRACKS, null);
    const found = obstacles(tracks, chosen.protocol, chosen.player);
    const inDash = selection(chosen, "dash", chosen.player);
    const foundInDash = obstacles(tracks, inDash.protocol, inDash.player);
    if (manner.anyProtocol && foundInDash.length < found.length) {
      return instead(inDash);
    }
    const fatal = found.find(({ isFatal }) => isFatal);
    if (fatal) return bar(fatal.message, foundInDash.some(({ isFatal }) => isFatal) ? null : linkTo(inDash));
    found.forEach(({ message }) => view.showNotice(message));
    if (contents.hasThumbnails) showThumbnails();
    return start();
  }

  /** Shows how the title is encrypted. Playlists may state another scheme than the MPD. */
  function showEncryption(contents: Contents | null): void {
    if (chosen.protocol === "dash") return view.showEncryption(contents?.encryption ?? null);
    if (contents?.encryption === null) return;
    void readEncryption(chosen, stop.signal).then((encryption) => wanted && view.showEncryption(encryption));
  }

  /** Shows a seek bar with thumbnails. Without them, the title plays all the same. */
  function showThumbnails(): void {
    const show = (tiles: Awaited<ReturnType<typeof readTiles>>) => {
      if (wanted) seekBar.tiles = tiles;
    };
    readTiles(chosen, stop.signal).then(show, () => {});
  }

  /** Opens another selection in place of this one. */
  function instead(other: Selection): null {
    history.replaceState(null, "", toQuery(other, folder));
    // Not awaited: it waits until this session has ended.
    void open(other, { ...manner, anyProtocol: false });
    return null;
  }

  async function start(): Promise<Session | null> {
    stopTraffic = watchTraffic(basePath(chosen.title), (download) => traffic.add(download));
    const address = manifestAddress(chosen);
    const failed = async (failure: Failure) => {
      if (!wanted) return;
      if (failure.fatal) view.state = "error";
      const reason = failure.fatal ? await refusal(failure.url ?? address, stop.signal) : null;
      if (!wanted) return;
      if (reason) view.showFailure({ message: reason, fatal: true });
      view.showFailure(failure);
    };
    const ready = () => {
      if (!wanted) return;
      view.state = "ready";
      view.refresh();
      // A browser that requires a click to start playback leaves the player paused, with its
      // controls.
      if (!manner.isPaused) view.video.play().catch(() => {});
    };
    try {
      const openSession = await players[chosen.player].load();
      const changed = () => wanted && view.refresh();
      const session = await openSession(view.video, address, { ready, changed, failed: (one) => void failed(one) });
      if (wanted) view.attach(session);
      return session;
    } catch (error) {
      await failed({ message: `The player could not be started: ${String(error)}`, fatal: true });
      return null;
    }
  }
}

function linkTo(chosen: Selection): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = toQuery(chosen, folder);
  link.textContent = `Play it as ${protocols[chosen.protocol].label}`;
  return link;
}

/** Opens a selection as a step in the browser's history. */
function go(chosen: Selection, manner?: Manner): void {
  history.pushState(null, "", toQuery(chosen, folder));
  void open(chosen, manner);
  // The library is below the player on narrow screens.
  element("title").scrollIntoView({ block: "nearest" });
}

/** Returns the address of the page while the library shows `path`. */
const folderLink = (path: string): string => (current ? toQuery(current, path) : folderQuery(path));

/** Lists a folder in place of the one before. */
async function listFolder(path: string): Promise<void> {
  folder = path;
  titles.replaceChildren();
  showTrail(element("trail"), folder, folderLink);
  await listPage(null);
}

/** Lists the first page of the folder, or adds another one. */
async function listPage(after: string | null): Promise<void> {
  stopListing.abort();
  const stop = (stopListing = new AbortController());
  const loading = element("loading");
  [loading.hidden, more.hidden] = [false, true];
  loading.textContent = "Loading the library…";
  try {
    const page = await loadPage(folder, after, stop.signal);
    if (stop.signal.aborted) return;
    loading.hidden = true;
    const title = (base: string) => toQuery(selection({ title: base, part: "" }, protocolChosen(), null), folder);
    const first = addEntries(titles, page, { folder: folderLink, title });
    markCurrent(titles, current?.title ?? null);
    describe(page);
    if (after !== null) first?.focus();
    else if (!current) await openFirst(page);
  } catch (error) {
    if (!stop.signal.aborted) loading.textContent = `The library cannot be loaded. ${(error as Error).message}`;
  }
}

/** Says what is listed, and what is not. */
function describe({ listable, next }: Page): void {
  const isEmpty = titles.children.length === 0;
  nextPage = next;
  more.hidden = next === null;
  search.hidden = isEmpty;
  const note = element("library-note");
  note.hidden = listable && next === null && !isEmpty;
  if (!listable) note.textContent = "This storage cannot be listed. Open a title by its path.";
  else if (next !== null) note.textContent = "The folder holds more than is listed here. The search covers only what is listed.";
  else note.textContent = folder === "" ? "There are no titles." : "There are no titles in this folder.";
  showFound();
}

function showFound(): void {
  const all = titles.children.length;
  const shown = filterEntries(titles, element<HTMLInputElement>("words").value);
  const count = (value: number) => value.toLocaleString("en");
  element("found").textContent = shown === all ? `${count(all)} listed` : `${count(shown)} of ${count(all)} listed`;
}

/** Opens the first title that can be played here, unless the viewer is faster. */
async function openFirst({ titles: all, folder: from }: Page): Promise<void> {
  for (const { base } of all.slice(0, MAX_TRIED)) {
    const chosen = selection({ title: base, part: "" }, protocolChosen(), null);
    const why = await readTracks(chosen).then(
      ({ tracks }) => (tracks.length === 0 ? NO_TRACKS : obstacles(tracks, chosen.protocol, chosen.player).find(({ isFatal }) => isFatal)?.message),
      (error: Error) => error.message,
    );
    if (current || folder !== from) return;
    if (why === undefined) {
      history.replaceState(null, "", toQuery(chosen, folder));
      return open(chosen, { isPaused: true });
    }
    markObstacle(titles, base, why);
  }
}

/** Opens the folder or title of a link, unless the viewer wants a new tab. */
function follow(event: MouseEvent): void {
  const link = (event.target as Element).closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const { title, folder: path } = link.dataset;
  if (title === undefined && path === undefined) return;
  event.preventDefault();
  if (title !== undefined) {
    go(selection({ title, part: "" }, protocolChosen(), current?.player ?? null), { anyProtocol: true });
  } else if (path !== undefined) {
    history.pushState(null, "", folderLink(path));
    element<HTMLInputElement>("words").value = "";
    void listFolder(path);
  }
}

titles.addEventListener("click", follow);
element("trail").addEventListener("click", follow);
more.addEventListener("click", () => void listPage(nextPage));
search.addEventListener("input", showFound);
search.addEventListener("submit", (event) => {
  event.preventDefault();
  titles.querySelector<HTMLAnchorElement>("li:not([hidden]) a")?.click();
});
other.addEventListener("submit", (event) => {
  event.preventDefault();
  const named = fromText(String(new FormData(other).get("path")));
  if (named.title !== "") go(selection(named, protocolChosen(), current?.player ?? null), { anyProtocol: true });
});
protocolForm.addEventListener("change", () => {
  if (current) go(selection(current, protocolChosen(), current.player));
});
playerMenu.addEventListener("change", () => {
  if (current && isPlayer(playerMenu.value)) go(selection(current, current.protocol, playerMenu.value));
});
element("copy").addEventListener("click", async () => {
  const status = element("copied");
  manifest.select();
  try {
    await navigator.clipboard.writeText(manifest.value);
    status.textContent = "Copied";
  } catch {
    status.textContent = "Selected: press Ctrl-C to copy";
  }
});
window.addEventListener("popstate", () => {
  const chosen = fromQuery(location.search);
  if (!chosen && current) return location.reload();
  const path = folderOf(location.search);
  if (path !== folder) void listFolder(path);
  if (chosen && (!current || toQuery(chosen, "") !== toQuery(current, ""))) void open(chosen);
});

void listFolder(folder);
const linked = fromQuery(location.search);
if (linked) void open(linked);

// The player page. The address bar holds the selection (title, protocol, player). Opening a
// selection closes the session before it.

import { addressOf, basePath, fromQuery, fromText, manifestAddress, selection, toQuery, type Selection } from "./address";
import { loadLibrary, markCurrent, showTitles } from "./library";
import { PlayerView } from "./player-view";
import { elsewhere, isPlayer, isProtocol, players, protocols, supported, type ProtocolId } from "./protocols";
import type { Failure, Session } from "./session";
import { watchTraffic } from "./traffic";
import { TrafficView } from "./traffic-view";

const element = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;

const titles = element("titles");
const other = element<HTMLFormElement>("other");
const protocolForm = element<HTMLFormElement>("protocol");
const playerMenu = element<HTMLSelectElement>("player-choice");
const manifest = element<HTMLInputElement>("manifest");
const view = new PlayerView(element("player"));
const traffic = new TrafficView(element("downloads"));

let current: Selection | null = null;
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

/** Requests the manifest and returns the origin's error, or null if there is none. */
async function originError(address: string): Promise<string | null> {
  try {
    const response = await fetch(address);
    if (response.ok) return null;
    const body = await response.text();
    const reason = response.headers.get("content-type")?.includes("json") ? JSON.parse(body).reason : body.slice(0, 200);
    return `The origin's response: ${response.status} ${reason}`;
  } catch (error) {
    return `The origin cannot be reached: ${String(error)}`;
  }
}

async function open(chosen: Selection): Promise<void> {
  const closeBefore = close;
  let wanted = true;
  let stopTraffic = () => {};
  let session: Promise<Session | null> = Promise.resolve(null);
  close = async () => {
    wanted = false;
    await (await session)?.close();
    stopTraffic();
  };
  current = chosen;
  show(chosen);
  session = closeBefore().then(() => (wanted ? start() : null));
  await session;

  async function start(): Promise<Session | null> {
    view.begin(chosen);
    const base = basePath(chosen.title);
    traffic.reset(base);
    stopTraffic = watchTraffic(base, (download) => traffic.add(download));

    const address = manifestAddress(chosen);
    const failed = async (failure: Failure) => {
      if (!wanted) return;
      view.showFailure(failure);
      const reason = failure.fatal ? await originError(address) : null;
      if (wanted && reason) view.showFailure({ message: reason, fatal: true });
    };
    const ready = () => {
      if (!wanted) return;
      view.state = "ready";
      view.refresh();
      // A browser that requires a click to start playback leaves the player paused, with its
      // controls.
      view.video.play().catch(() => {});
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

/** Opens a selection as a step in the browser's history. */
function go(chosen: Selection): void {
  history.pushState(null, "", toQuery(chosen));
  void open(chosen);
}

async function listTitles(): Promise<void> {
  const storage = element("storage");
  try {
    const library = await loadLibrary();
    storage.textContent = library.storage;
    showTitles(titles, library.titles, ({ base }) => toQuery(selection({ title: base, part: "" }, protocolChosen(), null)));
    markCurrent(titles, current?.title ?? null);
    if (library.titles.length === 0) storage.textContent += ": no titles found. Enter the path of a title below.";
  } catch (error) {
    storage.textContent = `The library cannot be loaded: ${(error as Error).message}`;
  }
}

titles.addEventListener("click", (event) => {
  const link = (event.target as Element).closest("a");
  if (!link?.dataset.title || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(selection({ title: link.dataset.title, part: "" }, protocolChosen(), current?.player ?? null));
});
other.addEventListener("submit", (event) => {
  event.preventDefault();
  const named = fromText(String(new FormData(other).get("path")));
  if (named.title !== "") go(selection(named, protocolChosen(), current?.player ?? null));
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
  if (chosen) void open(chosen);
  else location.reload();
});

void listTitles();
const linked = fromQuery(location.search);
if (linked) void open(linked);

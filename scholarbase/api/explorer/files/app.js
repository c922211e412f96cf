// The views of the explorer, by the part of the address behind #.

import { explain, h, pin, pinned, replace } from "./dom.js";
import { FILTERS, open as openSearch, PARAMETERS, SORTS } from "./search.js";

const VIEWS = {
  search: async () => ({ open: openSearch }),
  compare: () => import("./compare.js"),
  paper: () => import("./paper.js"),
  author: () => import("./author.js"),
  sessions: () => import("./sessions.js"),
  session: () => import("./sessions.js").then((module) => ({ open: module.openOne })),
  references: () => import("./references.js"),
  completeness: () => import("./completeness.js"),
  library: () => import("./library.js"),
};

// What each view reads from its address, besides what all of them read.
const ALL = ["snapshot", "explain"];
const READ = {
  search: PARAMETERS,
  compare: ["q", ...FILTERS, ...["a", "b"].flatMap((side) => ["mode", "engine", "snapshot"].map((one) => `${side}_${one}`))],
  paper: ["id"],
  author: ["name", "id"],
  sessions: ["offset"],
  session: ["name", "call"],
  references: [],
  completeness: ["q", "relevant", "known"],
  library: [],
};
const LONGEST = 300; // characters of ignored parameters that are shown

const main = document.getElementById("main");
let current = { name: null, update: null };

async function route(event) {
  const [name, found] = (event?.detail || location.hash).replace(/^#\/?/, "").split(/\?(.*)/s);
  const params = new URLSearchParams(found ?? "");
  let view = name || "search";
  if (!Object.hasOwn(VIEWS, view)) { // #/hep-th/9301068 is the paper with this id
    params.set("id", decoded(view));
    view = "paper";
  }
  pin(params.get("snapshot"));
  explain(params.has("explain"));
  const isOpen = current.name === view && current.update;
  if (isOpen) current.update(params); // sends a request first
  showPinned(view, params);
  showIgnored(view, params);
  if (isOpen) return;
  for (const one of document.querySelectorAll("header nav a")) {
    const own = one.getAttribute("href") === `#/${view}`
      || (view === "session" && one.getAttribute("href") === "#/sessions");
    if (own) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  const isFirst = current.name === null;
  current = { name: view, update: null };
  const { open } = await VIEWS[view]();
  if (current.name !== view) return;
  document.title = "ScholarBase";
  current.update = open(main, params)?.update ?? null;
  if (!isFirst) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function showPinned(view, params) {
  const others = new URLSearchParams(params);
  others.delete("snapshot");
  const banner = document.getElementById("pinned");
  if (pinned || banner.hasChildNodes()) replace(banner, pinned && ["Snapshot ", h("code", null, pinned.slice(0, 8)), ". ",
    h("a", { href: `#/${view}?${others}` }, "Show the current one")]);
}

// Names the parameters of the address that the view does not know, and an order that it does not have.
function showIgnored(view, params) {
  const known = [...READ[view], ...ALL];
  const ignored = [...params].filter(([name, value]) => !known.includes(name)
    || (name === "sort" && value && !SORTS.some(([sort]) => sort === value)));
  const text = ignored.map(([name, value]) => `${name}=${value}`).join(", ");
  document.getElementById("ignored").textContent = text
    && `Ignored in the address: ${text.length > LONGEST ? `${text.slice(0, LONGEST)}\u2026` : text}`;
}

window.addEventListener("hashchange", route);
window.addEventListener("go", route);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
route();

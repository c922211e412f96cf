// The views of the explorer, by the part of the address behind #.

import { h, notice, pin, pinned, replace } from "./dom.js";
import { open as openSearch } from "./search.js";

const VIEWS = {
  search: async () => ({ open: openSearch }),
  compare: () => import("./compare.js"),
  paper: () => import("./paper.js"),
  author: () => import("./author.js"),
  sessions: () => import("./sessions.js"),
  session: () => import("./sessions.js").then((module) => ({ open: module.openOne })),
  library: () => import("./library.js"),
};

const main = document.getElementById("main");
let current = { name: null, update: null };

async function route(event) {
  const [name, found] = (event?.detail || location.hash).replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = name || "search";
  const params = new URLSearchParams(found ?? "");
  pin(params.get("snapshot"));
  showPinned(view, params);
  if (current.name === view && current.update) {
    current.update(params);
    return;
  }
  for (const one of document.querySelectorAll("header nav a")) {
    const own = one.getAttribute("href") === `#/${view}`
      || (view === "session" && one.getAttribute("href") === "#/sessions");
    if (own) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  const isFirst = current.name === null;
  current = { name: view, update: null };
  if (!Object.hasOwn(VIEWS, view)) {
    replace(main, h("h1", null, "Not found"), notice(`There is no view ${view}.`, "error"));
    return;
  }
  const { open } = await VIEWS[view]();
  if (current.name !== view) return;
  document.title = "ScholarBase";
  current.update = open(main, params)?.update ?? null;
  if (!isFirst) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function showPinned(view, params) {
  const others = new URLSearchParams(params);
  others.delete("snapshot");
  const banner = document.getElementById("pinned");
  if (pinned || banner.hasChildNodes()) replace(banner, pinned && ["Snapshot ", h("code", null, pinned.slice(0, 8)), ". ",
    h("a", { href: `#/${view}?${others}` }, "Show the current one")]);
}

window.addEventListener("hashchange", route);
window.addEventListener("go", route);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
route();

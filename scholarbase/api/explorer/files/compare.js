// Side by side: one question in two modes, engines or snapshots, and what moved.

import { get, post, snapshots } from "./api.js";
import { choice, field, go, h, link, notice, number, pinned, plural, replace, say } from "./dom.js";
import { line, paperLink, status } from "./papers.js";
import { ENGINES, filtersOf, MODES } from "./search.js";

const DEPTH = 20;
const SIDES = ["a", "b"];

export function open(main, params) {
  let running = new AbortController();
  let held = null; // the server's snapshots, of which the form offers a choice if there are several
  const form = h("form", { class: "search", onsubmit: submit });
  const lists = h("div", { class: "sides" });
  const moved = h("p");
  const filters = h("p");
  replace(main, h("h1", null, "Side by side"), form, filters, moved, lists);

  function submit(event) {
    event.preventDefault();
    go(link("compare", { ...Object.fromEntries(new FormData(form)), ...filtersOf(params) }));
  }

  function draw() {
    replace(form, h("div", { class: "row" },
      field("Search for", "q", params.get("q"), { type: "search", autocomplete: "off", maxlength: 10000 }),
      h("button", { class: "primary" }, "Compare")),
    h("div", { class: "sides" }, SIDES.map((side, place) => h("fieldset", { class: "row" },
      h("legend", null, place ? "Right" : "Left"),
      choice("Mode", `${side}_mode`, MODES, params.get(`${side}_mode`)),
      choice("Engine", `${side}_engine`, ENGINES, params.get(`${side}_engine`)),
      snapshotChoice(side)))));
    const { q, ...sides } = Object.fromEntries(params);
    const own = filtersOf(params);
    const without = Object.fromEntries(Object.entries(sides).filter(([name]) => !(name in own)));
    const named = Object.entries(own).map(([name, value]) => `${name.replaceAll("_", " ")} ${[value].flat().join(", ")}`);
    replace(filters, named.length ? [`Both with ${named.join("; ")}. `,
      h("a", { href: link("compare", { q, ...without }) }, "Compare without these")] : "");
  }

  const snapshotOf = (side) => params.get(`${side}_snapshot`) || pinned;

  function snapshotChoice(side) {
    const chosen = snapshotOf(side);
    const known = held.some((one) => one.snapshot === chosen);
    if (held.length < 2 && (!chosen || known)) return null;
    const options = held.map((one, place) => [one.snapshot,
      `${named(one)}, ${plural(one.papers, "paper")}${place ? "" : ", current"}`]);
    if (chosen && !known) options.push([chosen, `${chosen.slice(0, 8)}, not held`]);
    return choice("Snapshot", `${side}_snapshot`, options, chosen ?? held[0].snapshot);
  }

  const named = (one) => `${one.name} (${one.snapshot.slice(0, 8)})`;

  // Which of some papers a snapshot has.
  async function having(ids, snapshot, signal) {
    if (!ids.length) return new Set();
    const found = await post("v1/papers/batch", { ids, fields: ["id"] }, { snapshot, signal });
    return new Set(found.results.filter(Boolean).map((one) => one.id));
  }

  async function update(found) {
    params = found;
    running.abort();
    running = new AbortController();
    const { signal } = running;
    held ??= await snapshots().catch(() => []);
    if (signal.aborted) return;
    draw();
    const q = params.get("q");
    if (!q) {
      replace(moved, "Compare the first results of two searches for one question.");
      replace(lists);
      return;
    }
    const search = (side) => get("v1/search", { q, mode: params.get(`${side}_mode`), engine: params.get(`${side}_engine`),
      ...filtersOf(params), limit: DEPTH, fields: "title,authors,year,venue,status,notices,categories,citation_count" }, { signal, snapshot: snapshotOf(side) })
      .catch((error) => error);
    const sides = await Promise.all(SIDES.map(search));
    if (signal.aborted) return;
    const ranks = sides.map((one) => new Map((one.results ?? []).map((hit, place) => [hit.paper.id, place + 1])));
    const both = [...ranks[0].keys()].filter((id) => ranks[1].has(id));
    if (sides.every((one) => one.results)) {
      const same = both.filter((id) => ranks[0].get(id) === ranks[1].get(id)).length;
      const text = `${plural(both.length, "paper")} of the first ${DEPTH} in both lists, ${number(same)} at the same rank.`;
      replace(moved, text);
      say(text);
    } else replace(moved);
    const across = sides.every((one) => one.results) && sides[0].snapshot !== sides[1].snapshot;
    const there = across ? await Promise.all([1, 0].map((other, place) =>
      having([...ranks[place].keys()].filter((id) => !ranks[other].has(id)), sides[other].snapshot, signal)
        .catch(() => null))) : [null, null];
    if (signal.aborted) return;
    replace(lists, sides.map((one, place) => column(one, place, ranks, there[place])));
  }

  function column(response, place, ranks, there) {
    const name = place ? "Right" : "Left";
    if (!response.results) return h("section", { "aria-label": name }, notice(response.message, "error"));
    const from = held.length > 1 && held.find((one) => one.snapshot === response.snapshot);
    const how = [response.mode, response.engine, from && named(from)].filter(Boolean).join(", ");
    const snapshot = params.get(`${SIDES[place]}_snapshot`) || undefined;
    return h("section", { "aria-label": name }, h("h2", null, how),
      response.results.length ? h("ol", null, response.results.map((hit, rank) => h("li", { class: "result" },
        h("article", null, h("h3", null, paperLink(hit.paper, [], snapshot), status(hit.paper)),
          h("p", { class: "meta" }, change(hit.paper.id, rank + 1, ranks[1 - place], place, there), " ",
            line(hit.paper, 2)))))) : notice("Nothing matched."));
  }

  // Where the paper is in the other list, and how far it moved. `there` are the papers of the other snapshot.
  function change(id, own, ranks, place, there) {
    const where = place ? "left" : "right";
    const other = ranks.get(id);
    if (there && other === undefined && !there.has(id)) {
      return h("span", { class: "tag only" }, `not in the ${where} snapshot`);
    }
    if (other === undefined) return h("span", { class: "tag only" }, `not in the ${where} list`);
    if (own === other) return h("span", { class: "tag" }, "same rank");
    const up = own < other;
    return h("span", { class: `tag ${up ? "up" : "down"}` }, `${up ? "\u2191" : "\u2193"}${Math.abs(own - other)}, rank ${
      other} on the ${where}`);
  }

  update(params);
  return { update };
}

// Side by side: one question in two modes or engines, and what moved.

import { get } from "./api.js";
import { choice, field, go, h, link, notice, number, plural, replace, say } from "./dom.js";
import { line, paperLink, status } from "./papers.js";
import { ENGINES, MODES } from "./search.js";

const DEPTH = 20;
const SIDES = ["a", "b"];

export function open(main, params) {
  let running = new AbortController();
  const form = h("form", { class: "search", onsubmit: submit });
  const lists = h("div", { class: "sides" });
  const moved = h("p");
  replace(main, h("h1", null, "Side by side"), form, moved, lists);

  function submit(event) {
    event.preventDefault();
    go(link("compare", Object.fromEntries(new FormData(form))));
  }

  function draw() {
    replace(form, h("div", { class: "row" },
      field("Search for", "q", params.get("q"), { type: "search", autocomplete: "off", maxlength: 10000 }),
      h("button", { class: "primary" }, "Compare")),
    h("div", { class: "sides" }, SIDES.map((side, place) => h("fieldset", { class: "row" },
      h("legend", null, place ? "Right" : "Left"),
      choice("Mode", `${side}_mode`, MODES, params.get(`${side}_mode`)),
      choice("Engine", `${side}_engine`, ENGINES, params.get(`${side}_engine`))))));
  }

  async function update(found) {
    params = found;
    running.abort();
    running = new AbortController();
    const { signal } = running;
    draw();
    const q = params.get("q");
    if (!q) {
      replace(moved, "Compare the first results of two searches for one question.");
      replace(lists);
      return;
    }
    const search = (side) => get("v1/search", { q, mode: params.get(`${side}_mode`), engine: params.get(`${side}_engine`),
      limit: DEPTH, fields: "title,authors,year,venue,status,categories,citation_count" }, { signal })
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
    replace(lists, sides.map((one, place) => column(one, place, ranks)));
  }

  function column(response, place, ranks) {
    const name = place ? "Right" : "Left";
    if (!response.results) return h("section", { "aria-label": name }, notice(response.message, "error"));
    const how = [response.mode, response.engine].filter(Boolean).join(", ");
    return h("section", { "aria-label": name }, h("h2", null, how),
      response.results.length ? h("ol", null, response.results.map((hit, rank) => h("li", { class: "result" },
        h("article", null, h("h3", null, paperLink(hit.paper), status(hit.paper)), h("p", { class: "meta" },
          change(rank + 1, ranks[1 - place].get(hit.paper.id), place), " ", line(hit.paper, 2)))))) : notice("Nothing matched."));
  }

  // Where the paper is in the other list; on the right also how far it moved.
  function change(own, other, place) {
    const where = place ? "left" : "right";
    if (other === undefined) return h("span", { class: "tag only" }, `not in the ${where} list`);
    if (own === other) return h("span", { class: "tag" }, "same rank");
    const up = own < other;
    return h("span", { class: `tag ${up ? "up" : "down"}` }, `${up ? "\u2191" : "\u2193"}${Math.abs(own - other)}, rank ${
      other} on the ${where}`);
  }

  update(params);
  return { update };
}

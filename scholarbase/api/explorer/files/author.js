// An author: the papers in this library, and other authors whose names may mean the same person.

import { get } from "./api.js";
import { h, link, notice, plural, replace, say } from "./dom.js";
import { paged } from "./paper.js";

const OTHERS = 10;

export function open(main, params) {
  async function update(found) {
    const name = found.get("name");
    if (!name) {
      replace(main, h("h1", null, "An author"), notice("No name is in the address.", "error"));
      return;
    }
    replace(main, h("h1", null, name), h("p", null, "Loading."));
    let authors;
    try {
      authors = (await get("v1/authors", { q: name, limit: OTHERS })).results;
    } catch (error) {
      replace(main, h("h1", null, "An author"), notice(error.message, "error"));
      return;
    }
    // The one with the name itself comes first.
    const id = found.get("id") ?? authors[0]?.id;
    if (!id) {
      replace(main, h("h1", null, name), notice("No author of this library has this name."));
      return;
    }
    document.title = `${name} - ScholarBase`;
    const others = authors.filter((one) => one.id !== id);
    replace(main, h("h1", null, authors.find((one) => one.id === id)?.name ?? name),
      paged(`v1/authors/${encodeURIComponent(id)}/papers`, "Papers"),
      others.length ? [h("h2", null, "Others whom this name may mean"), h("ul", null, others.map((one) => h("li", null,
        h("a", { href: link("author", { name: one.name, id: one.id }) }, one.name), `, ${plural(one.paper_count, "paper")}`)))]
        : "");
    say(name);
  }
  update(params);
  return { update };
}

// The library: its snapshot, counts, papers by year and category, encoder, sources and health.

import { get, snapshots } from "./api.js";
import { add, h, link, notice, number, plural, replace, say } from "./dom.js";
import { bar, histogram } from "./papers.js";

const table = (caption, rows) => h("table", null, h("caption", null, caption), h("tbody", null, rows.map(([name, value]) =>
  h("tr", null, h("th", { scope: "row" }, name), h("td", null, typeof value === "number" ? number(value) : value)))));

export function open(main) {
  async function update() {
    replace(main, h("h1", null, "Library"));
    const health = h("p", null, "Health: ", h("span", { class: "dim" }, "checking"));
    const years = h("section", { class: "overview", "aria-label": "Papers by year and category" });
    let found;
    try {
      found = await get("v1/snapshot");
    } catch (error) {
      add(main, notice(error.message, "error"));
      return;
    }
    const { manifest } = found;
    const { counts, encoder, vectors } = manifest;
    const held = await snapshots().catch(() => []);
    add(main, h("p", null, "Snapshot ", h("code", null, found.snapshot)), health,
      h("dl", { class: "facts" }, [["Papers", counts.papers], ["Abstracts", counts.abstracts], ["Citations", counts.edges],
        ["Dense vectors", counts.dense_vectors]].map(([name, value]) =>
        h("div", null, h("dt", null, name), h("dd", null, number(value ?? 0))))),
      held.length > 1 ? others(held, found.snapshot) : "",
      years, table("Search", [["Encoder", encoder ? `${encoder.name} (${encoder.kind}, ${encoder.dimensions ?? "no"} dimensions)`
        : "none"], ["Vectors", vectors?.dimensions ? `${vectors.dimensions} dimensions, ${vectors.quantization ?? "whole"}`
        : "none"], ["Profile", found.ranking.profile], ["Fusion", found.ranking.fusion],
      ["Rerankers", Object.keys(found.rerankers ?? {}).join(", ") || "none"],
      ["Named sets", Object.entries(manifest.sets ?? {}).map(([name, one]) => `${name} (${number(one.papers)})`).join(", ")
        || "none"]]),
      h("details", null, h("summary", null, "Sources"), h("div", { class: "scroll", tabindex: "0", role: "region",
        "aria-label": "Sources" }, h("table", null, h("thead", null, h("tr", null, ["Source", "Dataset", "MB", "SHA-256"]
        .map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, manifest.sources.map((one) => h("tr", null,
        h("td", null, one.name), h("td", null, one.dataset), h("td", null, (one.bytes / 1e6).toFixed(1)),
        h("td", null, h("code", null, one.sha256.slice(0, 16))))))))),
      h("details", null, h("summary", null, "All counts"), table("Counts",
        Object.entries(counts).map(([name, value]) => [name.replaceAll("_", " "), value]))));
    say("Library shown.");
    drawHealth(health);
    try {
      draw(years, await get("v1/facets", { limit: 20 }));
    } catch (error) {
      replace(years, notice(error.message, "error"));
    }
  }

  // The snapshots that the server has open: each can be searched and compared with the current one.
  function others(held, own) {
    return [h("h2", null, "Snapshots"), h("ul", null, held.map((one, place) => h("li", null,
      h("a", { href: link("library", { snapshot: place ? one.snapshot : "" }),
        "aria-current": one.snapshot === own ? "true" : null }, `${one.name} (${one.snapshot.slice(0, 8)})`),
      ` ${[place ? null : "current", plural(one.papers, "paper"), plural(one.citations, "citation")].filter(Boolean)
        .join(", ")} `, place ? h("a", { href: link("compare", { b_snapshot: one.snapshot, snapshot: "" }) },
        "Side by side with the current one") : "")))];
  }

  function draw(years, facets) {
    const most = Math.max(1, ...facets.category.values.map((one) => one.papers));
    replace(years, h("h2", null, "Papers by year"), histogram(facets.year.values, null),
      h("details", null, h("summary", null, "The same as a table"), table("Papers by year",
        facets.year.values.map((one) => [String(one.value), one.papers]))),
      facets.category.values.length ? [h("h2", null, "Categories"), h("ul", { class: "categories" },
        facets.category.values.map((one) => h("li", null, h("a", { href: link("search", { category: one.value }) }, one.value),
          " ", bar(one.papers / most), " ", number(one.papers))))] : "");
  }

  async function drawHealth(health) {
    let parts;
    try {
      const { status, snapshot, ...found } = await get("readyz");
      parts = Object.entries(found).map(([name, state]) => `${name} ${state}`);
    } catch (error) {
      parts = [error.message];
    }
    replace(health, "Health: ", parts.join(", "));
  }

  update();
  return { update };
}

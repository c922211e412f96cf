// The full text of a paper: its outline, sections, places of words, figures, and images of its pages.

import { get, image, paperPath } from "./api.js";
import { choice, field, h, notice, number, plural, replace, say } from "./dom.js";

const FOUND = 20;

export async function drawText(holder, paper, version) {
  replace(holder, h("p", null, "Loading."));
  const path = paperPath(paper.id);
  let outline;
  try {
    outline = await get(`${path}/text`, { version });
  } catch (error) {
    replace(holder, notice(error.message, error.status === 404 ? "" : "error"));
    return;
  }
  const { document: about, sections, figures } = outline;
  const reader = h("article", { class: "text", "aria-live": "polite" });

  async function read(where) {
    try {
      const part = await get(`${path}/text`, { ...where, version });
      replace(reader, paragraphs(part, sections), part.next_offset !== null && more(part.next_offset));
    } catch (error) {
      replace(reader, notice(error.message, "error"));
    }
    reader.scrollIntoView({ block: "nearest" });
  }

  const more = (offset) => h("p", null, h("button", { type: "button", onclick: () => read({ from_offset: offset }) },
    "Read on"));

  const places = h("div");
  async function find(event) {
    event.preventDefault();
    const q = new FormData(event.target).get("find").trim();
    if (!q) {
      replace(places);
      return;
    }
    try {
      const found = await get(`${path}/find`, { q, limit: FOUND, context: 120, version });
      const least = found.total_relation === "gte" ? "at least " : "";
      const text = `${least}${plural(found.total, "place")}${found.total > FOUND ? `, the first ${FOUND} of them` : ""}`;
      replace(places, h("p", { class: "dim" }, text), h("ol", null, found.results.map((one) => h("li", null, quoted(one),
        " ", h("button", { type: "button", class: "plain",
          onclick: () => read({ from_offset: one.passage.start }) }, `Read ${one.passage.section ?? "here"}`)))));
      say(text);
    } catch (error) {
      replace(places, notice(error.message, "error"));
    }
  }

  const facts = [about.source, about.version && `version ${about.version}`, plural(about.characters, "character"),
    plural(about.tokens, "token"), about.pages && plural(about.pages, "page")];
  const versions = about.versions?.length > 1 && choice("Version", "version", about.versions.map(String),
    String(about.version));
  if (versions) versions.onchange = (event) => drawText(holder, paper, event.target.value);
  replace(holder, h("p", { class: "dim" }, facts.filter(Boolean).join(" \u00b7 ")),
    h("form", { class: "row", onsubmit: find }, versions,
      field("Find in the text", "find", "", { type: "search", autocomplete: "off", maxlength: 1000 }),
      h("button", null, "Find"), h("button", { type: "button", onclick: () => read({ from_offset: 0 }) }, "Read from the start")),
    places,
    sections.length ? [h("h3", null, "Outline"), h("ul", { class: "outline" }, sections.map((one) =>
      h("li", { class: `level${Math.min(one.level, 4)}` }, h("button", { type: "button", class: "plain",
        onclick: () => read({ section: `#${one.place}` }) }, heading(one)),
      h("span", { class: "dim" }, ` ${plural(one.tokens, "token")}`))))] : "",
    reader,
    figures?.length ? h("details", null, h("summary", null, plural(figures.length, "figure or table", "figures and tables")),
      h("ul", null, figures.map((one) => h("li", null, h("strong", null, one.label), " ", one.caption)))) : "",
    about.pages ? pages(path, paper, about) : "");
}

const heading = (section) => [section.number, section.title].filter(Boolean).join(" ");

// The paragraphs of a part of a text. Offsets count characters, which strings here may have two units of.
function paragraphs(part, sections) {
  const starts = new Map(sections.map((one) => [one.start, one]));
  let offset = part.start;
  return part.text.split("\n\n").map((text) => {
    const section = starts.get(offset);
    offset += [...text].length + 2;
    return section && text === heading(section) ? h("h4", null, text) : h("p", null, text);
  });
}

function quoted({ passage, match, match_start: start }) {
  const characters = [...passage.text];
  const at = start - passage.start, end = at + [...match].length;
  return h("span", null, characters.slice(0, at).join(""), h("mark", null, match), characters.slice(end).join(""));
}

function pages(path, paper, about) {
  const last = about.pages;
  const picture = h("div", { class: "page" });
  const where = h("span", { role: "status" });
  let shown = 0;

  async function show(page) {
    shown = page;
    replace(where, `Page ${number(page)} of ${number(last)}`);
    back.disabled = page <= 1;
    next.disabled = page >= last;
    try {
      const address = URL.createObjectURL(await image(`${path}/pages/${page}${
        about.version ? `?version=${about.version}` : ""}`));
      if (page !== shown) return;
      const drawn = h("img", { src: address, alt: `Page ${page} of ${paper.title ?? paper.id}`,
        onload: () => URL.revokeObjectURL(address) });
      replace(picture, drawn);
    } catch (error) {
      if (page === shown) replace(picture, notice(error.message, "error"));
    }
  }

  const turn = (step, words) => h("button", { type: "button", onclick: () => show(shown + step) }, words);
  const back = turn(-1, "Previous page"), next = turn(1, "Next page");
  const details = h("details", null, h("summary", null, "Images of its pages"), h("p", { class: "row" }, back, where, next),
    picture);
  details.addEventListener("toggle", () => { if (details.open && !shown) show(1); });
  return details;
}

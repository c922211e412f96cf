// Parts that show papers: a line of facts, legs as bars, years as a histogram.

import { paperPath, text } from "./api.js";
import { copyButton, explaining, h, highlighted, link, number, pinned, plural, replace, svg } from "./dom.js";
import { drawn } from "./formulas.js";

const LINKED = 3; // results that a paper is linked with
const MARKED = 50; // words of a question
const STOP = new Set(`a an and are as at be by can do does for from how in into is it its not of on or than that the their these this to
  was we were what when which why with`.split(/\s+/));
const SHORT = 280; // characters of an abstract that are shown at first
export const FIELDS = "title,abstract,authors,year,venue,status,notices,categories,citation_count,as_written,external_ids";

export function authors(paper, most = 6) {
  const names = (paper.authors ?? []).map((one) => one.name);
  const rest = names.length - most;
  return names.slice(0, most).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

export function facts(paper) {
  const cited = paper.citation_count;
  return [paper.year, paper.venue, (paper.categories ?? []).slice(0, 4).join(" "),
    cited === null || cited === undefined ? null : `cited\u00a0${number(cited)}\u00d7`].filter(Boolean).join(" \u00b7 ");
}

export const line = (paper, most = 3) => [authors(paper, most), facts(paper)].filter(Boolean).join(" \u00b7 ");

// A title with a formula that cannot be drawn is shown as the server reads it.
export function title(paper, terms = []) {
  const parts = drawn(paper.as_written?.title, terms);
  return parts && !parts.some((one) => one.className === "tex") ? parts : highlighted(paper.title ?? paper.id, terms);
}

// The status, with the day of the last retraction if a notice has one; notices are in the order of their dates.
export function status(paper) {
  if (!paper.status) return null;
  const last = paper.status === "retracted" && paper.notices?.findLast((one) => one.kind === "retraction");
  return h("strong", { class: "bad" }, ` ${paper.status}${last?.date ? ` on ${last.date}` : ""}`);
}

export function paperLink(paper, terms = [], snapshot = pinned) {
  return h("a", { href: link("paper", { id: paper.id, snapshot }) }, title(paper, terms));
}

// A bar whose length is a share of 1.
export function bar(share) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "back", width: 100, height: 8 }), svg("rect", { class: "value", width, height: 8 }));
}

// Legs by what they compare; the API's own name is behind it.
const LEGS = { bm25: "words", feedback: "words", fts5: "words", learned: "words", dense: "meaning",
  cocitation: "cited together", graph: "citations" };
const legName = (leg) => (LEGS[leg] ? `${LEGS[leg]} (${leg})` : leg);

// The first results that a paper is linked with, by their ids.
const linked = (how, ids) => ids?.length > 0 && h("span", { class: "dim linked" }, `${how} `,
  ids.slice(0, LINKED).flatMap((id, place) => [place ? ", " : "", h("a", { href: link("paper", { id, snapshot: pinned }) }, id)]),
  ids.length > LINKED && ` and ${ids.length - LINKED} more`);

// What each leg contributed to a result: its rank, its score, and the share of the best result as a bar.
export function legs(explain, best) {
  if (!explain?.length) return null;
  return h("ul", { class: "legs", "aria-label": "Legs" }, explain.map((leg) => h("li", null,
    h("span", { class: "leg" }, legName(leg.leg)), bar(best > 0 ? leg.share / best : 0),
    h("span", { class: "dim" }, ` rank ${leg.rank}, score ${Number(leg.score.toPrecision(4))}, share ${
      Number(leg.share.toPrecision(3))}`),
    linked("cited by", leg.cited_by), linked("cites", leg.cites))));
}

// The key of an entry in a bibliography that the library was built from.
export const citationKey = (paper) => paper.external_ids?.Key && h("code", { class: "key", title: "Citation key" }, paper.external_ids.Key);

export const copyBibtex = (paper) => copyButton("Copy BibTeX", () => text(paperPath(paper.id), { format: "bibtex" }));

// The words of a question that are marked in results, without those of query syntax.
export const termsOf = (q) => [...new Set(q.replace(/\bNOT\s+\S+|\b(title|abstract):|\b(AND|OR)\b/g, " ").toLowerCase()
  .match(/[\p{L}\p{N}]+[+#]*/gu) ?? [])].filter((word) => !STOP.has(word)).slice(0, MARKED);

// A result; `terms` are the words that are marked in it.
export function result({ paper, explain }, best, terms) {
  const text = paper.abstract && h("p", { class: "abstract" });
  const written = paper.as_written?.abstract;
  const isLong = text && paper.abstract.length > SHORT + 40;
  const whole = () => drawn(written, terms) ?? highlighted(paper.abstract, terms);
  if (isLong) replace(text, (written ? drawn(beginning(written), terms) : null) ?? highlighted(beginning(paper.abstract), terms));
  else if (text) replace(text, whole());
  return h("li", { class: "result" }, h("article", null,
    h("h3", null, paperLink(paper, terms), status(paper)),
    h("p", { class: "meta" }, line(paper)),
    text,
    explaining && legs(explain, best),
    h("p", { class: "actions" }, isLong && more(text, whole), copyBibtex(paper), citationKey(paper))));
}

// The first lines of an abstract, up to the end of a word or of a formula.
function beginning(text) {
  let end = text.indexOf(" ", SHORT);
  if (text.slice(0, end).split("$").length % 2 === 0) end = text.indexOf("$", end) + 1;
  return end > 0 ? `${text.slice(0, end)} \u2026` : text;
}

// A button that shows the whole of an abstract, and its first lines again.
function more(text, whole) {
  const begin = [...text.childNodes];
  text.classList.add("clamped");
  const button = h("button", { type: "button", class: "plain", "aria-expanded": "false", onclick: () => {
    const isOpened = !text.classList.toggle("clamped");
    replace(text, isOpened ? whole() : begin);
    button.setAttribute("aria-expanded", String(isOpened));
    button.textContent = isOpened ? "Less" : "Whole abstract";
  } }, "Whole abstract");
  return button;
}

// A histogram of years. Bars can be clicked; the fields for years do the same from the keyboard.
export function histogram(values, choose) {
  if (!values.length) return null;
  const first = values[0].value, last = values.at(-1).value;
  const byYear = new Map(values.map((one) => [one.value, one.papers]));
  const most = Math.max(...byYear.values());
  const count = last - first + 1, width = 100 / count;
  const bars = [];
  for (let year = first; year <= last; year++) {
    const papers = byYear.get(year) ?? 0;
    if (!papers) continue;
    const height = Math.max(1.5, (papers / most) * 40);
    bars.push(svg("rect", { x: (year - first) * width + width * 0.08, y: 40 - height, width: width * 0.84, height,
      class: choose ? "value chosen-by-click" : "value", onclick: choose && (() => choose(year)) }, svg("title", null, `${year}: ${plural(papers, "paper")}`)));
  }
  const label = `Papers by year, ${first} to ${last}; most, ${number(most)}, in ${
    values.find((one) => one.papers === most).value}`;
  return h("figure", { class: "years" },
    svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": label }, bars),
    h("figcaption", { class: "dim" }, h("span", null, String(first)), h("span", null, String(last))));
}

// Compares the sentences of a draft with the papers that it cites, of which the bibliography is in another box.

import { post } from "./api.js";
import { h, notice, number, plural, replace, say } from "./dom.js";
import { paperLink, status } from "./papers.js";

const LABELS = { contradicts: "Contradicts", not_found: "Not found in the paper", supported: "Supported" };
const LABEL_COLOURS = { contradicts: "retracted", not_found: "near", supported: "held" };
const REFERENCES = { retracted: "Retracted", withdrawn: "Withdrawn", near: "Uncertain reference", other_version: "Another version",
  no_entry: "No entry", unreadable: "Unreadable", not_in_snapshot: "Not in this library" };

let compared = null; // the draft and the response, which remain while other views are open

// The box for the draft; `bibliography` returns the text of the entries.
export function draftBox(bibliography) {
  const area = h("textarea", { name: "draft", rows: 9, spellcheck: "false", "aria-label": "Draft",
    placeholder: "Paste LaTeX or Markdown with citations such as \\cite{key} or [@key]" });
  const result = h("div", { class: "checked" });
  const form = h("form", { class: "drop", onsubmit: compare }, area, h("div", { class: "row" }, h("button", { class: "primary" }, "Compare")));
  if (compared) {
    area.value = compared.source;
    draw();
  }
  return h("details", { open: Boolean(compared) }, h("summary", null, "Compare a draft with what it cites"),
    h("p", { class: "text dim" }, "Each sentence that cites is compared with the papers of its keys, whose entries are in the box above. ",
      "What is not found in a paper may hold all the same."), form, result);

  async function compare(event) {
    event.preventDefault();
    const source = area.value;
    if (!source.trim()) return;
    result.setAttribute("aria-busy", "true");
    say("Comparing.");
    try {
      compared = { source, response: await post("v1/claims/draft", { draft: source, bibliography: bibliography().trim() || null }) };
      draw();
    } catch (error) {
      replace(result, notice(error.status === 404 ? "This server compares no drafts: its extension scholarbase_research is off." : error.message, "error"));
    }
    result.removeAttribute("aria-busy");
  }

  function draw() {
    const { citations, claims } = compared.response;
    const counts = Object.keys(LABELS).filter((name) => claims[name]).map((name) => `${number(claims[name])} ${LABELS[name].toLowerCase()}`);
    replace(result, h("h2", { class: "hidden" }, "Citations"), h("p", { class: "dim" }, `${plural(citations.length, "citation")}: ${counts.join(", ")}.`), h("ol", { class: "references" }, citations.map(citation)));
    say(`${plural(citations.length, "citation")} compared: ${counts.join(", ")}.`);
  }

  function citation(one) {
    const wrong = REFERENCES[one.reference];
    return h("li", { class: "reference" }, h("article", null,
      h("div", null, h("p", null, wrong && h("strong", { class: `verdict ${one.reference === "other_version" ? "differs" : one.reference}` }, wrong),
        one.source && h("strong", { class: `verdict ${LABEL_COLOURS[one.label]}` }, LABELS[one.label]),
        h("code", { class: "key" }, one.key), h("span", { class: "dim" }, ` line ${one.line}`)), h("p", null, one.claim)),
      h("div", null, one.paper && h("h3", null, paperLink(one.paper), status(one.paper)), wrong && h("p", { class: "dim" }, one.reference_reason),
        one.source && h("p", { class: "dim" }, `${one.reason} Nearness of the paper: ${one.nearness.toFixed(2)}.`), one.sentences?.map(({ text }) => h("blockquote", null, text)),
        one.said_by && h("p", null, "Another paper has these words: ", paperLink(one.said_by)),
        one.said_by && h("blockquote", null, one.said_by.sentence))));
  }
}

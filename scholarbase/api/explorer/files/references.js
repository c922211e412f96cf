// Checks the references of a bibliography: a verdict on each with the paper beside it, and the bibliography corrected.

import { post, postForText, text } from "./api.js";
import { draftBox } from "./draft.js";
import { add, copyButton, download, h, link, notice, number, plural, replace, say } from "./dom.js";
import { FIELDS, line, paperLink, status } from "./papers.js";

// Verdicts in the order of their filters: of the API, and "differs" for papers of the library that are cited otherwise.
const VERDICTS = { retracted: "Retracted", withdrawn: "Withdrawn", differs: "Differs", near: "Uncertain", unreadable: "Unreadable",
  not_in_snapshot: "Not in this library", held: "Found" };
const BIB = "application/x-bibtex";
const CORRECTED = ["title", "authors", "year"]; // fields that the server corrects
// The first fields of an entry of BibTeX, with braces in braces, and those that are shown.
const FIELDS_OF_ENTRY = /(\w+)\s*=\s*(?:\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}|"([^"]*)"|(\w+))/g;
const SHOWN = ["author", "title", "journal", "booktitle", "year", "date", "doi", "eprint"];

const verdict = (one) => (one.status === "held" && one.differences?.length ? "differs" : one.status);

// A year before the library's is wrong; a later one may be that of the journal.
const isTaken = ({ field, reference, library }) => (field === "year" ? Number(reference) < Number(library) : CORRECTED.includes(field));

// The text that was checked, the response, and the differences that are taken, as "position field". They remain while
// other views are open.
let checked = null;

export function open(main) {
  const area = h("textarea", { name: "references", rows: 9, spellcheck: "false", required: true, "aria-label": "References",
    placeholder: "Paste BibTeX, RIS, CSL-JSON, or one reference, DOI or id per line" });
  const file = h("input", { type: "file", accept: ".bib,.ris,.json,.txt,.jsonl,text/plain", "aria-label": "Open a file", onchange: () => read(file.files) });
  const form = h("form", { class: "drop", onsubmit: check, ondragover: (event) => { event.preventDefault(); form.classList.add("over"); },
    ondragleave: () => form.classList.remove("over"), ondrop: (event) => {
      event.preventDefault();
      form.classList.remove("over");
      read(event.dataTransfer.files);
    } }, area, h("div", { class: "row" }, h("button", { class: "primary" }, "Check"), file,
    h("button", { type: "button", class: "plain", onclick: example }, "Show me an example")));
  const result = h("div", { class: "checked" });
  replace(main, h("h1", null, "Check references"), h("p", { class: "text dim" }, "Paste a bibliography, or drop a file on the box. Each reference is ",
    "compared with the papers of this library: which it means, where the two differ, and whether it has been retracted."), form, result, draftBox(() => area.value));
  if (checked) {
    area.value = checked.source;
    draw();
  }

  async function read([chosen]) {
    if (!chosen) return;
    area.value = await chosen.text();
    check();
  }

  // References to papers of this library, one with a mistake, and an invented one.
  async function example() {
    try {
      const entries = (await text("v1/search", { q: "*", prefer: "cited", limit: 3, format: "bibtex" })).trim().split(/\n\n(?=@)/)
        .map((entry) => entry.replace(/\n abstract = .*/, "").replace(/,\s*\}$/, "\n}"));
      entries[0] = entries[0].replace(/(^ title = .*?)(\p{L})(\p{L})(\p{L}*[^\p{L}\n]*)$/mu, "$1$3$2$4");
      area.value = [...entries,
        "@article{invented2020,\n author = {Jane Invented and John Imagined},\n title = {A paper that nobody has written about nothing},\n year = {2020}\n}"].join("\n\n");
    } catch (error) {
      replace(result, notice(error.message, "error"));
      return;
    }
    check();
  }

  async function check(event) {
    event?.preventDefault();
    const source = area.value;
    if (!source.trim()) return;
    result.setAttribute("aria-busy", "true");
    say("Checking.");
    try {
      const response = await post("v1/references/check", { references: source, fields: FIELDS.split(",") });
      const taken = new Set(response.results.flatMap((one) => (one.differences ?? []).filter(isTaken).map(({ field }) => `${one.position} ${field}`)));
      checked = { source, response, taken };
      draw();
    } catch (error) {
      replace(result, notice(error.message, "error"));
    }
    result.removeAttribute("aria-busy");
  }

  function draw() {
    const { results } = checked.response;
    const counts = new Map(Object.keys(VERDICTS).map((name) => [name, results.filter((one) => verdict(one) === name).length]));
    const held = results.flatMap((one) => one.paper?.id ?? []);
    const list = h("ol", { class: "references" }, results.map((one) => reference(one)));
    const show = (name) => h("button", { type: "button", class: `chip ${name}`, "aria-pressed": String(name === ""), onclick: (event) => {
      for (const other of event.target.parentElement.children) other.setAttribute("aria-pressed", String(other === event.target));
      for (const row of list.children) row.hidden = name !== "" && row.dataset.verdict !== name;
    } }, name ? `${VERDICTS[name]} ${number(counts.get(name))}` : `All ${number(results.length)}`);
    replace(result, h("h2", { class: "hidden" }, "Verdicts"), h("div", { class: "head" },
      h("div", { class: "chips", role: "group", "aria-label": "Verdicts" }, show(""), [...counts].filter(([, count]) => count).map(([name]) => show(name))),
      h("div", { class: "row tools" }, h("button", { type: "button", onclick: save }, "Download the corrected .bib"),
        h("span", null, copyButton("Copy", corrected)),
        held.length > 0 && h("a", { href: link("completeness", { relevant: held }) }, "How complete?"))),
    list);
    say(`${plural(results.length, "reference")} checked: ${[...counts].filter(([, count]) => count).map(([name, count]) => `${count} ${VERDICTS[name]}`).join(", ")}.`);
  }

  function reference(one) {
    const name = verdict(one);
    if (!name) { // not finished in time
      return h("li", { class: "reference", "data-verdict": "unreadable" }, notice(one.detail ?? "Not checked.", "error"));
    }
    return h("li", { class: "reference", "data-verdict": name }, h("article", null,
      h("div", null, h("p", null, h("strong", { class: `verdict ${name}` }, VERDICTS[name]), " ", one.key && h("code", { class: "key" }, one.key)),
        h("p", { class: "written" }, written(one))),
      h("div", null, one.paper && [h("h3", null, paperLink(one.paper), status(one.paper)), h("p", { class: "meta" }, line(one.paper))],
        (name !== "held") && h("p", { class: "dim" }, one.reason),
        one.differences?.length > 0 && differences(one),
        one.matches?.length > 0 && h("ul", { class: "matches" }, one.matches.map(({ paper, score }) => h("li", null, paperLink(paper), status(paper),
          h("span", { class: "dim" }, ` ${[line(paper), `${Math.round(score * 100)} % alike`].join(" \u00b7 ")}`)))))));
  }

  // The text of an entry of BibTeX, to the beginning of the next one.
  function entryOf(one) {
    const { results } = checked.response;
    const next = results[results.indexOf(one) + 1];
    return checked.source.split("\n").slice(one.line - 1, next ? next.line - 1 : undefined).join("\n");
  }

  // An entry of BibTeX as a line, and other references as they are.
  function written(one) {
    if (checked.response.input_format !== "bibtex") return one.text;
    const fields = new Map([...entryOf(one).matchAll(FIELDS_OF_ENTRY)].map(([, name, ...values]) => [name.toLowerCase(), values.find(Boolean)]));
    const shown = SHOWN.map((name) => fields.get(name)?.replace(/[{}]/g, "").replace(/\s+/g, " ")).filter(Boolean);
    return shown.length ? `${shown.join(". ")}.` : one.text;
  }

  function differences(one) {
    const mark = (field) => h("input", { type: "checkbox", checked: checked.taken.has(`${one.position} ${field}`),
      "aria-label": `Take the library's ${field} for reference ${one.position}`, onchange: ({ target }) => {
        checked.taken[target.checked ? "add" : "delete"](`${one.position} ${field}`);
      } });
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Differences of reference ${one.position}` }, h("table", null,
      h("thead", null, h("tr", null, ["", "Reference", "Library", "Correct"].map((words) => (words ? h("th", { scope: "col" }, words) : h("td"))))),
      h("tbody", null, one.differences.map(({ field, reference, library }) => h("tr", null, h("th", { scope: "row" }, field),
        h("td", null, reference || "none"), h("td", null, library || "none"), h("td", null, CORRECTED.includes(field) && mark(field)))))));
  }

  // The bibliography with the fields that are taken from the library.
  function corrected() {
    const corrections = {};
    for (const one of checked.taken) {
      const [position, field] = one.split(" ");
      (corrections[position] ??= []).push(field);
    }
    return postForText("v1/references/correct", { references: checked.source, input_format: checked.response.input_format, corrections });
  }

  async function save() {
    try {
      download("corrected.bib", BIB, await corrected());
      say("Saved.");
    } catch (error) {
      add(result, notice(error.message, "error"));
    }
  }

  return {};
}

// Checks the references of a bibliography: a verdict on each with the paper beside it, and the bibliography corrected.

import { post, postForText, text } from "./api.js";
import { entriesOf, fieldOf, withField } from "./bibtex.js";
import { draftBox } from "./draft.js";
import { add, copyButton, download, h, link, notice, number, plural, replace, say } from "./dom.js";
import { FIELDS, line, paperLink, status } from "./papers.js";

// Verdicts in the order of their filters: of the API, and "differs" for papers of the library that are cited otherwise.
const VERDICTS = { retracted: "Retracted", withdrawn: "Withdrawn", differs: "Differs", near: "Uncertain", unreadable: "Unreadable",
  not_in_snapshot: "Not in this library", held: "Found" };
const BATCH = 500; // papers of a request
const BIB = "application/x-bibtex";
const FIELD = { title: "title", authors: "author", year: "year" }; // of BibTeX, that the library can correct

const verdict = (one) => (one.status === "held" && one.differences?.length ? "differs" : one.status);

// A year before the library's is wrong; a later one may be that of the journal.
const isTaken = ({ field, reference, library }) => (field === "year" ? Number(reference) < Number(library) : field in FIELD);

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
      const entries = entriesOf(await text("v1/search", { q: "*", prefer: "cited", limit: 3, format: "bibtex" }))
        .map((one) => one.replace(/\n abstract = .*/, "").replace(/,\s*\}$/, "\n}"));
      const [first, ...rest] = entries;
      const wrong = (fieldOf(first, "title") ?? "").replace(/(\p{L})(\p{L})(\p{L}*\W*)$/u, "$2$1$3");
      area.value = [withField(first, "title", wrong), ...rest,
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
    const entry = entryOf(one);
    const fields = ["author", "title", "journal", "booktitle", "year", "date", "doi", "eprint"].map((name) => fieldOf(entry, name))
      .map((value) => value?.replace(/[{}]|^"|"$/g, "").replace(/\s+/g, " ")).filter(Boolean);
    return fields.length ? `${fields.join(". ")}.` : one.text;
  }

  function differences(one) {
    const mark = (field) => h("input", { type: "checkbox", checked: checked.taken.has(`${one.position} ${field}`),
      "aria-label": `Take the library's ${field} for reference ${one.position}`, onchange: ({ target }) => {
        checked.taken[target.checked ? "add" : "delete"](`${one.position} ${field}`);
      } });
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Differences of reference ${one.position}` }, h("table", null,
      h("thead", null, h("tr", null, ["", "Reference", "Library", "Correct"].map((words) => (words ? h("th", { scope: "col" }, words) : h("td"))))),
      h("tbody", null, one.differences.map(({ field, reference, library }) => h("tr", null, h("th", { scope: "row" }, field),
        h("td", null, reference || "none"), h("td", null, library || "none"), h("td", null, field in FIELD && mark(field)))))));
  }

  // The bibliography as it was written, with the fields that are taken from the library, and a comment before each reference
  // that is not certain. Of other formats the library's entries.
  async function corrected() {
    const { source, response, taken } = checked;
    const isBibtex = response.input_format === "bibtex";
    const wanted = response.results.filter((one) => one.paper && (!isBibtex || one.differences?.length));
    const entries = new Map();
    for (let at = 0; at < wanted.length; at += BATCH) {
      const some = wanted.slice(at, at + BATCH);
      const ids = [...new Set(some.map((one) => one.paper.id))];
      const written = entriesOf(await postForText("v1/papers/batch", { ids, format: "bibtex" }));
      ids.forEach((id, place) => entries.set(id, written[place]));
    }
    const remark = (one) => (/held|differs/.test(verdict(one)) ? "" : `% ${VERDICTS[verdict(one)] ?? "Not checked"}: ${
      (one.reason ?? one.detail ?? "").replaceAll("@", "").replace(/\s+/g, " ")}\n`);
    if (!isBibtex) {
      return `${response.results.map((one) => remark(one) + (one.paper ? entries.get(one.paper.id) : `% ${(one.text ?? "").replaceAll("@", "")}`)).join("\n\n")}\n`;
    }
    const parts = response.results.map((one) => {
      let entry = entryOf(one);
      for (const { field } of one.differences ?? []) {
        const value = taken.has(`${one.position} ${field}`) && fieldOf(entries.get(one.paper.id), FIELD[field]);
        if (value) entry = withField(entry, FIELD[field], value);
      }
      return remark(one) + entry;
    });
    const before = source.split("\n").slice(0, response.results[0].line - 1);
    return [...before, ...parts].join("\n");
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

// How complete a list of papers is: how many relevant ones were not seen, by which comparison, and what to try next.

import { get, post } from "./api.js";
import { field, go, h, link, notice, number, plural, replace, say } from "./dom.js";
import { line, paperLink } from "./papers.js";

const SHOWN = 20; // results to choose from
const MODES = { words: "sparse", meaning: "dense", search: "" };

const ids = (text) => text.split(/[\s,]+/).filter(Boolean);
const papers = (count) => plural(count, "relevant paper");
const times = (count) => (count === 1 ? "has" : "have");

export const offMessage = (error) => (error.status === 404 ? "This server estimates nothing: its extension scholarbase_research is off." : error.message);

// The estimate in one sentence. Only known papers give both ends of an interval; of the other methods only the low end holds.
function sentence({ estimates, observation }) {
  const known = estimates.find((one) => !one.lower_bound);
  if (known) {
    const count = Math.round(known.unseen);
    return `About ${papers(count)} ${times(count)} not been seen; with a probability of 80% between ${number(known.low)} and ${number(known.high)}.`;
  }
  if (!estimates.length) return `Cannot know. ${observation.split("\n")[1]}`;
  const least = Math.max(...estimates.map((one) => one.low));
  return least ? `At least ${papers(least)} ${times(least)} not been seen. How many more, these searches cannot tell: name papers known from elsewhere.`
    : "Cannot know. The searches agree, but they may miss the same papers: name papers known from elsewhere.";
}

// A search, or a list of citations, as a link to it.
function tried(name, q) {
  const [, leg, text] = /^(\w+): (.*)$/s.exec(name) ?? [];
  if (leg in MODES) return h("a", { href: link("search", { q: text, mode: MODES[leg] }) }, name);
  if (leg) return text.includes(", ") ? name : h("a", { href: link("paper", { id: text }) }, name);
  return h("a", { href: /^\d{4}$/.test(name) ? link("search", { q, from: name, to: name }) : link("paper", { id: name }) }, name);
}

const scroll = (label, ...rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", null, ...rows));
const head = (names) => h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name))));

// The response of an estimate for the question `q`.
export function estimate(found, q) {
  const assumed = found.observation.split("\n").filter((one) => one.startsWith("Assumed"));
  const next = [["Search", found.searches], ["Paper with its citations", found.seeds], ["Year", found.years]]
    .flatMap(([kind, rows]) => rows.map((one) => [kind, one]));
  const said = sentence(found);
  say(said);
  return [h("p", { class: "text" }, h("strong", null, said)),
    h("p", { class: "text dim" }, `${found.observation.split("\n")[0]} `, assumed),
    found.estimates.length > 0 && [h("h2", null, "What it is based on"), scroll("What it is based on",
      head(["Compared", "Unseen", "Interval of 80%", "Reliable"]), h("tbody", null, found.estimates.map((one) => h("tr", null,
        h("td", null, one.samples), h("td", null, number(one.unseen)), h("td", null, `${number(one.low)} to ${number(one.high)}`),
        h("td", null, one.lower_bound ? "the low end only" : "both ends")))))],
    next.length > 0 && [h("h2", null, "What to try next"), scroll("What to try next",
      head(["Kind", "Open and read on", "Relevant", "Of", "Only here"]), h("tbody", null, next.map(([kind, one]) => h("tr", null,
        h("td", null, kind), h("td", null, tried(one.name, q)), ...[one.relevant, one.papers, one.only].map((count) => h("td", null, number(count)))))))]];
}

export function open(main, params) {
  const area = (name, label, rows) => h("label", { class: "field" }, label, h("textarea", { name, rows, spellcheck: "false" }));
  const question = field("Question", "q", "", { required: true, maxlength: 10000 });
  const [relevant, known] = [area("relevant", "Relevant papers, ids one a line", 6),
    area("known", "Relevant papers that you know from elsewhere, such as a review or a colleague", 3)];
  const list = h("div"), result = h("div");
  let asked = 0;
  const text = (label) => label.querySelector("input, textarea");
  replace(main, h("h1", null, "How complete is this list?"), h("p", { class: "text dim" }, "How many papers that answer a question have not been seen: ",
    "several searches are compared with each other, and best with papers that were found in another way."),
  h("form", { class: "drop", onsubmit: submit }, question, relevant, known, h("div", { class: "row" }, h("button", { class: "primary" }, "Estimate"),
    h("button", { type: "button", onclick: choose }, "Choose from results")), list), result);

  function submit(event) {
    event.preventDefault();
    go(link("completeness", { q: text(question).value, relevant: ids(text(relevant).value), known: ids(text(known).value) }));
  }

  // The first results for the question: those that are marked are in the list.
  async function choose() {
    const q = text(question).value;
    if (!q) return;
    try {
      const { results } = await get("v1/search", { q, limit: SHOWN, fields: "id,title,authors,year,venue" });
      replace(list, h("fieldset", null, h("legend", null, "Which are relevant?"), results.map(({ paper }) => h("div", { class: "facet" },
        h("input", { type: "checkbox", "aria-label": paper.title, checked: ids(text(relevant).value).includes(paper.id), onchange: ({ target }) => {
          const others = ids(text(relevant).value).filter((id) => id !== paper.id);
          text(relevant).value = [...others, ...target.checked ? [paper.id] : []].join("\n");
        } }), h("span", null, paperLink(paper), h("span", { class: "dim" }, ` ${line(paper)}`))))));
    } catch (error) {
      replace(list, notice(error.message, "error"));
    }
  }

  async function update(found) {
    const body = { q: found.get("q") ?? "", relevant: found.getAll("relevant"), known: found.getAll("known") };
    text(question).value = body.q;
    text(relevant).value = body.relevant.join("\n");
    text(known).value = body.known.join("\n");
    replace(result);
    if (!body.q || !(body.relevant.length || body.known.length)) return;
    replace(result, h("p", null, "Searching."));
    const request = ++asked;
    let shown;
    try {
      shown = estimate(await post("v1/completeness", body), body.q);
    } catch (error) {
      shown = notice(offMessage(error), "error");
    }
    if (request === asked) replace(result, shown);
  }
  update(params);
  return { update };
}

// A paper: its abstract, ids and links, citations and references, its surroundings, and similar papers.

import { get, paperPath, text } from "./api.js";
import { add, choice, copyButton, explaining, h, link, notice, number, replace, say } from "./dom.js";
import { drawn } from "./formulas.js";
import { drawGraph } from "./graph.js";
import { citationKey, facts, legs, line, paperLink, status, title } from "./papers.js";

const PAGE = 10;
const SORTS = [["-citation_count", "most cited first"], ["citation_count", "least cited first"], ["-date", "newest first"],
  ["date", "oldest first"]];
const LISTED = "title,authors,year,venue,status,notices,categories,citation_count,as_written";
const SHOWN = `${LISTED},abstract,tldr,comment,external_ids,url,publication_date,publication_types,fields_of_study,reference_count`;

export function open(main, params) {
  async function update(found) {
    const id = found.get("id");
    if (!id) {
      replace(main, h("h1", null, "A paper"), notice("No id is in the address.", "error"));
      return;
    }
    replace(main, h("h1", null, "A paper"), h("p", null, "Loading."));
    let paper;
    try {
      paper = await get(paperPath(id), { fields: SHOWN });
    } catch (error) {
      replace(main, h("h1", null, "A paper"), notice(error.message, "error"));
      return;
    }
    document.title = `${paper.title} - ScholarBase`;
    replace(main, h("div", { class: "paper" }, h("div", { class: "body" }, head(paper), fullText(paper), surroundings(paper)), ids(paper)),
      h("div", { class: "lists" }, paged(`${paperPath(paper.id)}/citations`, "Cited by"),
        paged(`${paperPath(paper.id)}/references`, "References")), similar(paper));
    say(paper.title ?? paper.id);
  }

  update(params);
  return { update };
}

const KINDS = { retraction: "Retracted", correction: "Corrected", expression_of_concern: "Expression of concern", reinstatement: "Reinstated" };

function head(paper) {
  return [
    h("h1", null, title(paper), status(paper)),
    h("p", null, paper.authors.map((one, place) => [place ? ", " : "", h("a",
      { href: link("author", { name: one.name, id: one.author_id }) }, one.name)])),
    h("p", { class: "meta" }, facts(paper)),
    paper.comment && h("p", { class: "meta" }, paper.comment),
    (paper.notices ?? []).map((one) => h("p", { class: "notice error" }, [[KINDS[one.kind], one.date && `on ${one.date}`].filter(Boolean).join(" "),
      one.reasons.join("; "), one.source].filter(Boolean).join(". "))),
    h("h2", { class: "hidden" }, "Abstract"),
    h("p", { class: "text" }, drawn(paper.as_written?.abstract) ?? paper.abstract ?? "The library has no abstract of this paper."),
    paper.tldr && h("p", { class: "text" }, h("strong", null, "In short: "), paper.tldr),
  ];
}

// Links go to addresses that are made of ids here, or to the source's own if it is one of the web.
function pages(paper) {
  const { arXiv, DOI } = paper.external_ids;
  const found = [];
  const path = (value) => encodeURIComponent(value).replaceAll("%2F", "/");
  if (arXiv) found.push(["arXiv", `https://arxiv.org/abs/${path(arXiv)}`], ["PDF", `https://arxiv.org/pdf/${path(arXiv)}`]);
  if (DOI) found.push(["Publisher", `https://doi.org/${path(DOI)}`]);
  if (/^https?:\/\//.test(paper.url ?? "")) found.push(["Source", paper.url]);
  return found;
}

// What leads out of the library: links, the citation, ids.
function ids(paper) {
  const rows = [["Id", paper.id], ...Object.entries(paper.external_ids), ["Published", paper.publication_date],
    ["Types", paper.publication_types.join(", ")], ["Fields", paper.fields_of_study.join(", ")],
    ["Cited worldwide", paper.citation_count], ["References worldwide", paper.reference_count]];
  const cite = h("p", { class: "row" });
  const area = h("textarea", { readonly: true, rows: 9, spellcheck: "false", "aria-label": "BibTeX" });
  const key = h("span", { class: "dim" }, citationKey(paper));
  const entry = text(paperPath(paper.id), { format: "bibtex" }).then((found) => {
    area.value = found;
    if (!key.childElementCount) replace(key, h("code", { class: "key", title: "Citation key" }, /^@\w+\{([^,]*)/.exec(found)?.[1] ?? ""));
    return found;
  });
  entry.catch((error) => { area.value = error.message; });
  add(cite, copyButton("Copy BibTeX", () => entry), key);
  return h("section", { class: "facts-of-paper", "aria-label": "Links and ids" },
    h("p", { class: "row" }, pages(paper).map(([name, href]) =>
      h("a", { href, rel: "noopener noreferrer", target: "_blank" }, name))),
    h("div", null, cite), h("details", null, h("summary", null, "BibTeX"), area),
    h("details", null, h("summary", null, "Ids and numbers"), h("table", null, h("tbody", null,
      rows.filter(([, value]) => value !== null && value !== "").map(([name, value]) =>
        h("tr", null, h("th", { scope: "row" }, name),
          h("td", null, typeof value === "number" ? number(value) : value)))))));
}

// A list of papers, or of citations with theirs, page by page in a chosen order.
export function paged(path, label) {
  const list = h("div", { class: "results" });
  const count = h("span");
  let offset = 0;
  const sort = choice("Order", "sort", SORTS, "-citation_count");
  sort.addEventListener("change", () => { offset = 0; load(); });

  async function load() {
    let page;
    try {
      page = await get(path, { limit: PAGE, offset, sort: sort.querySelector("select").value, fields: LISTED });
    } catch (error) {
      replace(list, notice(error.message, "error"));
      return;
    }
    replace(count, ` ${number(page.total)}`);
    sort.hidden = page.total < 2;
    const move = (to) => h("button", { type: "button", onclick: () => { offset = to; load(); } });
    replace(list, page.results.length ? h("ol", { start: offset + 1 }, page.results.map((one) => h("li", { class: "result" },
      h("article", null, h("h3", null, paperLink(one.paper ?? one), status(one.paper ?? one)),
        h("p", { class: "meta" }, line(one.paper ?? one),
          one.is_influential ? " \u00b7 influential" : ""),
        one.contexts?.[0] && h("blockquote", null, one.contexts[0]))))) : h("p", { class: "dim" }, "None in this library."),
    h("p", { class: "row" }, offset > 0 && withText(move(Math.max(0, offset - PAGE)), "Previous"),
      page.next_offset !== null && withText(move(page.next_offset), "Next")));
  }
  load();
  return h("section", { "aria-label": label }, h("div", { class: "titled" }, h("h2", null, label, count), sort), list);
}

// Shown where the library has full texts. Whether it has that of this paper is known once it is opened.
function fullText(paper) {
  const place = h("div");
  const holder = h("div");
  const details = h("details", { class: "fulltext" }, h("summary", null, "Full text"), holder);
  details.addEventListener("toggle", async () => {
    if (!details.open || holder.childElementCount) return;
    const { drawText } = await import("./fulltext.js");
    drawText(holder, paper);
  });
  get("v1/snapshot").then(({ manifest }) => { if (manifest.documents) place.append(details); }, () => {});
  return place;
}

const withText = (element, words) => { element.append(words); return element; };

function surroundings(paper) {
  const holder = h("div", { class: "around" });
  const hops = choice("Distance", "hops", [["1", "one step"], ["2", "two steps"]], "1");
  const draw = () => drawGraph(holder, paper, Number(hops.querySelector("select").value));
  hops.addEventListener("change", draw);
  const details = h("details", null, h("summary", null, "Surroundings in the citation graph"), hops, holder);
  details.addEventListener("toggle", () => { if (details.open && !holder.childElementCount) draw(); });
  return details;
}

// Whether a paper is nearer than most papers are to each other, or is linked with the paper by citations.
const isSimilar = (hit, floor) => (hit.explain ?? []).some((leg) => leg.leg !== "dense" || leg.score >= floor);

// The similar papers, page by page, up to the library's floor of similarity.
function similar(paper) {
  const list = h("ol");
  const place = h("div", { class: "results", "aria-busy": "true" });
  let offset = 0;
  async function load() {
    try {
      const [page, { manifest }] = await Promise.all([get(`${paperPath(paper.id)}/similar`, { limit: PAGE, offset, explain: true, fields: LISTED }),
        get("v1/snapshot")]);
      const random = manifest.vectors?.random_similarity;
      const results = page.results.filter((hit) => isSimilar(hit, random?.p75 ?? random?.p95 ?? -1));
      const best = Math.max(0, ...results.flatMap((hit) => hit.explain ?? []).map((leg) => leg.share));
      add(list, results.map((hit) => h("li", { class: "result" }, h("article", null,
        h("h3", null, paperLink(hit.paper), status(hit.paper)),
        h("p", { class: "meta" }, line(hit.paper)), explaining && legs(hit.explain, best)))));
      const isLast = page.next_offset === null || results.length < page.results.length;
      offset = page.next_offset;
      replace(place, (page.warnings ?? []).map((one) => notice(one)), list, isLast
        ? h("p", { class: "dim" }, list.childElementCount ? "The other papers are no more similar than any two." : "None.")
        : h("p", null, h("button", { type: "button", onclick: load }, "More similar papers")));
    } catch (error) {
      replace(place, notice(error.message, "error"));
    }
    place.removeAttribute("aria-busy");
  }
  load();
  return h("section", { "aria-label": "Similar papers" }, h("h2", null, "Similar papers"), place);
}

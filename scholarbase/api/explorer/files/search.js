// The search view: one box, filters with counts, results with their legs.

import { get, postForText, text } from "./api.js";
import { choice, field, go, h, link, notice, number, pinned, plural, replace, say } from "./dom.js";
import { FIELDS, histogram, result } from "./papers.js";

export const MODES = [["", "best mode"], ["hybrid", "words and meaning"], ["sparse", "words"], ["dense", "meaning"]];
export const ENGINES = [["", "default engine"], "bm25", "feedback", "fts5", "learned"];
const SYNTAXES = [["", "auto"], ["plain", "plain words"], ["query", "query syntax"]];
export const SORTS = [["", "best first"], ["-date", "newest first"], ["date", "oldest first"],
  ["-citation_count", "most cited first"]];
const SORTED = 100; // results that are sorted by something else than their score
const LISTS = ["category", "venue", "type", "author", "exclude"];
const SINGLE = ["q", "mode", "engine", "syntax", "negation", "from", "to", "min_citations", "status", "as_of", "sort",
  "offset"];
export const FILTERS = ["syntax", "negation", "from", "to", "min_citations", "status", "as_of", ...LISTS];
const OF_FACETS = ["q", "mode", "engine", ...FILTERS];
export const PARAMETERS = [...SINGLE, ...LISTS];
const PAGE = 10;
const EXAMPLES = ["How is two-dimensional QCD related to string theory?", "machine translation",
  '"black hole" AND entropy', "graph neural networks"];

// The parameters of a view's address as those of the API.
export function parametersOf(params) {
  const values = {};
  for (const name of SINGLE) if (params.get(name)) values[name] = params.get(name);
  for (const name of LISTS) if (params.getAll(name).length) values[name] = params.getAll(name);
  if (!SORTS.some(([sort]) => sort === values.sort)) delete values.sort;
  return values;
}

// The same for the API, which has no other order: the first results are sorted here.
function sentOf({ sort, offset, ...values }) {
  if (sort) return { ...values, limit: SORTED };
  return offset ? { ...values, offset, limit: PAGE } : { ...values, limit: PAGE };
}

// The API checks the offset of a search, but pages in another order are cut here.
function problemOf({ sort, offset = "0" }) {
  return sort && !/^\d+$/.test(offset)
    ? Promise.reject(new Error(`offset is '${offset}': it must be a whole number of 0 or more.`)) : null;
}

// Papers without the value come last, and equal ones stay in their order.
function sorted(results, sort) {
  const name = sort === "-citation_count" ? "citation_count" : "publication_date";
  const sign = sort.startsWith("-") ? -1 : 1;
  const value = ({ paper }) => paper[name] ?? (name === "publication_date" && paper.year ? String(paper.year) : null);
  return [...results].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === other) return 0;
    if (one === null || other === null) return one === null ? 1 : -1;
    return one < other ? -sign : sign;
  });
}

const only = (values, names) => Object.fromEntries(names.filter((name) => name in values).map((n) => [n, values[n]]));

export const filtersOf = (params) => only(parametersOf(params), FILTERS);

export function open(main, params) {
  let values = parametersOf(params);
  let running = new AbortController();

  const box = field("Search for", "q", values.q, { type: "search", autocomplete: "off", maxlength: 10000,
    placeholder: "A question, words, a title or an id", autofocus: true });
  const options = h("div", { class: "row", onchange: submit }, choice("Mode", "mode", MODES), choice("Engine", "engine", ENGINES),
    choice("Read as", "syntax", SYNTAXES), choice("Order", "sort", SORTS));
  const form = h("form", { class: "search", role: "search", onsubmit: submit },
    h("div", { class: "row" }, box, h("button", { class: "primary" }, "Search")), options);
  const facets = h("div");
  const filters = h("form", { class: "filters", "aria-label": "Filters", onsubmit: submit, onchange: submit },
    h("div", { class: "row" }, field("From", "from", "", { placeholder: "1993", size: 8 }),
      field("To", "to", "", { placeholder: "2003-06", size: 8 })),
    field("Cited at least", "min_citations", "", { inputmode: "numeric", size: 8 }),
    field("Type", "type", "", { placeholder: "Review or -Review" }),
    field("Author", "author", "", { placeholder: "a name or an id" }),
    field("Not about", "exclude", "", { placeholder: "a phrase" }),
    choice("Status", "status", [["", "any"], "active", "withdrawn", "retracted"]),
    field("As of", "as_of", "", { placeholder: "2003-06", size: 8 }),
    h("button", null, "Apply"), facets);
  const wide = matchMedia("(min-width: 800px)");
  const aside = h("details", { class: "aside", open: wide.matches }, h("summary", null, "Filters"), filters);
  wide.onchange = () => { aside.open = wide.matches; };
  const summary = h("div", { class: "summary" });
  const list = h("div", { class: "results" });
  replace(main, h("h1", null, "Search"), form, h("div", { class: "columns" }, aside,
    h("section", { "aria-label": "Results" }, summary, list)));

  // Draws parts of the page anew, and returns the focus to the field that had it.
  function keepFocus(draw) {
    const { name, dataset } = document.activeElement ?? {};
    const own = dataset?.key ? `[data-key="${CSS.escape(dataset.key)}"]` : name ? `[name="${CSS.escape(name)}"]` : null;
    draw();
    if (own && document.activeElement === document.body) main.querySelector(own)?.focus();
  }

  function submit(event) {
    event.preventDefault();
    const found = {};
    for (const one of [form, filters]) {
      for (const [name, value] of new FormData(one)) {
        if (LISTS.includes(name)) {
          if (value.trim()) (found[name] ??= []).push(value.trim());
        } else found[name] = String(value).trim();
      }
    }
    for (const name of ["type", "author", "exclude"]) { // of an address, which may have more than the field shows
      if (values[name]?.length > 1 && found[name]) found[name].push(...values[name].slice(1));
    }
    go(link("search", found));
  }

  // Sets the fields to the address's values, without drawing them anew.
  function setFields() {
    for (const one of main.querySelectorAll("form input:not([type=checkbox]), form select")) {
      const [value] = [values[one.name] ?? ""].flat();
      if (one.value !== value) one.value = value;
    }
    for (const one of facets.querySelectorAll("input")) one.checked = (values[one.name] ?? []).includes(one.value);
  }

  function drawFacets(found) {
    if (!values.q) {
      const filtered = OF_FACETS.some((name) => name in values);
      replace(summary, h("p", null, `${plural(found.total, "paper")} ${filtered ? "with these filters" : "in this library"}.`));
    }
    if (values.q && !found.total) {
      replace(facets);
      return;
    }
    const scope = { filters: "all papers", results: `the first ${plural(found.total, "result")}`, matches: "all matches" };
    replace(facets, h("h2", null, "Years"),
      histogram(found.year.values, (year) => go(link("search", { ...values, offset: "", from: year, to: year }))),
      group("Categories", "category", found.category), group("Venues", "venue", found.venue),
      h("p", { class: "dim" }, `Counted: ${scope[found.counted] ?? found.counted}.`));
  }

  function group(label, name, facet) {
    const chosen = values[name] ?? [];
    const shown = facet.values.map((one) => one.value);
    const rows = [...chosen.filter((one) => !shown.includes(one)).map((value) => ({ value, papers: null })),
      ...facet.values];
    if (!rows.length) return null;
    return h("fieldset", null, h("legend", null, label), rows.map(({ value, papers }) =>
      h("label", { class: "facet" }, h("input", { type: "checkbox", name, value, checked: chosen.includes(value),
        "data-key": `${name}:${value}` }), h("span", null, value),
      h("span", { class: "count" }, papers === null ? "" : number(papers)))),
    facet.distinct > shown.length && h("p", { class: "dim" }, `and ${number(facet.distinct - shown.length)} more`));
  }

  function intro() {
    replace(summary);
    replace(list, h("p", null, "Search titles and abstracts by words and by meaning. For example:"),
      h("ul", null, EXAMPLES.map((q) => h("li", null, h("a", { href: link("search", { q }) }, q)))));
  }

  async function drawResults(sent, signal) {
    let response;
    try {
      response = await sent;
    } catch (error) {
      if (signal.aborted) return;
      replace(summary);
      replace(list, notice(error.message, "error"));
      list.removeAttribute("aria-busy");
      return;
    }
    if (signal.aborted) return;
    const offset = Number(values.offset ?? 0);
    const all = values.sort ? sorted(response.results, values.sort) : response.results;
    const results = values.sort ? all.slice(offset, offset + PAGE) : all;
    const next = !values.sort ? response.next_offset : offset + PAGE < all.length ? offset + PAGE : null;
    const best = Math.max(0, ...results.flatMap((hit) => hit.explain ?? []).map((leg) => leg.share));
    const least = response.total_relation === "gte" ? "at least " : "";
    const how = [response.mode, response.engine, response.rerank].filter(Boolean).join(", ");
    const counted = `${least}${plural(response.total, "paper")}`;
    replace(list, results.length
      ? h("ol", { start: offset + 1 }, results.map((hit) => result(hit, best)))
      : offset && response.total ? pastTheEnd(offset, values.sort && all.length) : nothing(),
    results.length > 0 && paging(offset, next),
    best > 0 && h("p", { class: "dim" }, "Bars: what the words and the meaning of a paper add to its score, beside the best of ",
      "this page. Rank and score are those of the leg alone."));
    list.removeAttribute("aria-busy");
    replace(summary, h("p", null, counted, h("span", { class: "dim" }, ` (${how})`),
      values.sort && all.length < response.total && h("span", { class: "dim" }, `, of which the first ${all.length} are sorted`)),
      response.understood && exclusions(response.understood),
      (response.warnings ?? []).map((one) => notice(one)), tools(response, results));
    say(`${counted} found.`);
  }

  // What the question excludes: each phrase with a link to the search without it, in which the others are filters.
  function exclusions({ wanted, excluded, avoided }) {
    const all = [...excluded, ...avoided];
    const chip = (kind) => (phrase) => [h("a", { class: "chip", "aria-label": `Remove ${phrase}`, href: link("search", { ...values,
      offset: "", q: wanted, exclude: [...values.exclude ?? [], ...all.filter((one) => one !== phrase)] }) },
    `${kind} ${phrase} \u00d7`), " "];
    return h("p", null, "Searched for ", h("b", null, wanted), ", ", excluded.map(chip("not")), avoided.map(chip("last:")),
      h("a", { href: link("search", { ...values, offset: "", negation: "off" }) }, "Search for all words"));
  }

  function pastTheEnd(offset, sortedOnes) {
    return [notice(`${sortedOnes ? `Only the first ${plural(sortedOnes, "result")} are sorted and shown in this order: there`
      : "There"} are no results from place ${number(offset + 1)} on.`),
    h("p", null, h("a", { href: link("search", { ...values, offset: "" }) }, "Show the first page"))];
  }

  function nothing() {
    const { q, mode, engine, syntax, negation } = values;
    const without = link("search", { q, mode, engine, syntax, negation });
    return [notice("Nothing matched."), without !== link("search", values) && h("p", null,
      h("a", { href: without }, "Search without the filters"))];
  }

  function paging(offset, next) {
    if (!offset && next === null) return null;
    return h("nav", { class: "row", "aria-label": "Pages" },
      offset > 0 && h("a", { href: link("search", { ...values, offset: Math.max(0, offset - PAGE) || "" }) }, "Previous"),
      next !== null && h("a", { href: link("search", { ...values, offset: next }) }, "Next"));
  }

  async function copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      say("Copied.");
    } catch {
      say("The link is the address of this page.");
    }
  }

  // This search beside the same one in the current snapshot, or else in another mode.
  function sideBySide(response) {
    const { mode, engine } = values;
    const same = { q: values.q, a_mode: mode, a_engine: engine, b_engine: engine, ...only(values, FILTERS) };
    if (pinned) return link("compare", { ...same, b_mode: mode, b_snapshot: pinned, snapshot: "" });
    return link("compare", { ...same, b_mode: response.mode === "sparse" ? "hybrid" : "sparse" });
  }

  function tools(response, results) {
    const holder = h("div", { class: "row tools" },
      h("a", { href: sideBySide(response) }, "Side by side"),
      h("button", { type: "button", onclick: copyLink }, "Copy link"));
    import("./copyas.js").then(({ command, copyAs, curl, mcp, python }) => {
      const sent = () => sentOf(values);
      const typed = () => Object.fromEntries(Object.entries(sent()).map(([name, value]) =>
        [name, ["min_citations", "offset"].includes(name) ? Number(value) : value]));
      const texts = { curl: () => curl("v1/search", sent()), Python: () => python(values.q, typed()),
        // Neither of these can name a snapshot.
        ...pinned ? {} : { "Command line": () => command(values.q, sent()),
          // The first results of a sorted page are more than a tool's default size.
          "MCP call": () => mcp(values.sort ? { ...typed(), max_tokens: 50000 } : typed()) } };
      const exported = (format) => (values.sort
        ? postForText("v1/papers/batch", { ids: results.map((hit) => hit.paper.id), as_of: values.as_of, format })
        : text("v1/search", { ...sent(), format }));
      const note = values.sort && `${Object.keys(texts).join(", ")}: the first ${SORTED} results, best first, since the API has no `
        + "other order. BibTeX, RIS, CSL-JSON and CSV: the papers of this page in its order.";
      holder.append(copyAs(texts, exported, note));
    });
    return holder;
  }

  async function update(found) {
    params = found;
    values = parametersOf(found);
    running.abort();
    running = new AbortController();
    const { signal } = running;
    // Sent first, and the rest is drawn while the server works.
    const sent = values.q && (problemOf(values) ?? get("v1/search", { ...sentOf(values), explain: true,
      fields: values.sort ? `${FIELDS},publication_date` : FIELDS }, { signal }));
    if (sent) list.setAttribute("aria-busy", "true");
    setFields();
    if (sent) await drawResults(sent, signal);
    else intro();
    if (signal.aborted) return;
    document.title = values.q ? `${values.q} - ScholarBase` : "ScholarBase"; // takes the browser milliseconds
    try { // after the results, so that counting does not delay them
      const counts = await get("v1/facets", { ...only(values, OF_FACETS.filter((name) => values.q
        || !["mode", "engine", "syntax", "negation"].includes(name))), limit: 12 }, { signal });
      keepFocus(() => drawFacets(counts));
    } catch (error) {
      if (!signal.aborted) replace(facets, h("p", { class: "dim" }, `No counts: ${error.message}`));
    }
  }

  update(params);
  return { update };
}

// The search view: one box, filters with counts, results with their legs.

import { get, postForText, text } from "./api.js";
import { add, choice, explain, explaining, field, go, h, link, notice, number, pause, pinned, plural, replace, say } from "./dom.js";
import { FIELDS, histogram, result, termsOf } from "./papers.js";

export const MODES = [["", "best mode"], ["hybrid", "words and meaning"], ["sparse", "words"], ["dense", "meaning"]];
export const ENGINES = [["", "default engine"], "bm25", "feedback", "fts5", "learned"];
const SYNTAXES = [["", "auto"], ["plain", "plain words"], ["query", "query syntax"]];
export const SORTS = [["", "best first"], ["-date", "newest first"], ["date", "oldest first"],
  ["-citation_count", "most cited first"]];
const SORTED = 100; // results that are sorted by something else than their score
const LISTS = ["category", "venue", "type", "author", "exclude"];
const LIMITS = ["syntax", "negation", "from", "to", "min_citations", "status", "as_of"]; // of one value each
const SINGLE = ["q", "mode", "engine", ...LIMITS, "sort", "offset"];
export const FILTERS = [...LIMITS, ...LISTS];
const OF_QUERIES = ["mode", "engine", "syntax", "negation"]; // without effect where there is no question
const OF_PAPERS = FILTERS.filter((name) => !OF_QUERIES.includes(name));
const OTHERS = ["author", "min_citations", "status", "type", "exclude", "as_of"]; // filters that are folded
const OF_FACETS = ["q", "mode", "engine", ...FILTERS];
export const PARAMETERS = [...SINGLE, ...LISTS];
const PAGE = 10;
const ALL = "*"; // the question that every paper matches, in the order of dates or citations
const VALUES = 8; // categories and venues that are counted
const LONGEST_EXAMPLE = 70; // characters of a title

// The parameters of a view's address as those of the API.
export function parametersOf(params) {
  const values = {};
  for (const name of SINGLE) if (params.get(name)) values[name] = params.get(name);
  for (const name of LISTS) if (params.getAll(name).length) values[name] = params.getAll(name);
  if (!SORTS.some(([sort]) => sort === values.sort)) delete values.sort;
  if (values.q === ALL) delete values.q;
  return values;
}

// The same for the API. Without a question it lists all papers; with one it has no other order than the best first, so the
// first results are sorted here.
function sentOf({ sort, offset, ...values }) {
  const page = offset ? { offset, limit: PAGE } : { limit: PAGE };
  if (!values.q) return { q: ALL, ...sort === "-citation_count" && { prefer: "cited" }, ...only(values, OF_PAPERS), ...page };
  return sort ? { ...values, limit: SORTED } : { ...values, ...page };
}

// The API checks the offset of a search, but pages in another order are cut here.
function problemOf({ q, sort, offset = "0" }) {
  return q && sort && !/^\d+$/.test(offset)
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

  const box = h("input", { name: "q", type: "search", autocomplete: "off", maxlength: 10000, autofocus: true,
    "aria-label": "Search for", placeholder: "A question, words, a title or an id" });
  const details = h("input", { type: "checkbox", name: "explain", role: "switch" });
  const [mode, engine, syntax] = [choice("Find by", "mode", MODES), choice("Engine", "engine", ENGINES),
    choice("Read as", "syntax", SYNTAXES)];
  const sort = choice("Order", "sort", SORTS);
  const form = h("form", { class: "search", role: "search", onsubmit: submit },
    h("div", { class: "box" }, box, h("button", { class: "primary" }, "Search")),
    h("div", { class: "options", onchange: submit }, sort, mode, engine, syntax,
      h("label", { class: "switch" }, details, "How results were found")));
  const years = h("div", { class: "facets" }), facets = h("div", { class: "facets" });
  const others = h("details", null, h("summary", null, "More filters"), h("div", null,
    field("Author", "author", "", { placeholder: "a name or an id" }),
    h("div", { class: "row" }, field("Cited at least", "min_citations", "", { inputmode: "numeric", size: 8 }),
      choice("Status", "status", [["", "any"], "active", "withdrawn", "retracted"])),
    field("Type", "type", "", { placeholder: "Review or -Review" }),
    field("Not about", "exclude", "", { placeholder: "a phrase" }),
    field("As of", "as_of", "", { placeholder: "2003-06", size: 8 }), h("button", null, "Apply")));
  const filters = h("form", { class: "filters", "aria-label": "Filters", onsubmit: submit, onchange: submit }, years,
    h("div", { class: "row" }, field("From", "from", "", { placeholder: "1993", size: 8 }),
      field("To", "to", "", { placeholder: "2003-06", size: 8 })), facets, others);
  const wide = matchMedia("(min-width: 800px)");
  const aside = h("details", { class: "aside", open: wide.matches }, h("summary", null, "Filters"), filters);
  wide.onchange = () => { aside.open = wide.matches; };
  const summary = h("div", { class: "summary" });
  const list = h("div", { class: "results" });
  replace(main, h("h1", { class: "hidden" }, "Search"), form, h("div", { class: "columns" }, aside,
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
        if (name === "explain") continue;
        if (LISTS.includes(name)) {
          if (value.trim()) (found[name] ??= []).push(value.trim());
        } else found[name] = String(value).trim();
      }
    }
    for (const name of ["type", "author", "exclude"]) { // of an address, which may have more than the field shows
      if (values[name]?.length > 1 && found[name]) found[name].push(...values[name].slice(1));
    }
    explain(details.checked);
    go(link("search", found));
  }

  // Sets the fields to the address's values, without drawing them anew. The options of a search are one line: what only
  // explains it is there where it is wanted or used.
  function setFields() {
    for (const one of main.querySelectorAll("form input:not([type=checkbox]), form select")) {
      const [value] = [values[one.name] ?? ""].flat();
      if (one.value !== value) one.value = value;
    }
    for (const one of facets.querySelectorAll("input")) one.checked = (values[one.name] ?? []).includes(one.value);
    details.checked = explaining;
    if (OTHERS.some((name) => name in values)) others.open = true;
    form.lastElementChild.hidden = !values.q;
    for (const one of [mode, engine, syntax]) one.hidden = !values.q || !(explaining || values[one.querySelector("select").name]);
  }

  // What limits the search, each with a link to the search without it.
  function chosen() {
    const chips = OF_PAPERS.flatMap((name) => [values[name] ?? []].flat().map((value) => {
      const rest = Array.isArray(values[name]) ? values[name].filter((one) => one !== value) : "";
      const words = { category: "", venue: "", status: "", type: "", from: "from ", to: "to ", min_citations: "cited at least ",
        as_of: "as of ", author: "by ", exclude: "not about " }[name] + value;
      return [h("a", { class: "chip", "aria-label": `Remove ${words}`, href: link("search", { ...values, offset: "", [name]: rest }) },
        `${words} \u00d7`), " "];
    }));
    return chips.length > 0 && h("p", { class: "chosen" }, chips);
  }

  function drawFacets(found) {
    const scope = { results: `Counted: the first ${plural(found.total, "result")}.`, matches: "Counted: all matches." };
    replace(years, found.total > 0 && [h("h2", null, "Years"),
      histogram(found.year.values, (year) => go(link("search", { ...values, offset: "", from: year, to: year })))]);
    replace(facets, found.total > 0 && [group("Categories", "category", found.category), group("Venues", "venue", found.venue),
      found.counted in scope && h("p", { class: "dim" }, scope[found.counted])]);
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

  const isStart = () => !values.q && !values.offset && !FILTERS.some((name) => name in values);

  // Where to begin without a question: titles of this library, and its greatest categories or venues.
  async function drawExamples({ category, venue }, signal) {
    const place = summary.querySelector(".examples");
    if (!place) return;
    const { results } = await get("v1/search", { q: ALL, prefer: "cited", limit: 20, fields: "title,as_written" }, { signal });
    const titles = results.map((hit) => hit.paper).filter(({ title, as_written: written }) => !written && title && title.length <= LONGEST_EXAMPLE);
    const [name, groups] = category.values.length ? ["category", category.values] : ["venue", venue.values];
    replace(place,
      titles.length > 0 && h("p", null, h("span", { class: "dim" }, "For example "), titles.slice(0, 2).map(({ title: q }) =>
        [h("a", { href: link("search", { q }) }, q), " "])),
      groups.length > 0 && h("p", null, h("span", { class: "dim" }, "Browse "), groups.slice(0, 6).map(({ value }) =>
        [h("a", { class: "chip", href: link("search", { [name]: value }) }, value), " "])));
  }

  // The two orders of all papers.
  function orders() {
    return h("nav", { class: "orders", "aria-label": "Order" }, [["", "Newest"], ["-citation_count", "Most cited"]].map(([sort, words]) =>
      h("a", { href: link("search", { ...values, sort, offset: "" }),
        "aria-current": (values.sort === "-citation_count") === Boolean(sort) ? "true" : null }, words)));
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
    const isSorted = values.q && values.sort;
    const all = isSorted ? sorted(response.results, values.sort) : response.results;
    const results = isSorted ? all.slice(offset, offset + PAGE) : all;
    const next = !isSorted ? response.next_offset : offset + PAGE < all.length ? offset + PAGE : null;
    const terms = values.q ? termsOf(response.understood?.wanted ?? values.q) : [];
    const best = Math.max(0, ...results.flatMap((hit) => hit.explain ?? []).map((leg) => leg.share));
    const least = response.total_relation === "gte" ? "at least " : "";
    const how = [response.mode, response.engine, response.rerank].filter(Boolean).join(", ");
    const counted = `${least}${plural(response.total, "paper")}`;
    replace(list, results.length
      ? h("ol", { start: offset + 1 }, results.map((hit) => result(hit, best, terms)))
      : offset && response.total ? pastTheEnd(offset, isSorted && all.length) : nothing(),
    results.length > 0 && paging(offset, next),
    explaining && best > 0 && values.q && h("p", { class: "dim" }, "Bars: what the words and the meaning of a paper add to its score, beside the best of ",
      "this page. Rank and score are those of the leg alone."));
    list.removeAttribute("aria-busy");
    const holder = h("div", { class: "row tools" });
    replace(summary, isStart() && h("div", { class: "examples" }), chosen(), h("div", { class: "head" },
      h("p", null, counted, explaining && values.q && h("span", { class: "dim" }, ` (${how})`),
        isSorted && all.length < response.total && h("span", { class: "dim" }, `, of which the first ${all.length} are sorted`)),
      !values.q && orders(), holder),
    response.understood && exclusions(response.understood), (response.warnings ?? []).map((one) => notice(one)));
    say(`${counted} found.`);
    await pause();
    addTools(holder, response, results);
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

  function addTools(holder, response, results) {
    add(holder, values.q && explaining && h("a", { href: sideBySide(response) }, "Side by side"),
      values.q && h("a", { href: link("completeness", { q: values.q }) }, "How complete?"),
      h("button", { type: "button", class: "plain", onclick: copyLink }, "Copy link"));
    import("./copyas.js").then(({ command, copyAs, curl, mcp, python }) => {
      const sent = () => sentOf(values);
      const typed = () => Object.fromEntries(Object.entries(sent()).map(([name, value]) =>
        [name, ["min_citations", "offset"].includes(name) ? Number(value) : value]));
      const isSorted = values.q && values.sort;
      const texts = { curl: () => curl("v1/search", sent()), Python: () => python(sent().q, typed()),
        // Neither of these can name a snapshot.
        ...pinned ? {} : { "Command line": () => command(sent().q, sent()),
          // The first results of a sorted page are more than a tool's default size.
          "MCP call": () => mcp(isSorted ? { ...typed(), max_tokens: 50000 } : typed()) } };
      const exported = (format) => (isSorted
        ? postForText("v1/papers/batch", { ids: results.map((hit) => hit.paper.id), as_of: values.as_of, format })
        : text("v1/search", { ...sent(), format }));
      const note = isSorted && `${Object.keys(texts).join(", ")}: the first ${SORTED} results, best first, since the API has no `
        + "other order. BibTeX, RIS, CSL-JSON and CSV: the papers of this page in its order.";
      holder.append(copyAs(texts, exported, note));
    });
  }

  async function update(found) {
    params = found;
    values = parametersOf(found);
    running.abort();
    running = new AbortController();
    const { signal } = running;
    // Sent first, and the rest is drawn while the server works.
    const sent = problemOf(values) ?? get("v1/search", { ...sentOf(values), explain: explaining && Boolean(values.q),
      fields: values.q && values.sort ? `${FIELDS},publication_date` : FIELDS }, { signal });
    list.setAttribute("aria-busy", "true");
    setFields();
    await drawResults(sent, signal);
    if (signal.aborted) return;
    document.title = values.q ? `${values.q} - ScholarBase` : "ScholarBase"; // takes the browser milliseconds
    try { // after the results, so that counting does not delay them
      const counts = await get("v1/facets", { ...only(values, values.q ? OF_FACETS : OF_PAPERS), limit: VALUES }, { signal });
      keepFocus(() => drawFacets(counts));
      await drawExamples(counts, signal);
    } catch (error) {
      if (!signal.aborted) replace(facets, h("p", { class: "dim" }, `No counts: ${error.message}`));
    }
  }

  update(params);
  return { update };
}

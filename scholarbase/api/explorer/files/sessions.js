// Sessions: what agents asked, as a list and as the timeline of one.

import { get, post, sessionPath, snapshots, text } from "./api.js";
import { estimate, offMessage } from "./completeness.js";
import { add, download, h, link, notice, number, plural, replace, say, svg } from "./dom.js";
import { bar, line } from "./papers.js";
import { FILTERS } from "./search.js";

const PAGE = 25;
const STEP = 50; // papers of a call that are shown
const FIELDS = ["id", "title", "authors", "year", "venue", "status", "notices", "categories", "citation_count"];
const FINDING = ["search", "match", "expand"]; // kinds of calls whose papers are candidates
// Arguments of a search that the search view has too.
const SEARCHED = ["q", "mode", "engine", ...FILTERS];
const time = (value) => (value ? value.replace("T", " ").replace(/\.\d+/, "") : "");

export function open(main, params) {
  async function update(found) {
    const offset = Number(found.get("offset") ?? 0);
    replace(main, h("h1", null, "Sessions"));
    let page;
    try {
      page = await get("v1/sessions", { limit: PAGE, offset });
    } catch (error) {
      add(main, notice(error.message, "error"));
      return;
    }
    add(main, h("p", null, `${plural(page.total, "session")}, the last used first.`));
    if (page.results.length) {
      add(main, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sessions" }, h("table", null,
        h("thead", null, h("tr", null, ["Session", "Question", "Calls", "Used", "Limits"].map((name) =>
          h("th", { scope: "col" }, name)))),
        h("tbody", null, page.results.map((one) => h("tr", null,
          h("td", null, h("a", { href: link("session", { name: one.session }) }, one.session)),
          h("td", null, one.query ?? ""), h("td", null, number(one.calls)), h("td", null, time(one.used)),
          h("td", null, limits(one.limits))))))));
    }
    add(main, h("nav", { class: "row", "aria-label": "Pages" },
      offset > 0 ? h("a", { href: link("sessions", { offset: Math.max(0, offset - PAGE) || "" }) }, "Previous") : "",
      page.next_offset !== null ? h("a", { href: link("sessions", { offset: page.next_offset }) }, "Next") : ""));
    say(plural(page.total, "session"));
  }
  update(params);
  return { update };
}

const limits = (found) => Object.entries(found).map(([name, most]) => `${name} ${number(most)}`).join(", ") || "none";

export function openOne(main, params) {
  let shown = null; // the session that is drawn, and its parts that change

  async function update(found) {
    const name = found.get("name");
    if (!name) {
      shown = null;
      replace(main, h("h1", null, "A session"), notice("No name is in the address.", "error"));
      return;
    }
    if (shown?.name !== name) await draw(name);
    if (shown) drawStep(shown, Number(found.get("call")) || null);
  }

  async function draw(name) {
    shown = null;
    replace(main, h("h1", null, `Session ${name}`));
    let lines, report, held;
    try {
      [lines, report, held] = await Promise.all([text(sessionPath(name)), get(`${sessionPath(name)}/report`),
        snapshots().catch(() => [])]);
    } catch (error) {
      add(main, notice(error.message, "error"));
      return;
    }
    document.title = `${name} - ScholarBase`;
    const calls = lines.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const parts = { name, calls, report, held, relevant: new Set(), step: h("section", { "aria-label": "Call" }),
      timeline: h("div") };
    replace(parts.timeline, table(parts));
    const save = (file, type, content, words) => h("button", { type: "button", onclick: () => download(file, type, content) },
      words);
    add(main, h("p", null, h("a", { href: link("sessions") }, "All sessions")),
      report.query ? h("p", { class: "text" }, report.query) : "", facts(report), budgets(report),
      h("h2", null, "Timeline"), parts.step, parts.timeline, again(parts), judge(parts),
      h("p", { class: "row" }, save(`${name}.jsonl`, "application/jsonl", lines, "Save the trajectory"),
        save(`${name}-report.json`, "application/json", JSON.stringify(report, null, 2), "Save the report")));
    say(plural(calls.length, "call"));
    shown = parts;
  }

  update(params);
  return { update };
}

// The snapshot of a call, to ask for what it returned; undefined where the server answers from another one.
const snapshotOf = (held, call) => held.slice(1).find((one) => one.snapshot === call.snapshot)?.snapshot;

// One call, with the titles of its papers: which are new, and which an earlier call had returned.
async function drawStep(parts, number) {
  const { name, calls, held, relevant, report, step } = parts;
  parts.number = number;
  if (!calls.length) return;
  const to = (place, words) => (calls[place] ? h("a", { href: link("session", { name, call: place + 1 }) }, words)
    : h("span", { class: "dim" }, words));
  if (!calls[number - 1]) {
    replace(step, h("p", null, to(0, "Step through the calls")));
    return;
  }
  const call = calls[number - 1];
  const ids = (call.ids ?? []).slice(0, STEP);
  const snapshot = snapshotOf(held, call);
  let papers = [];
  if (ids.length) {
    try {
      papers = (await post("v1/papers/batch", { ids, as_of: report.as_of ?? undefined, fields: FIELDS }, { snapshot })).results;
    } catch (error) {
      papers = [];
      say(error.message);
    }
  }
  if (parts.number !== number) return;
  const first = new Map();
  calls.slice(0, number - 1).forEach((one, place) => (one.ids ?? []).forEach((id) => {
    if (!first.has(id)) first.set(id, place + 1);
  }));
  const before = first.size;
  const fresh = (call.ids ?? []).filter((id) => !first.has(id)).length;
  replace(step, h("p", { class: "row" }, to(number - 2, "Previous call"), to(number, "Next call")),
    h("h3", null, `Call ${number} of ${calls.length}: ${call.tool}`), h("p", null, asked(call, snapshot)),
    call.error ? notice(errorText(call.error), "error") : h("p", null, `${plural(call.ids.length, "paper")}, ${
      fresh} of them new, ${before + fresh} different ones so far.`),
    ids.length ? h("ol", null, ids.map((id, place) => h("li", { class: "result" },
      h("a", { href: link("paper", { id, snapshot }) }, papers[place]?.title ?? id), " ",
      first.has(id) ? h("span", { class: "tag" }, `seen in call ${first.get(id)}`) : h("span", { class: "tag up" }, "new"),
      relevant.has(id) && [" ", h("span", { class: "tag up" }, "relevant")],
      h("p", { class: "meta" }, papers[place] ? line(papers[place]) : "not in the library that is served")))) : "",
    call.ids?.length > STEP ? h("p", { class: "dim" }, `and ${call.ids.length - STEP} more`) : "");
  say(`Call ${number} of ${calls.length}: ${call.tool}, ${plural(call.ids?.length ?? 0, "paper")}`);
}

// Runs the calls again, on the snapshot of the session where the server holds it, and shows what differs.
function again({ name, calls, held }) {
  const result = h("div", { role: "status" });
  const button = h("button", { type: "button", onclick: async () => {
    replace(result, "Running.");
    button.disabled = true;
    const last = calls.at(-1);
    try {
      const found = await post(`${sessionPath(name)}/replay`, undefined, { snapshot: last && snapshotOf(held, last) });
      const elsewhere = found.recorded_on.filter((one) => one !== found.snapshot);
      replace(result, h("p", null, `${plural(found.replayed, "call")} of ${found.calls} ran again: `,
        found.differences.length ? `${plural(found.differences.length, "difference")}.` : "the same papers and scores."),
      elsewhere.length ? notice(`Recorded on snapshot ${elsewhere.map((one) => one.slice(0, 8)).join(", ")}, and run again on ${
        found.snapshot.slice(0, 8)}.`) : "",
      found.differences.length ? h("ul", null, found.differences.map((one) => h("li", null, one.message))) : "");
    } catch (error) {
      replace(result, notice(error.message, "error"));
    }
    button.disabled = false;
  } }, "Run the calls again");
  return [h("h2", null, "Replay"), h("p", null, button), result];
}

function facts(report) {
  const rows = [["Calls", report.calls], ["Rounds", report.rounds], ["Failed", report.failed_calls],
    ["Candidates", report.candidates], ["Tokens", report.tokens], ["Seconds", report.seconds?.toFixed(2)],
    ["As of", report.as_of], ["Opened", time(report.opened)]];
  return h("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null,
      typeof value === "number" ? number(value) : value))));
}

function budgets(report) {
  const counted = report.search_calls + report.match_calls + report.expand_calls + report.inspect_calls; // no answers
  const used = { calls: counted, expansions: report.expand_calls, candidates: report.candidates, tokens: report.tokens };
  const rows = Object.entries(report.limits ?? {}).map(([name, most]) => {
    const spent = used[name] ?? null;
    return h("tr", null, h("th", { scope: "row" }, name), h("td", null, `${number(spent)} of ${number(most)}`),
      h("td", null, h("meter", { min: 0, max: most, value: spent ?? 0, "aria-label": `${name} used` })));
  });
  return rows.length ? h("table", null, h("caption", null, "Budgets"), h("tbody", null, rows)) : null;
}

// One row for each call, with the candidates and tokens up to it.
function table({ name, calls, held, relevant, report }) {
  const seen = new Set(), candidates = new Set();
  let tokens = 0;
  const most = Math.max(1, ...calls.map((one) => one.ids?.length ?? 0));
  const after = report.recall_after;
  const columns = ["Call", "Round", "Tool", "Arguments", "Papers", "New", "Candidates", "Tokens", "Seconds",
    ...(after ? ["Recall"] : [])];
  const rows = calls.map((one, place) => {
    const ids = one.ids ?? [];
    const before = seen.size;
    ids.forEach((id) => seen.add(id));
    if (FINDING.includes(one.kind)) ids.forEach((id) => candidates.add(id)); // not those that are only looked up
    tokens += one.tokens ?? 0;
    const fresh = seen.size - before;
    return h("tr", { class: one.error ? "failed" : null },
      h("td", null, h("a", { href: link("session", { name, call: place + 1 }) }, String(one.call)), one.parent ? h("span", { class: "dim" }, ` after ${one.parent}`) : ""),
      h("td", null, one.round ?? ""), h("td", null, one.tool),
      h("td", { class: "arguments" }, asked(one, snapshotOf(held, one)), listed(one, snapshotOf(held, one), relevant), one.error ? notice(errorText(one.error), "error") : ""),
      h("td", null, String(ids.length), bars(ids.length, fresh, most)), h("td", null, String(fresh)),
      h("td", null, number(candidates.size)), h("td", null, number(tokens)),
      h("td", null, one.seconds === undefined || one.seconds === null ? "" : one.seconds.toFixed(3)),
      after && h("td", null, after[place] === undefined ? "" : [after[place].toFixed(2), bar(after[place])]));
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Calls" }, h("table", { class: "timeline" },
    h("thead", null, h("tr", null, columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows)));
}

const errorText = (error) => (typeof error === "string" ? error : error.detail ?? JSON.stringify(error));

function bars(count, fresh, most) {
  const width = (value) => (value / most) * 100;
  return svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "back", width: width(count), height: 8 }),
    svg("rect", { class: "value", width: width(fresh), height: 8 }));
}

// The arguments of a call. A search can be opened, a paper too.
function asked(call, snapshot) {
  const found = call.arguments ?? {};
  const main = found.q ?? found.paper_id ?? "";
  const rest = Object.entries(found).filter(([name]) => !["q", "paper_id"].includes(name))
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  const of = (names) => Object.fromEntries(Object.entries(found).filter(([name]) => names.includes(name)));
  const href = found.q ? link("search", { ...of(SEARCHED), snapshot })
    : found.paper_id ? link("paper", { id: found.paper_id, snapshot }) : null;
  return [href ? h("a", { href }, String(main)) : "", rest ? h("span", { class: "dim" }, ` ${rest}`) : ""];
}

function listed(call, snapshot, relevant) {
  const ids = (call.ids ?? []).slice(0, STEP);
  if (!ids.length) return null;
  return h("details", null, h("summary", null, "papers"), h("ol", null, ids.map((id) => h("li", null,
    h("a", { href: link("paper", { id, snapshot }) }, id),
    relevant.has(id) && [" ", h("span", { class: "tag up" }, "relevant")]))),
  call.ids.length > ids.length ? h("p", { class: "dim" }, `and ${number(call.ids.length - ids.length)} more`) : "");
}

function judge(parts) {
  const { name, calls, report: { query }, timeline } = parts;
  const area = h("textarea", { rows: 4, spellcheck: "false", id: "answers" });
  const result = h("p", { role: "status" }), unseen = h("div");
  async function complete() {
    const relevant = area.value.split(/[\s,]+/).filter(Boolean);
    try {
      const snapshot = calls[0] && snapshotOf(parts.held, calls[0]);
      const found = await post(`${sessionPath(name)}/completeness`, { relevant }, { snapshot });
      replace(unseen, estimate(found, query ?? ""));
    } catch (error) {
      replace(unseen, notice(offMessage(error), "error"));
    }
  }
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    const answers = area.value.split(/[\s,]+/).filter(Boolean);
    try {
      const report = await post(`${sessionPath(name)}/report`, { answers });
      const known = await post("v1/papers/batch", { ids: answers, fields: ["id"] }, { snapshot: calls[0]
        && snapshotOf(parts.held, calls[0]) });
      const absent = report.answers_absent.length;
      parts.report = report;
      parts.relevant = new Set(known.results.filter(Boolean).map((one) => one.id));
      replace(result, `Recall ${report.recall === null ? "unknown" : report.recall.toFixed(3)} of ${
        plural(report.answers, "answer")}${absent ? `, of which the library lacks ${number(absent)}` : ""}.`);
      replace(timeline, table(parts));
      drawStep(parts, parts.number);
    } catch (error) {
      replace(result, notice(error.message, "error"));
    }
  } }, h("label", { for: "answers" }, "Ids of the relevant papers, one a line"), area,
  h("p", { class: "row" }, h("button", null, "Show the recall"), h("button", { type: "button", onclick: complete }, "How complete is it?")), result, unseen);
  return h("details", null, h("summary", null, "Recall and completeness of an answer set"), form);
}

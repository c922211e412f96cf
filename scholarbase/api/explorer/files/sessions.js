// Sessions: what agents asked, as a list and as the timeline of one.

import { get, post, sessionPath, text } from "./api.js";
import { add, download, h, link, notice, number, plural, replace, say, svg } from "./dom.js";

const PAGE = 25;
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
  async function update(found) {
    const name = found.get("name") ?? "";
    replace(main, h("h1", null, `Session ${name}`));
    let lines, report;
    try {
      [lines, report] = await Promise.all([text(sessionPath(name)), get(`${sessionPath(name)}/report`)]);
    } catch (error) {
      add(main, notice(error.message, "error"));
      return;
    }
    document.title = `${name} - ScholarBase`;
    const calls = lines.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const timeline = h("div");
    replace(timeline, table(calls, report));
    add(main, h("p", null, h("a", { href: "#/sessions" }, "All sessions")),
      report.query ? h("p", { class: "text" }, report.query) : "", facts(report), budgets(report),
      h("h2", null, "Timeline"), timeline,
      h("p", { class: "row" }, h("button", { type: "button",
        onclick: () => download(`${name}.jsonl`, "application/jsonl", lines) }, "Save the trajectory"),
      h("button", { type: "button",
        onclick: () => download(`${name}-report.json`, "application/json", JSON.stringify(report, null, 2)) },
      "Save the report")),
      judge(name, calls, timeline));
    say(plural(calls.length, "call"));
  }
  update(params);
  return { update };
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
  const used = { calls: report.calls, expansions: report.expand_calls, candidates: report.candidates, tokens: report.tokens };
  const rows = Object.entries(report.limits ?? {}).map(([name, most]) => {
    const spent = used[name] ?? null;
    return h("tr", null, h("th", { scope: "row" }, name), h("td", null, `${number(spent)} of ${number(most)}`),
      h("td", null, h("meter", { min: 0, max: most, value: spent ?? 0, "aria-label": `${name} used` })));
  });
  return rows.length ? h("table", null, h("caption", null, "Budgets"), h("tbody", null, rows)) : null;
}

// One row for each call, with the candidates and tokens up to it.
function table(calls, report) {
  const seen = new Set();
  let tokens = 0;
  const most = Math.max(1, ...calls.map((one) => one.ids?.length ?? 0));
  const after = report.recall_after;
  const columns = ["Call", "Round", "Tool", "Arguments", "Papers", "New", "Candidates", "Tokens", "Seconds",
    ...(after ? ["Recall"] : [])];
  const rows = calls.map((one, place) => {
    const ids = one.ids ?? [];
    const before = seen.size;
    ids.forEach((id) => seen.add(id));
    tokens += one.tokens ?? 0;
    const fresh = seen.size - before;
    return h("tr", { class: one.error ? "failed" : null },
      h("td", null, String(one.call), one.parent ? h("span", { class: "dim" }, ` after ${one.parent}`) : ""),
      h("td", null, one.round ?? ""), h("td", null, one.tool),
      h("td", { class: "arguments" }, arguments_(one), one.error ? notice(errorText(one.error), "error") : ""),
      h("td", null, String(ids.length), bars(ids.length, fresh, most)), h("td", null, String(fresh)),
      h("td", null, number(seen.size)), h("td", null, number(tokens)),
      h("td", null, one.seconds === undefined || one.seconds === null ? "" : one.seconds.toFixed(3)),
      after && h("td", null, after[place] === undefined ? "" : after[place].toFixed(2)));
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
function arguments_(call) {
  const found = call.arguments ?? {};
  const main = found.q ?? found.paper_id ?? "";
  const rest = Object.entries(found).filter(([name]) => !["q", "paper_id"].includes(name))
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  const href = found.q ? link("search", { q: found.q }) : found.paper_id ? link("paper", { id: found.paper_id }) : null;
  const ids = (call.ids ?? []).slice(0, 20);
  return [href ? h("a", { href }, String(main)) : "", rest ? h("span", { class: "dim" }, ` ${rest}`) : "",
    ids.length ? h("details", null, h("summary", null, "papers"), h("ol", null, ids.map((id) => h("li", null,
      h("a", { href: link("paper", { id }) }, id)))), call.ids.length > ids.length
      ? h("p", { class: "dim" }, `and ${number(call.ids.length - ids.length)} more`) : "") : ""];
}

function judge(name, calls, timeline) {
  const area = h("textarea", { rows: 4, spellcheck: "false", id: "answers" });
  const result = h("p", { role: "status" });
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    const answers = area.value.split(/[\s,]+/).filter(Boolean);
    try {
      const report = await post(`${sessionPath(name)}/report`, { answers });
      const absent = report.answers_absent.length;
      replace(result, `Recall ${report.recall === null ? "unknown" : report.recall.toFixed(3)} of ${
        plural(report.answers, "answer")}${absent ? `, of which the library lacks ${number(absent)}` : ""}.`);
      replace(timeline, table(calls, report));
    } catch (error) {
      replace(result, notice(error.message, "error"));
    }
  } }, h("label", { for: "answers" }, "Ids of the relevant papers, one a line"), area,
  h("p", null, h("button", null, "Show the recall")), result);
  return h("details", null, h("summary", null, "Recall of an answer set"), form);
}

// A search as text for other programs: curl, Python, the command line, an MCP client.

import { hasKey } from "./api.js";
import { copy, download, h, pinned } from "./dom.js";

const FILES = { bibtex: ["papers.bib", "application/x-bibtex"], ris: ["papers.ris", "application/x-research-info-systems"],
  csl: ["papers.json", "application/json"], csv: ["papers.csv", "text/csv"] };
const LISTS = new Set(["category", "venue", "type", "author", "exclude", "exclude_ids", "within"]);
const OPTIONS = { exclude_ids: "exclude-id" };

export const base = () => new URL(".", location.href).href.replace(/[?#].*$/, "").replace(/\/$/, "");
const quoted = (value) => `'${String(value).replaceAll("'", "'\\''")}'`;

function pairs(values) {
  return Object.entries(values).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((one) => one !== null && one !== undefined && one !== "" && one !== false)
      .map((one) => [name, one]));
}

export function curl(path, values) {
  const key = hasKey() ? ' \\\n  -H "Authorization: Bearer $SCHOLARBASE_API_KEY"' : "";
  const snapshot = pinned ? ` \\\n  -H ${quoted(`X-ScholarBase-Snapshot: ${pinned}`)}` : "";
  const data = pairs(values).map(([name, value]) => ` \\\n  --data-urlencode ${quoted(`${name}=${value}`)}`).join("");
  return `curl -sG ${quoted(`${base()}/${path}`)}${key}${snapshot}${data}`;
}

function literal(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value);
}

export function python(q, values) {
  const { q: _, ...rest } = values;
  const named = Object.entries(rest)
    .filter(([, value]) => pairs({ value }).length)
    .map(([name, value]) => `, ${name === "from" ? "from_" : name}=${literal(value)}`).join("");
  const headers = pinned ? `, headers={"X-ScholarBase-Snapshot": ${JSON.stringify(pinned)}}` : "";
  const client = JSON.stringify(base()) + headers;
  return `from scholarbase import Client\n\nwith Client(${client}) as client:\n`
    + `    for hit in client.search(${JSON.stringify(q)}${named}).results:\n`
    + "        print(hit.score, hit.paper.id, hit.paper.title)\n";
}

export function command(q, values) {
  const { q: _, ...rest } = values;
  const options = pairs(rest).map(([name, value]) => {
    const option = `--${(OPTIONS[name] ?? name).replaceAll("_", "-")}`;
    return value === true ? ` ${option}` : ` ${option} ${quoted(value)}`;
  }).join("");
  return `scholarbase search --url ${quoted(base())}${options} -- ${quoted(q)}`;
}

// The tool reads q as plain words if it is not told otherwise.
export function mcp(values) {
  const listed = Object.entries({ ...values, syntax: values.syntax ?? "auto" }).filter(([, value]) => pairs({ value }).length)
    .map(([name, value]) => [name, LISTS.has(name) && !Array.isArray(value) ? [value] : value]);
  const params = { name: "search_papers", arguments: Object.fromEntries(listed) };
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, null, 2);
}

// Buttons, and the text of the last one that was used. `exported` requests the papers in a format; `note` is shown beside the buttons.
export function copyAs(buttons, exported, note) {
  const area = h("textarea", { readonly: true, rows: 8, spellcheck: "false", "aria-label": "Text to copy" });
  const save = h("button", { type: "button", class: "hidden" }, "Save as a file");
  const panel = h("div", { class: "panel hidden" }, area, h("p", null,
    h("button", { type: "button", onclick: () => copy(area) }, "Copy"), " ", save));
  let file = null;
  save.addEventListener("click", () => download(file[0], file[1], area.value));
  const show = (content, as = null) => {
    area.value = content;
    file = as;
    save.classList.toggle("hidden", as === null);
    panel.classList.remove("hidden");
    return copy(area);
  };
  const all = Object.entries(buttons).map(([name, make]) =>
    h("button", { type: "button", onclick: () => show(make()) }, name));
  const exports = Object.keys(FILES).map((format) => h("button", { type: "button", onclick: async () => {
    try {
      show(await exported(format), FILES[format]);
    } catch (error) {
      show(error.message);
    }
  } }, { bibtex: "BibTeX", ris: "RIS", csl: "CSL-JSON", csv: "CSV" }[format]));
  return h("details", { class: "copy" }, h("summary", null, "Copy as"), h("div", { class: "row" }, all, exports),
    note && h("p", { class: "dim" }, note), panel);
}

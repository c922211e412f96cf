// The surroundings of a paper in the citation graph: bounded, from left to right by year, larger if cited more.

import { get, paperPath, post } from "./api.js";
import { h, link, notice, number, plural, replace, svg } from "./dom.js";

const EACH = 14; // papers on each side of the paper, one step away
const FAR = 20; // papers two steps away: those that most of the near ones are connected with
const REFERENCES = 200; // references of each paper that are looked at
const AT_ONCE = 4;
const WIDTH = 900, HEIGHT = 460, MARGIN = 60;
const FIELDS = ["title", "year", "publication_date", "citation_count", "authors"];

async function neighbours(paper, hops) {
  const sides = await Promise.all(["citations", "references"].map((direction) =>
    get(`${paperPath(paper.id)}/${direction}`, { limit: EACH, fields: FIELDS.join(",") })));
  const papers = new Map(sides.flatMap((side) => side.results).map((one) => [one.paper.id, { ...one.paper, hops: 1 }]));
  papers.delete(paper.id);
  let total = sides[0].total + sides[1].total;
  if (hops > 1 && papers.size) {
    const near = [...papers.keys()];
    const far = await post("v1/expand", { seeds: near, exclude_ids: [paper.id], limit: FAR, fields: FIELDS });
    for (const one of far.results) papers.set(one.paper.id, { ...one.paper, hops: 2 });
    total = near.length + far.total;
  }
  return { papers: [...papers.values()], total };
}

// The citations among some papers, from the references of each.
async function citationsAmong(papers) {
  const ids = new Set(papers.map((one) => one.id));
  const edges = [];
  const waiting = [...papers];
  const work = async () => {
    for (let one = waiting.pop(); one; one = waiting.pop()) {
      const page = await get(`${paperPath(one.id)}/references`, { limit: REFERENCES, fields: "id" });
      for (const { paper } of page.results) if (ids.has(paper.id)) edges.push([one.id, paper.id]);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return edges;
}

// The year with its month as a fraction, if the month is known.
function when(paper) {
  const month = /^\d{4}-(\d\d)/.exec(paper.publication_date ?? "")?.[1];
  return paper.year ? paper.year + (month ? (Number(month) - 0.5) / 12 : 0.5) : null;
}

// Places without chance: columns by date, and in each the most cited nearest to the middle.
function places(papers, centre) {
  const dates = papers.map(when).filter(Boolean);
  const first = Math.min(...dates), last = Math.max(...dates);
  const x = (date) => (!date || first === last ? WIDTH / 2
    : MARGIN + ((date - first) / (last - first)) * (WIDTH - 2 * MARGIN));
  const columns = new Map();
  const sorted = [...papers].sort((a, b) => (b.id === centre) - (a.id === centre)
    || (b.citation_count ?? 0) - (a.citation_count ?? 0) || (a.id < b.id ? -1 : 1));
  for (const one of sorted) {
    const column = Math.round(x(when(one)) / 80);
    columns.set(column, [...(columns.get(column) ?? []), one]);
  }
  const found = new Map();
  const largest = Math.max(...[...columns.values()].map((column) => column.length));
  const step = Math.min(105, (HEIGHT - 90) / Math.max(1, largest - 0.5));
  for (const [number, column] of columns) {
    const shift = number % 2 ? step / 2 : 0; // so that neighbouring columns do not hide each other's names
    column.forEach((one, place) => {
      const away = Math.ceil(place / 2) * (place % 2 ? -1 : 1);
      const y = one.id === centre ? HEIGHT / 2 : HEIGHT / 2 + shift + away * step;
      found.set(one.id, { x: x(when(one)), y: Math.max(20, Math.min(HEIGHT - 45, y)) });
    });
  }
  const years = papers.map((one) => one.year).filter(Boolean);
  return { found, first: Math.min(...years), last: Math.max(...years) };
}

const radius = (paper) => 5 + Math.min(13, 2 * Math.log2(1 + (paper.citation_count ?? 0)));
const short = (paper) => `${(paper.authors?.[0]?.name ?? "").split(" ").at(-1)} ${paper.year ?? ""}`.trim();

export async function drawGraph(holder, paper, hops) {
  replace(holder, h("p", null, "Loading."));
  try {
    const { papers, total } = await neighbours(paper, hops);
    if (!papers.length) {
      replace(holder, h("p", { class: "dim" }, "No citations and references in this library."));
      return;
    }
    const all = [{ ...paper, hops: 0 }, ...papers];
    const edges = await citationsAmong(all);
    replace(holder, picture(all, edges, paper.id), legend(papers, total, edges), listed(papers));
  } catch (error) {
    replace(holder, notice(error.message, "error"));
  }
}

function picture(papers, edges, centre) {
  const { found, first, last } = places(papers, centre);
  const lines = edges.map(([from, to]) => {
    const a = found.get(from), b = found.get(to);
    return svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: from === centre || to === centre ? "near" : "far" });
  });
  const nodes = papers.map((one) => {
    const { x, y } = found.get(one.id);
    const label = `${one.title ?? one.id}, ${one.year ?? "year unknown"}, cited ${number(one.citation_count)} times`;
    return svg("a", { href: link("paper", { id: one.id }), "aria-label": label }, svg("title", null, label),
      svg("circle", { cx: x, cy: y, r: radius(one), class: `node hop${one.hops}` }),
      svg("text", { x, y: y + radius(one) + 11, "text-anchor": "middle" }, short(one)));
  });
  const axis = Number.isFinite(first) ? [svg("text", { x: MARGIN, y: HEIGHT - 4 }, String(first)),
    svg("text", { x: WIDTH - MARGIN, y: HEIGHT - 4, "text-anchor": "end" }, String(last))] : [];
  return svg("svg", { class: "graph", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group",
    "aria-label": "Citation graph" }, lines, nodes, first === last ? [] : axis);
}

function legend(papers, total, edges) {
  return h("p", { class: "dim" }, `${plural(papers.length, "paper")} of ${number(total)}, ${plural(edges.length, "citation")} `
    + "among them. From left to right by year; larger circles are cited more.");
}

function listed(papers) {
  return h("details", null, h("summary", null, "The same papers as a list"), h("ul", null, papers.map((one) =>
    h("li", null, h("a", { href: link("paper", { id: one.id }) }, one.title ?? one.id), ` ${one.year ?? ""}`))));
}

// The surroundings of a paper in the citation graph: bounded, from left to right by year, larger if cited more.

import { get, paperPath, post } from "./api.js";
import { h, link, notice, number, plural, replace, svg } from "./dom.js";

const EACH = 14; // papers on each side of the paper, one step away
const FAR = 20; // papers two steps away: those that most of the near ones are connected with
const REFERENCES = 200; // references of each paper that are looked at
const AT_ONCE = 4;
const WIDTH = 900, HEIGHT = 460, MARGIN = 66, COLUMNS = 9;
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

// Places without chance: columns with equally many papers, by date, so that a busy year does not hide its papers. In each
// column the most cited are nearest to the middle.
function places(papers, centre) {
  const byDate = [...papers].sort((a, b) => (when(a) ?? Infinity) - (when(b) ?? Infinity) || (a.id < b.id ? -1 : 1));
  const count = Math.min(COLUMNS, byDate.length);
  const found = new Map(), years = [];
  for (let column = 0; column < count; column++) {
    const [from, to] = [column, column + 1].map((one) => Math.round((one * byDate.length) / count));
    const own = byDate.slice(from, to);
    const x = MARGIN + ((WIDTH - 2 * MARGIN) * (count === 1 ? 0.5 : column / (count - 1)));
    const dates = own.map((one) => one.year).filter(Boolean);
    const [first, last] = [Math.min(...dates), Math.max(...dates)];
    years.push({ x, text: !dates.length ? "unknown" : first === last ? String(first) : `${first}\u2013${last}` });
    own.sort((a, b) => (b.id === centre) - (a.id === centre) || (b.citation_count ?? 0) - (a.citation_count ?? 0));
    const step = Math.min(90, (HEIGHT - 90) / Math.max(1, own.length - 0.5));
    const shift = column % 2 ? step / 3 : 0; // so that neighbouring columns do not hide each other's names
    own.forEach((one, place) => {
      const away = Math.ceil(place / 2) * (place % 2 ? -1 : 1);
      const y = HEIGHT / 2 - 10 + (one.id === centre ? 0 : shift) + away * step;
      found.set(one.id, { x, y: Math.max(22, Math.min(HEIGHT - 50, y)) });
    });
  }
  return { found, years };
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
    replace(holder, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picture of the citation graph" },
      picture(all, edges, paper.id)), legend(papers, total, edges), listed(papers));
  } catch (error) {
    replace(holder, notice(error.message, "error"));
  }
}

function picture(papers, edges, centre) {
  const { found, years } = places(papers, centre);
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
  const heights = [...found.values()].map(({ y }) => y);
  const [top, bottom] = [Math.min(...heights) - 24, Math.max(...heights) + 60]; // no more than the circles and the years need
  const axis = years.map(({ x, text }) => svg("text", { x, y: bottom - 6, "text-anchor": "middle", class: "axis" }, text));
  return svg("svg", { class: "graph", viewBox: `0 ${top} ${WIDTH} ${bottom - top}`, role: "group",
    "aria-label": "Citation graph" }, lines, nodes, axis);
}

function legend(papers, total, edges) {
  return h("p", { class: "dim" }, `${plural(papers.length, "paper")} of ${number(total)}, ${plural(edges.length, "citation")} `
    + "among them. From left to right by date; larger circles are cited more. Red is this paper, blue is one step away, "
    + "grey two steps.");
}

function listed(papers) {
  return h("details", null, h("summary", null, "The same papers as a list"), h("ul", null, papers.map((one) =>
    h("li", null, h("a", { href: link("paper", { id: one.id }) }, one.title ?? one.id), ` ${one.year ?? ""}`))));
}

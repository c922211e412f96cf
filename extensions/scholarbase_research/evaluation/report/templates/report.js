"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const shown = (value) => (value === null ? "–" : value.toFixed(3));
  const some = (name) => data.queries.some((query) => query[name] !== undefined);

  // Columns of the list: heading, sort key, and the text of the cell.
  const columns = [{ heading: "Query", key: (q) => q.text.toLowerCase() }];
  for (const name of ["intent", "category", "date"]) {
    if (some(name)) {
      columns.push({
        heading: name[0].toUpperCase() + name.slice(1),
        key: (q) => q[name] ?? "",
        text: (q) => q[name] ?? "–",
        class: name === "date" ? "fact date" : "fact",
      });
    }
  }
  const relevant = (q) => q.answers.filter((answer) => answer[2] > 0).length;
  columns.push({ heading: "Answers", key: relevant, text: (q) => String(relevant(q)), class: "n" });
  data.runs.forEach((run, i) => {
    columns.push({
      heading: data.runs.length > 1 ? `${data.measure}, ${run}` : data.measure,
      key: (q) => q.recall[i] ?? -1,
      text: (q) => shown(q.recall[i]),
      class: "n",
    });
  });

  const kinds = [
    ["all queries", () => true],
    // These name the measure, as a query with R@25 of 0 may have an answer further down.
    [data.runs.length > 1 ? `${data.measure} is 0 in every run` : `${data.measure} is 0`, (q) => q.recall.every((value) => value === 0)],
    [data.runs.length > 1 ? `${data.measure} is below 1 in every run` : `${data.measure} is below 1`, (q) => q.recall.every((value) => value !== null && value < 1)],
    ["an answer not in the library", (q) => q.answers.some((answer) => answer[1] === "absent" && answer[2] > 0)],
  ];
  if (data.runs.length > 1) {
    kinds.push(["runs differ", (q) => new Set(q.recall).size > 1]);
    data.runs.forEach((run, i) => {
      if (i > 0) {
        kinds.push([`${run} better than ${data.runs[0]}`, (q) => q.recall[i] > q.recall[0]]);
        kinds.push([`${run} worse than ${data.runs[0]}`, (q) => q.recall[i] < q.recall[0]]);
      }
    });
  }

  const paperOf = (place) => {
    const [id, title, year] = data.papers[place];
    return [title ?? "(title not kept)", " ", make("small", {}, year === null ? id : `${id}, ${year}`)];
  };

  const detailOf = (query) => {
    const cell = make("div", { class: "inner" });
    const facts = [query.id];
    for (const name of ["date", "intent", "category"]) {
      if (query[name] !== undefined) facts.push(`${name} ${query[name]}`);
    }
    cell.append(make("p", {}, facts.join(" · ")));

    cell.append(make("h3", {}, `Answers (${query.answers.length})`));
    const head = make("tr", {}, make("th", { scope: "col" }, "Paper"));
    data.runs.forEach((run) => head.append(make("th", { scope: "col", class: "n" }, `Rank, ${run}`)));
    const body = make("tbody");
    for (const [place, found, grade, ranks] of query.answers) {
      const row = make("tr", {}, make("td", {}, ...paperOf(place)));
      const notes = [];
      if (grade < 1) notes.push("judged not relevant");
      if (grade > 1) notes.push(`grade ${grade}`);
      if (found === "title") notes.push("matched by its title");
      if (notes.length) row.firstChild.append(make("small", {}, ` (${notes.join(", ")})`));
      for (const rank of ranks) {
        const text = rank > 0 ? String(rank) : found === "absent" ? "not in the library" : "not found";
        row.append(make("td", { class: "n" }, text));
      }
      body.append(row);
    }
    cell.append(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body)));

    const answers = new Set(query.answers.filter((answer) => answer[2] > 0).map((answer) => answer[0]));
    const lists = make("div", { class: "lists" });
    query.results.forEach((results, i) => {
      const list = make("ol");
      for (const place of results) {
        list.append(make("li", answers.has(place) ? { class: "hit" } : {}, ...paperOf(place)));
      }
      const found = results.length ? list : make("p", {}, "No results.");
      lists.append(make("div", {}, make("h3", {}, `First results, ${data.runs[i]}`), found));
    });
    if (data.depth > 0) cell.append(lists);
    return make("tr", { class: "detail" }, make("td", { colspan: columns.length }, cell));
  };

  const rows = data.queries.map((query) => {
    const button = make("button", { type: "button", "aria-expanded": "false" }, query.text);
    const row = make("tr", { class: "query" }, make("td", {}, button));
    for (const column of columns.slice(1)) {
      row.append(make("td", column.class ? { class: column.class } : {}, column.text(query)));
    }
    let detail = null;
    button.addEventListener("click", () => {
      if (detail) detail.remove();
      detail = detail ? null : detailOf(query);
      if (detail) row.after(detail);
      button.setAttribute("aria-expanded", String(detail !== null));
    });
    const words = [query.id, query.text, query.intent ?? "", query.category ?? "", query.date ?? ""];
    return { query, row, detail: () => detail, words: words.join(" ").toLowerCase() };
  });

  const list = byId("list");
  let order = { column: null, falling: false };
  const draw = () => {
    const terms = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = kinds[byId("kind").selectedIndex][1];
    const kept = rows.filter((r) => kind(r.query) && terms.every((term) => r.words.includes(term)));
    if (order.column) {
      const { key } = order.column;
      const sign = order.falling ? -1 : 1;
      kept.sort((a, b) => {
        const [x, y] = [key(a.query), key(b.query)];
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    const body = document.createDocumentFragment();
    for (const r of kept) {
      body.append(r.row);
      if (r.detail()) body.append(r.detail());
    }
    list.tBodies[0].replaceChildren(body);
    byId("shown").textContent = `${kept.length} of ${rows.length}`;
  };

  const heads = columns.map((column) => {
    const button = make("button", { type: "button" }, column.heading);
    const head = make("th", { scope: "col", "aria-sort": "none" }, button);
    if (column.class) head.className = column.class;
    button.addEventListener("click", () => {
      const again = order.column === column;
      order = { column, falling: again ? !order.falling : column.class === "n" };
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order.falling ? "descending" : "ascending");
      draw();
    });
    return head;
  });
  list.tHead.rows[0].append(...heads);
  kinds.forEach(([name]) => byId("kind").append(make("option", {}, name)));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("input", draw);
  byId("kind").addEventListener("change", draw);
  byId("browser").hidden = false;
  draw();
})();

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.rows, count = rows.row.length, SLICE = 200;
  const number = (value, digits) => value === null ? "–" : digits === undefined ? String(value) : Number(value).toPrecision(digits);
  const stage = i => rows.stage[i] === null ? "" : data.stages[rows.stage[i]];
  const reason = place => place === null ? "" : data.reasons[place];
  const status = i => data.statuses[rows.status[i]];
  const point = data.randomised ? "chosen point" : "witness";
  const columns = [
    {name: "row", of: i => rows.row[i], numeric: true},
    {name: "status", of: status},
    {name: "label", of: i => rows.label[i], numeric: true},
    {name: "clean class", of: i => rows.clean_prediction[i], numeric: true},
    {name: "clean margin", of: i => rows.clean_margin[i], numeric: true, digits: 4},
    {name: `class at ${point}`, of: i => rows.prediction[i], numeric: true},
    {name: "margin there", of: i => rows.margin[i], numeric: true, digits: 4},
    {name: `distance, ${data.norm}`, of: i => rows.distance[i], numeric: true, digits: 4},
    {name: "by attack", of: stage},
    {name: "forwards", of: i => rows.forwards[i], numeric: true},
    {name: "backwards", of: i => rows.backwards[i], numeric: true},
  ];
  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const text = (column, i) => {
    const value = column.of(i);
    return column.numeric ? number(value, value === null ? undefined : column.digits) : value;
  };

  const browser = document.getElementById("browser"), grid = document.getElementById("grid");
  const body = grid.tBodies[0], said = document.getElementById("said"), more = document.getElementById("more");
  const find = document.getElementById("find"), dialog = document.getElementById("one");
  const haystack = Array.from({length: count}, (_, i) =>
    [...columns.map(column => text(column, i)), reason(rows.reason[i])].join(" \u0001").toLowerCase());
  let only = null, sortedBy = 0, ascending = true, found = [], drawn = 0, current = 0;

  const compare = (a, b) => {
    const x = columns[sortedBy].of(a), y = columns[sortedBy].of(b);
    const empty = value => value === null || value === "";
    if (empty(x) || empty(y)) return empty(x) - empty(y) || a - b;
    const order = columns[sortedBy].numeric ? x - y : x < y ? -1 : x > y ? 1 : 0;
    return (ascending ? order : -order) || a - b;
  };

  function line(place) {
    const i = found[place];
    const made = element("tr", {tabindex: place === current ? "0" : "-1", "data-place": place, "aria-rowindex": place + 2});
    columns.forEach((column, number) => {
      const cell = element("td", {role: "gridcell", ...(column.numeric && {class: "n"})});
      if (number === 1) cell.append(element("span", {class: `dot s-${status(i)}`}));
      cell.append(text(column, i));
      made.append(cell);
    });
    return made;
  }

  function draw(upTo) {
    const part = document.createDocumentFragment();
    for (; drawn < Math.min(upTo, found.length); drawn++) part.append(line(drawn));
    body.append(part);
    more.hidden = drawn >= found.length;
    more.textContent = `Show ${Math.min(SLICE, found.length - drawn)} more of ${(found.length - drawn).toLocaleString("en")} rows`;
  }

  function refresh() {
    const asked = find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    found = [];
    for (let i = 0; i < count; i++) {
      if ((only === null || rows.status[i] === only) && asked.every(word => haystack[i].includes(word))) found.push(i);
    }
    found.sort(compare);
    body.replaceChildren();
    drawn = current = 0;
    draw(SLICE);
    grid.setAttribute("aria-rowcount", found.length + 1);
    said.textContent = `${found.length.toLocaleString("en")} of ${count.toLocaleString("en")} rows`;
    grid.tHead.querySelectorAll("th").forEach((head, place) =>
      head.setAttribute("aria-sort", place === sortedBy ? (ascending ? "ascending" : "descending") : "none"));
  }

  function focus(place) {
    if (!found.length) return;
    place = Math.max(0, Math.min(found.length - 1, place));
    if (place >= drawn) draw(Math.ceil((place + 1) / SLICE) * SLICE);
    body.rows[current]?.setAttribute("tabindex", "-1");
    current = place;
    body.rows[current].setAttribute("tabindex", "0");
    body.rows[current].focus();
  }

  function heads() {
    const head = element("tr");
    columns.forEach((column, place) => {
      const button = element("button", {type: "button"}, column.name);
      button.addEventListener("click", () => {
        ascending = place === sortedBy ? !ascending : true;
        sortedBy = place;
        refresh();
      });
      head.append(element("th", {scope: "col", role: "columnheader", ...(column.numeric && {class: "n"})}, button));
    });
    grid.tHead.append(head);
  }

  function buttons() {
    const group = document.getElementById("by-status");
    const make = (name, value) => {
      const total = value === null ? count : rows.status.filter(one => one === value).length;
      if (value !== null && !total) return;
      const button = element("button", {type: "button", "aria-pressed": value === only}, `${name} ${total.toLocaleString("en")}`);
      button.addEventListener("click", () => {
        only = value;
        group.querySelectorAll("button").forEach(other => other.setAttribute("aria-pressed", other === button));
        refresh();
      });
      group.append(button);
    };
    make("all", null);
    data.statuses.forEach((name, value) => make(name, value));
  }

  const images = [];
  function sheet(place) {
    if (!images[place]) {
      images[place] = new Promise(done => {
        const image = new Image();
        image.onload = () => done(image);
        image.src = data.pictures.sheets[place];
      });
    }
    return images[place];
  }

  function shots(i) {
    const pictures = data.pictures, row = rows.row[i], at = pictures && pictures.where[row];
    if (!at) return element("p", {class: "small"}, status(i) === "broken" ? "No picture of this row is on this page." : "Not broken: there is no adversarial point to show.");
    const {width, height} = pictures, [place, down] = at;
    const names = [
      [`Clean`, `label ${rows.label[i]}, class ${number(rows.clean_prediction[i])}, margin ${number(rows.clean_margin[i], 4)}`],
      [`Perturbation × ${number(pictures.factors[row], 3)}`, `mid-grey is no change; ${data.norm} ${number(rows.distance[i], 4)}`],
      [`Adversarial`, `label ${rows.label[i]}, class ${number(rows.prediction[i])}, margin ${number(rows.margin[i], 4)}`],
    ];
    const box = element("div", {class: "shots"});
    names.forEach(([name, note], kind) => {
      const canvas = element("canvas", {width, height, role: "img", "aria-label": `${name}: ${note}`});
      sheet(place).then(image => canvas.getContext("2d").drawImage(image, kind * width, down * height, width, height, 0, 0, width, height));
      box.append(element("figure", {}, canvas, element("figcaption", {}, element("strong", {}, name), element("br"), note)));
    });
    return box;
  }

  function facts(pairs) {
    const list = element("dl", {class: "facts"});
    for (const [name, value] of pairs) list.append(element("div", {}, element("dt", {}, name), element("dd", {}, String(value))));
    return list;
  }

  function attempts(i) {
    const made = data.attempts[rows.row[i]];
    if (!made) {
      return element("p", {class: "small"}, i < data.withAttempts ? "No attack was run on this row." : "Its attempts are in attempts.parquet: the page holds those of the first rows only.");
    }
    const names = ["turn", "attack", "attempt", "outcome", "least margin", "forwards", "backwards", "reason"];
    const head = element("tr", {}, ...names.map((name, place) => element("th", {scope: "col", ...([0, 2, 4, 5, 6].includes(place) && {class: "n"})}, name)));
    const lines = made.map(one => element("tr", {}, ...[
      one[0] + 1, data.stages[one[1]], one[2] + 1, data.outcomes[one[3]], one[4] === null ? "–" : Number(one[4]).toPrecision(4), one[5], one[6], reason(one[7]),
    ].map((value, place) => element("td", [0, 2, 4, 5, 6].includes(place) ? {class: "n"} : {}, String(value)))));
    const table = element("table", {class: "plain"}, element("thead", {}, head), element("tbody", {}, ...lines));
    return element("div", {class: "box", role: "region", "aria-label": "Attempts on this row", tabindex: "0"}, table);
  }

  function show(place) {
    place = Math.max(0, Math.min(found.length - 1, place));
    const i = found[place], close = element("button", {type: "button"}, "Close");
    const step = (name, by) => {
      const button = element("button", {type: "button", ...((place + by < 0 || place + by >= found.length) && {disabled: ""})}, name);
      button.addEventListener("click", () => show(place + by));
      return button;
    };
    close.addEventListener("click", () => dialog.close());
    const lines = [["Status", status(i)], ["Label", rows.label[i]]];
    if (rows.clean_margin[i] !== null) lines.push(["Clean input", `class ${rows.clean_prediction[i]}, margin ${number(rows.clean_margin[i], 5)}`]);
    if (rows.distance[i] !== null) lines.push([point[0].toUpperCase() + point.slice(1), `class ${number(rows.prediction[i])}, margin ${number(rows.margin[i], 5)}, ${data.norm} distance ${number(rows.distance[i], 5)}${stage(i) && `, found by ${stage(i)}, attempt ${rows.attempt[i] + 1}`}`]);
    if (rows.unconfirmed[i]) lines.push(["Not confirmed", `${rows.unconfirmed[i]} witnesses`]);
    if (rows.reason[i] !== null) lines.push(["Reason", reason(rows.reason[i])]);
    lines.push(["Passes of attacks", `${rows.forwards[i].toLocaleString("en")} forward, ${rows.backwards[i].toLocaleString("en")} backward`]);
    const title = element("h2", {id: "one-h"}, `Row ${rows.row[i]}`);
    dialog.replaceChildren(element("div", {class: "top"}, title, step("← Before", -1), step("After →", 1), close), shots(i), facts(lines), element("h3", {}, "Attempts"), attempts(i));
    if (!dialog.open) dialog.showModal();
    dialog.dataset.place = place;
    close.focus();
  }

  dialog.addEventListener("keydown", event => {
    if (event.target.closest(".box") || event.ctrlKey || event.altKey || event.metaKey) return;
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (by) {
      event.preventDefault();
      show(Number(dialog.dataset.place) + by);
    }
  });
  dialog.addEventListener("close", () => focus(Number(dialog.dataset.place)));
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  body.addEventListener("click", event => {
    const row = event.target.closest("tr");
    if (row) show(Number(row.dataset.place));
  });
  body.addEventListener("keydown", event => {
    const moves = {ArrowDown: current + 1, ArrowUp: current - 1, PageDown: current + 12, PageUp: current - 12, Home: 0, End: found.length - 1};
    if (event.key in moves) focus(moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") show(current);
    else return;
    event.preventDefault();
  });
  find.addEventListener("input", refresh);
  more.addEventListener("click", () => draw(drawn + SLICE));

  heads();
  buttons();
  refresh();
  browser.hidden = false;
})();

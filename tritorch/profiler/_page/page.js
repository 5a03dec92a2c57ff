"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#4c6ef5", "#12b886", "#7950f2", "#868e96", "#fab005", "#e03131", "#f76707", "#15aabf"];
const ROLES = ["#2f9e44", "#1971c2", "#f08c00", "#e03131", "#343a40", "#9c36b5", "#adb5bd"];

// ---- small things -------------------------------------------------------------------------------

function make(kind, parent, text, name) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  if (parent) parent.append(made);
  return made;
}
function time(us) {
  if (!us) return "";
  if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
  if (us >= 1e3) return (us / 1e3).toFixed(2) + " ms";
  return us.toFixed(us < 10 ? 1 : 0) + " us";
}
function amount(n, unit) {
  if (!n) return "";
  const steps = ["", "K", "M", "G", "T", "P"];
  let i = 0;
  while (Math.abs(n) >= 1000 && i < steps.length - 1) { n /= 1000; ++i; }
  return n.toFixed(n < 10 && i ? 2 : n < 100 && i ? 1 : 0) + " " + steps[i] + unit;
}
const share = (x) => (x === null || x === undefined ? "" : (100 * x).toFixed(1) + " %");
const lineText = (i) => {
  if (i < 0) return "";
  const [file, line, name] = data.line_table[i];
  return file.split("/").pop() + ":" + line + " in " + name;
};

// A table whose rows are sorted by a click.  columns: [title, row -> value, value -> text, kind].
// A column of which no row has anything is left out.
function table(parent, given, rows, order) {
  const columns = given.filter(([, read, shown]) => rows.some((row) => shown(read(row)) !== ""));
  const box = make("div", parent, undefined, "scroll");
  const whole = make("table", box);
  const head = make("tr", make("thead", whole));
  const body = make("tbody", whole);
  let by = order, down = true;
  const fill = () => {
    body.replaceChildren();
    const sorted = by === null ? rows : [...rows].sort((a, b) => {
      const x = columns[by][1](a), y = columns[by][1](b);
      const found = typeof x === "string" ? x.localeCompare(y) : (x ?? -1) - (y ?? -1);
      return down ? -found : found;
    });
    const most = columns.map((c) => (c[3] === "bar" ? Math.max(...rows.map(c[1]), 1e-9) : 0));
    for (const row of sorted) {
      const line = make("tr", body);
      columns.forEach(([, read, shown, kind], i) => {
        const cell = make("td", line, shown(read(row)), kind);
        if (kind === "bar") cell.style.setProperty("--part", (100 * read(row)) / most[i] + "%");
      });
    }
  };
  columns.forEach(([title, , , kind], i) => {
    const cell = make("th", head, title, kind === "text" ? "text" : "");
    cell.onclick = () => { down = by === i ? !down : true; by = i; fill(); };
  });
  fill();
  return body;
}
const text = (x) => String(x);

// The columns that operators, modules and lines share; `at`: where their numbers begin in a row.
const onDevice = data.kernels > 0;
function sums(at) {
  const total = (r) => (onDevice ? r[at + 4] + r[at + 5] : r[at + 2] + r[at + 3]);
  const found = [["calls", (r) => r[at], text]];
  if (onDevice) {
    found.push(["device", (r) => r[at + 4], time, "bar"], ["device, backward", (r) => r[at + 5], time, "bar"],
      ["kernels", (r) => r[at + 7], text]);
  }
  found.push(["host", (r) => r[at + 2], time, "bar"], ["host, own", (r) => r[at + 1], time],
    ["host, backward", (r) => r[at + 3], time, onDevice ? "" : "bar"]);
  if (onDevice) found.push(["waits", (r) => r[at + 6], time]);
  found.push(["FLOP", (r) => r[at + 8], (n) => amount(n, "")], ["bytes", (r) => r[at + 9], (n) => amount(n, "B")],
    ["FLOP/s", (r) => (r[at + 8] / total(r) || 0) * 1e6, (n) => (isFinite(n) ? amount(n, "") : "")],
    ["roofline", (r) => r[at + 10], share]);
  return { columns: found, total };
}

// ---- the parts ----------------------------------------------------------------------------------

function overview() {
  document.getElementById("title").textContent = data.title;
  document.getElementById("about").textContent =
    `${data.made}, tritorch ${data.version}, ${data.device} (${data.machine})`;
  document.getElementById("peaks").textContent = data.peaks;
  const cards = document.querySelector("#overview .cards");
  const card = (value, name) => { const box = make("div", cards, undefined, "card"); make("b", box, value); make("span", box, name); };
  card(time(data.wall), "wall clock");
  card(String(data.events), "events of the host");
  if (onDevice) card(String(data.kernels), "kernels, copies and fills");
  for (const { device, busy, span } of data.busy) card(share(busy / span), `device ${device} busy, of ${time(span)}`);
  for (const m of data.memory) card(amount(m.peak, "B"), `peak of ${m.device < 0 ? "the host" : "device " + m.device}`);
}

function idle() {
  const body = document.querySelector("#idle .body");
  if (!onDevice) { make("p", body, "No device was used in this run.", "hint"); return; }
  if (!data.gaps.length) { make("p", body, "No gap was longer than 5 us.", "hint"); return; }
  table(body, [
    ["cause", (g) => g.cause, text, "text cause"], ["where", (g) => g.text, text, "text"],
    ["line", (g) => lineText(g.line), text, "text"], ["idle", (g) => g.us, time, "bar"],
    ["gaps", (g) => g.count, text], ["longest", (g) => g.longest, time], ["device", (g) => g.device, text],
  ], data.gaps, null);
}

function lines() {
  const body = document.querySelector("#lines .body");
  const { columns, total } = sums(1);
  const byFile = new Map();
  for (const row of data.lines) {
    const [file, line] = data.line_table[row[0]];
    if (!byFile.has(file)) byFile.set(file, new Map());
    const there = byFile.get(file);
    const have = there.get(line);
    there.set(line, have ? have.map((x, i) => (i && i < 11 && typeof x === "number" ? x + row[i] : x)) : row);
  }
  const most = Math.max(...data.lines.map(total), 1e-9);
  const shown = [columns.find((c) => c[0] === (onDevice ? "device" : "host")),
    columns.find((c) => c[0] === (onDevice ? "device, backward" : "host, backward")),
    columns.find((c) => c[0] === "FLOP"), columns.find((c) => c[0] === "bytes"), columns.find((c) => c[0] === "roofline")];
  for (const [file, found] of byFile) {
    const source = data.files[file];
    if (!source) continue;
    make("h3", body, file);
    const box = make("div", body, undefined, "scroll");
    const whole = make("table", box, undefined, "code");
    const head = make("tr", make("thead", whole));
    for (const title of ["", "source", ...shown.map((c) => c[0])]) make("th", head, title, title === "source" ? "text" : "");
    const rows = make("tbody", whole);
    source.forEach((content, i) => {
      const row = found.get(i + 1);
      const line = make("tr", rows, undefined, row && total(row) > 0.05 * most ? "hot" : "");
      make("td", line, String(i + 1));
      make("td", line, content, "source");
      for (const [, read, form] of shown) make("td", line, row ? form(read(row)) : "");
      if (row) line.title = row[row.length - 1];
    });
  }
  make("h3", body, "all lines");
  table(body, [["line", (r) => lineText(r[0]), text, "text"], ["calls", (r) => r[r.length - 1], text, "text"], ...columns],
    data.lines, null);
}

function operators() {
  const { columns } = sums(1);
  table(document.querySelector("#operators .body"), [["operator", (r) => r[0], text, "text"], ...columns], data.ops, null);
}

function modules() {
  const { columns } = sums(1);
  const body = document.querySelector("#modules .body");
  if (!data.modules.length) { make("p", body, "No module was called.", "hint"); return; }
  make("p", body, "The host's times are with what a module calls, devices' without.", "hint");
  table(body, [["module", (r) => r[0], text, "text"], ...columns], data.modules, null);
}

function memory() {
  const body = document.querySelector("#memory .body");
  if (!data.memory.length) make("p", body, "Memory was not written down.", "hint");
  for (const m of data.memory) {
    make("h3", body, m.device < 0 ? "host" : "device " + m.device);
    const last = lineText(m.allocated_last);
    make("p", body, `Peak of ${amount(m.peak, "B")} at ${time(m.peak_at)}` + (last ? `, reached by an allocation at ${last}.` : "."));
    const legend = make("div", body, undefined, "legend");
    m.roles.forEach((role, i) => { const s = make("span", legend); make("i", s).style.background = ROLES[i]; s.append(`${role} ${amount(m.at_peak[i], "B")}`); });
    areas(make("canvas", body), m);
    table(body, [["held at the peak by", (r) => lineText(r[0]), text, "text"], ["operator", (r) => r[1], text, "text"],
      ["role", (r) => r[2], text, "text"], ["bytes", (r) => r[3], (n) => amount(n, "B"), "bar"], ["blocks", (r) => r[4], text]],
      m.holders, null);
  }
}

function areas(canvas, m) {
  const context = sized(canvas, 220);
  const [width, height] = [canvas.clientWidth, 220];
  const from = m.times[0], span = Math.max(m.times[m.times.length - 1] - from, 1);
  const x = (t) => ((t - from) / span) * width, y = (n) => height - (n / (m.peak || 1)) * (height - 8);
  const below = m.times.map(() => 0);
  m.roles.forEach((role, r) => {
    context.beginPath();
    const above = below.map((n, i) => n + m.sizes[i][r]);
    context.moveTo(x(from), y(below[0]));
    above.forEach((n, i) => { if (i) context.lineTo(x(m.times[i]), y(above[i - 1])); context.lineTo(x(m.times[i]), y(n)); });
    for (let i = below.length - 1; i >= 0; --i) {
      context.lineTo(x(m.times[i]), y(below[i]));
      if (i) context.lineTo(x(m.times[i]), y(below[i - 1]));
    }
    context.fillStyle = ROLES[r];
    context.fill();
    above.forEach((n, i) => { below[i] = n; });
  });
}

function sized(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

// ---- the time line ------------------------------------------------------------------------------

function timeline() {
  const { rows, names, kinds, left_out, shorter_than } = data.timeline;
  if (left_out) document.getElementById("left-out").textContent = `${left_out} events of less than ${time(shorter_than)} are not drawn.`;
  const legend = document.getElementById("time-legend");
  kinds.forEach((kind, i) => { const s = make("span", legend); make("i", s).style.background = COLOURS[i]; s.append(kind); });
  const canvas = document.getElementById("timeline");
  const THICK = 15, GAP = 26;
  let top = 0;
  for (const row of rows) {
    let at = 0;
    for (const event of row.events) { at += event[0]; event[0] = at; }
    row.top = top;
    row.deepest = row.events.reduce((most, e) => Math.max(most, e[3]), 0);
    top += GAP + (row.deepest + 1) * THICK;
  }
  const height = Math.max(top + 10, 60);
  const first = Math.min(...rows.map((r) => r.events[0][0]));
  const last = Math.max(...rows.map((r) => r.events.reduce((most, e) => Math.max(most, e[0] + e[1]), 0)));
  let from = first, until = Math.max(last, first + 1);
  const style = getComputedStyle(document.body);
  const draw = () => {
    const context = sized(canvas, height);
    const width = canvas.clientWidth, scale = width / (until - from);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    for (const row of rows) {
      context.fillStyle = style.color;
      context.fillText(row.name, 4, row.top + 16);
      const ends = new Float64Array(row.deepest + 1);
      for (const event of row.events) {
        const [begin, took, name, depth, kind] = event;
        if (begin > until) break;
        if (begin + took < from) continue;
        const left = (begin - from) * scale, right = Math.max(left + Math.max(took * scale, 0.6), 0);
        if (right < ends[depth]) continue;
        ends[depth] = right;
        context.fillStyle = COLOURS[kind];
        context.fillRect(Math.max(left, 0), row.top + GAP - 4 + depth * THICK, right - Math.max(left, 0), THICK - 1);
        if (right - Math.max(left, 0) > 40) {
          context.save();
          context.beginPath();
          context.rect(Math.max(left, 0), row.top + GAP - 4 + depth * THICK, right - Math.max(left, 0) - 2, THICK);
          context.clip();
          context.fillStyle = "#fff";
          context.fillText(names[name], Math.max(left, 0) + 3, row.top + GAP + 7 + depth * THICK);
          context.restore();
        }
      }
    }
    context.fillStyle = style.color;
    context.textAlign = "right";
    context.fillText(`${time(from / 1e3)} to ${time(until / 1e3)}`, width - 6, 12);
    context.textAlign = "left";
  };
  const find = (x, y) => {
    const at = from + (x / canvas.clientWidth) * (until - from), slack = (until - from) / canvas.clientWidth;
    for (const row of rows) {
      const depth = Math.floor((y - row.top - GAP + 4) / THICK);
      if (y < row.top + GAP - 4 || depth > row.deepest) continue;
      return row.events.find((e) => e[3] === depth && e[0] - slack <= at && at <= e[0] + e[1] + slack);
    }
  };
  const picked = document.getElementById("picked");
  canvas.onwheel = (event) => {
    event.preventDefault();
    const at = from + (event.offsetX / canvas.clientWidth) * (until - from);
    const factor = Math.exp(event.deltaY * 0.002);
    from = at - (at - from) * factor;
    until = Math.max(at + (until - at) * factor, from + 100);
    draw();
  };
  canvas.ondblclick = () => { from = first; until = Math.max(last, first + 1); draw(); };
  canvas.onmousemove = (event) => {
    if (event.buttons) {
      const moved = (event.movementX / canvas.clientWidth) * (until - from);
      from -= moved; until -= moved; draw();
      return;
    }
    const found = find(event.offsetX, event.offsetY);
    if (!found) return;
    const [begin, took, name, , kind, line, op, path] = found;
    const more = [kinds[kind], lineText(line), op === undefined ? "" : "of " + names[op], path >= 0 ? "in " + names[path] : ""];
    picked.textContent = `${names[name]}: ${time(took / 1e3)} at ${time(begin / 1e3)}  ${more.filter(Boolean).join(", ")}`;
  };
  window.addEventListener("resize", draw);
  draw();
}

// A part of which there is nothing is left out.
const parts = { idle: [idle, data.gaps], time: [timeline, data.timeline && data.timeline.rows.length],
  lines: [lines, data.lines], operators: [operators, data.ops], modules: [modules, data.modules],
  memory: [memory, data.memory] };
overview();
for (const [name, [draw, there]] of Object.entries(parts)) {
  if (there) draw();
  else for (const found of document.querySelectorAll(`#${name}, nav a[href="#${name}"]`)) found.remove();
}
document.body.dataset.drawn = "yes";

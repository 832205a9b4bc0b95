"use strict";
/* Tables that sort and filter, charts that ECharts draws, and the links between them. The page is complete without this
   script: it only adds to what is there, and shows no value that the page's data do not have. */
(() => {
  const read = document.getElementById("data");
  const data = read ? JSON.parse(read.textContent) : {};
  const THIN = "\u202f";
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === false || value === undefined || value === null) continue;
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  };
  const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;

  /* Numbers, as the page's own text has them. */
  const STEPS = {
    ns: [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]],
    B: [[1, "B"], [1024, "KiB"], [1048576, "MiB"], [1073741824, "GiB"], [1099511627776, "TiB"]],
    "1/s": [[1, "/s"]],
    J: [[1e-9, "nJ"], [1e-6, "µJ"], [1e-3, "mJ"], [1, "J"]],
    s: [[1e-9, "ns"], [1e-6, "µs"], [1e-3, "ms"], [1, "s"]],
    FLOP: [[1, "FLOP"], [1e3, "kFLOP"], [1e6, "MFLOP"], [1e9, "GFLOP"], [1e12, "TFLOP"], [1e15, "PFLOP"]],
    "FLOP/s": [[1, "FLOP/s"], [1e3, "kFLOP/s"], [1e6, "MFLOP/s"], [1e9, "GFLOP/s"], [1e12, "TFLOP/s"], [1e15, "PFLOP/s"]],
    "B/s": [[1, "B/s"], [1e3, "kB/s"], [1e6, "MB/s"], [1e9, "GB/s"], [1e12, "TB/s"]],
    Hz: [[1, "Hz"], [1e3, "kHz"], [1e6, "MHz"], [1e9, "GHz"]],
  };
  /* Halves go away from zero, by the same product and quotient as in the page's own text. */
  const rounded = (value, decimals) => {
    const power = 10 ** decimals;
    const found = Math.sign(value) * Math.round(Math.abs(value) * power) / power;
    return Number.isFinite(found) ? found : value;
  };
  const fixed = (value, decimals) => rounded(value, decimals).toFixed(Math.min(100, decimals));
  const significant = (value, digits = 3) => {
    if (value === 0) return "0";
    if (!Number.isFinite(value)) return String(value);
    const decimals = (number) => Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(number))));
    const shown = rounded(value, decimals(value)) || value;
    const text = fixed(shown, decimals(shown));
    const [whole, fraction] = text.split(".");
    const plain = whole.replace("-", "");
    const grouped = plain.length >= 5 ? plain.replace(/\B(?=(\d{3})+$)/g, THIN) : plain;
    return (whole.startsWith("-") ? "-" : "") + grouped + (fraction ? "." + fraction : "");
  };
  const step = (unit, value) => {
    const steps = STEPS[unit];
    if (!steps) return [1, unit === "1" ? "" : unit];
    let found = steps[0];
    for (const one of steps) if (Math.abs(value) * 1.0005 >= one[0]) found = one;
    return found;
  };
  const withUnit = (number, symbol) =>
    symbol === "" ? number : symbol.startsWith("/") ? number + symbol : number + THIN + symbol;
  const humanise = (value, unit) => {
    const [size, symbol] = step(unit, value);
    return withUnit(significant(value / size), symbol);
  };
  const shownAs = (metric, value, unit) => {
    if (unit === "1" && (metric.startsWith("accuracy.") || metric.endsWith("accuracy"))) return fixed(value * 100, 2) + THIN + "%";
    if (unit === "1" && metric.endsWith("-utilisation")) return fixed(value * 100, 1) + THIN + "%";
    return humanise(value, unit);
  };
  const interval = (metric, value, low, high, unit) => {
    const percent = THIN + "%";
    const written = shownAs(metric, low, unit);
    if (written.endsWith(percent) && unit === "1") return `${written.slice(0, -percent.length)} to ${shownAs(metric, high, unit)}`;
    const [size, symbol] = step(unit, value);
    return `${significant(low / size)} to ${withUnit(significant(high / size), symbol)}`;
  };

  /* Files. */
  const csv = (rows) => rows.map((row) => row.map((cell) => {
    if (cell === null || cell === undefined) return "";
    if (typeof cell === "number") return String(cell);
    // A spreadsheet would take such a text for a formula.
    const text = /^[=+\-@\t\r]/.test(cell) ? "'" + cell : cell;
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  }).join(",")).join("\r\n") + "\r\n";
  const save = (name, rows) => {
    const address = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv" }));
    const link = make("a", { href: address, download: name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") + ".csv" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };

  /* Cases: which are shown, and which are selected. */
  const cases = data.cases || [];
  for (const chart of (data.figures || []).flatMap((figure) => figure.charts)) for (const series of chart.series) {
    // A series of one case names it once.
    if (series.case !== undefined) series.points = series.points.map(([x, y, low, high, ...rest]) => [x, y, low, high, series.case, ...rest]);
    series.points = series.points.map(([x, y, low, high, one, ...rest]) => [x, y, one, low, high, ...rest]);
  }
  const shown = new Set(cases.keys());
  const selected = new Set();
  const listeners = [];
  const changed = (because) => listeners.forEach((listener) => listener(because));
  const select = (one, on) => {
    if (on === undefined) on = !selected.has(one);
    if (on) selected.add(one); else selected.delete(one);
    changed("selection");
  };

  /* Tables. */
  const value = (cell) => {
    if (!cell) return null;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    return null;
  };
  const natural = new Intl.Collator("en", { numeric: true });
  const enhance = (table) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const original = new Map(rows.map((row, index) => [row, index]));
    const isCases = table.dataset.cases !== undefined || (data.table && table.id === data.table);
    const words = new Map();
    const text = (row) => {
      if (!words.has(row)) words.set(row, row.textContent.toLowerCase());
      return words.get(row);
    };
    let sorted = null;
    const status = make("p", { class: "quiet", role: "status", "aria-live": "polite" });

    const sort = (place, direction) => {
      const heading = table.tHead.rows[0].cells[place];
      const number = heading.dataset.sort === "number";
      const at = (row) => [...row.cells].find((cell, index) => index === place && cell.colSpan === 1);
      const key = new Map(rows.map((row) => {
        const cell = at(row);
        return [row, number ? value(cell) : cell ? cell.textContent.trim() : null];
      }));
      rows.sort((one, other) => {
        const [a, b] = [key.get(one), key.get(other)];
        // A row without a value is last either way.
        if (a === null || b === null) return (a === null) - (b === null) || original.get(one) - original.get(other);
        const order = number ? a - b : natural.compare(a, b);
        return direction * order || original.get(one) - original.get(other);
      });
      body.append(...rows);
      for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      sorted = [place, direction];
    };
    const buttons = () => {
      [...table.tHead.rows[0].cells].forEach((cell, place) => {
        if (cell.querySelector("button") || (rows.length < 2)) return;
        const button = make("button", { type: "button", class: "sort", onclick: () => {
          const again = sorted && sorted[0] === place;
          sort(place, again ? -sorted[1] : 1);
        } }, ...cell.childNodes);
        cell.append(button);
      });
    };
    buttons();

    const filters = [];
    let query = "";
    let only = null;
    const apply = () => {
      const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
      let visible = 0;
      if (isCases) shown.clear();
      for (const row of rows) {
        const one = row.dataset.c === undefined ? null : Number(row.dataset.c);
        const keep = wanted.every((word) => text(row).includes(word))
          && filters.every((filter) => filter(row, one))
          && (!only || only.has(one));
        row.hidden = !keep;
        visible += keep;
        if (keep && isCases && one !== null) shown.add(one);
      }
      status.textContent = visible === rows.length ? "" : `${visible} of ${count(rows.length, "row", "rows")}`;
      if (isCases) changed("filter");
    };
    if (rows.length > 4) {
      const search = make("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${table.parentElement.getAttribute("aria-label") || "the table"}`, oninput: () => { query = search.value; apply(); } });
      const tools = make("form", { class: "tools", role: "search", onsubmit: (event) => event.preventDefault() }, search);
      const choices = [];
      const choose = (name, options, matches) => {
        const choice = make("select", { "aria-label": name, onchange: apply }, make("option", { value: "" }, `${name}: all`),
          ...options.map(([key, label]) => make("option", { value: key }, label)));
        filters.push((row, one) => choice.value === "" || (one !== null && matches(one, choice.value)));
        choices.push(choice);
        tools.append(choice);
      };
      if (isCases) {
        for (const axis of data.axes || []) {
          if (axis.names.length > 1 && axis.names.length <= 24) choose(axis.heading, axis.names.map((name, index) => [String(index), name]), (one, key) => axis.of[one] === Number(key));
        }
        const states = ["finished", "failed", "gap"].filter((state) => (data.outcomes || []).includes(state));
        if (states.length > 1) choose("outcome", states.map((state) => [state, state === "gap" ? "not possible" : state]), (one, key) => data.outcomes[one] === key);
        const kinds = data.kinds || [];
        if (kinds.length) choose("warning", [["none", "none"], ["any", "any"], ...kinds.map((kind, index) => [String(index), kind])], (one, key) => {
          const of = (data.warnings[one] || []).map(([kind]) => kind);
          return key === "none" ? !of.length : key === "any" ? of.length > 0 : of.includes(Number(key));
        });
      }
      const toggle = make("button", { type: "button", class: "toggle", "aria-expanded": "false", onclick: () => toggle.setAttribute("aria-expanded", String(tools.classList.toggle("open"))) }, "Options");
      const clear = make("button", { type: "button", onclick: () => {
        search.value = ""; query = ""; only = null;
        choices.forEach((choice) => { choice.value = ""; });
        if (isCases) selected.clear();
        apply();
      } }, "Show all");
      const rowsAsCsv = () => [[...table.tHead.rows[0].cells].filter((cell) => !cell.classList.contains("joined") || !table.classList.contains("named")).map((cell) => cell.textContent.trim()),
        ...rows.filter((row) => !row.hidden).map((row) => [...row.cells].filter((cell) => !cell.classList.contains("joined") || !table.classList.contains("named")).map((cell) => value(cell) ?? (cell.firstChild ? cell.textContent.trim() : "")))];
      tools.append(clear, make("button", { type: "button", onclick: () => save(table.id, isCases && data.metrics ? allValues([...shown]) : rowsAsCsv()) }, "CSV"));
      if (tools.querySelector("select")) search.after(toggle);
      table.parentElement.before(tools);
      table.parentElement.before(status);
      if (isCases) {
        for (const link of document.querySelectorAll("[data-cases]")) {
          link.hidden = false;
          link.addEventListener("click", () => {
            only = new Set(link.dataset.cases.split(" ").map(Number));
            apply();
            document.getElementById(table.id).closest("section").scrollIntoView();
          });
        }
        for (const link of document.querySelectorAll("[data-kind]")) {
          link.hidden = false;
          link.addEventListener("click", () => {
            const choice = choices.find((one) => one.getAttribute("aria-label") === "warning");
            choice.value = link.dataset.kind;
            apply();
            document.getElementById(table.id).closest("section").scrollIntoView();
          });
        }
        columnSets(table, tools, rows, () => { buttons(); words.clear(); sorted = null; });
      }
    }
    if (isCases) {
      for (const row of rows) {
        if (row.dataset.c === undefined) continue;
        const one = Number(row.dataset.c);
        const head = row.cells[0];
        const name = head.textContent.trim();
        const box = data.figures && data.figures.length ? make("input", { type: "checkbox", "aria-label": `Select ${name} in the charts`, onchange: () => select(one, box.checked) }) : "";
        if (!data.metrics) {
          if (!head.querySelector("a")) head.replaceChildren(make("span", { class: "who" }, ...head.childNodes));
          head.prepend(box);
          continue;
        }
        const details = make("button", { type: "button", class: "plain", title: `All values of ${name}`, onclick: () => show(one) }, make("span", { class: "who" }, ...head.childNodes), make("span", { class: "more", "aria-hidden": "true" }, "⋯"));
        head.append(box, details);
      }
      listeners.push(() => {
        for (const row of rows) {
          if (row.dataset.c === undefined) continue;
          const on = selected.has(Number(row.dataset.c));
          row.classList.toggle("selected", on);
          const box = row.cells[0].querySelector("input");
          if (box) box.checked = on;
        }
      });
    }
  };

  /* Values of a case: of a metric a list of value, bounds of the interval, bounds for another process, and a class; a
     number alone is the place of the reason why there is no value. */
  const entry = (metric, one) => {
    const found = metric.of[one];
    if (found === null || found === undefined) return {};
    if (typeof found === "number") return { gap: data.gaps[found] };
    return { value: found[0], low: found[1], high: found[2], from: found[3], to: found[4], class: found[5] };
  };
  const written = (metric, { value, class: word }) => word || shownAs(metric.name, value, metric.unit);
  const allValues = (which) => [
    ["case", ...data.axes.map((axis) => axis.heading), "metric", "value", "unit", "interval low", "interval high", "reason"],
    ...which.flatMap((one) => data.metrics.flatMap((metric) => {
      const found = entry(metric, one);
      if (found.value === undefined && found.gap === undefined) return [];
      return [[cases[one], ...data.axes.map((axis) => axis.names[axis.of[one]]), metric.name, found.value, metric.unit, found.low, found.high, found.gap]];
    })),
  ];

  /* Further columns: those of the summary are in the page, others are made here. */
  const columnSets = (table, tools, rows, after) => {
    const groups = new Map();
    for (const metric of data.metrics || []) {
      const group = metric.group || metric.name.split(".")[0];
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(metric);
    }
    if (!groups.size) return;
    const head = table.tHead.rows[0];
    const isFixed = (cell) => cell.classList.contains("joined") || cell.classList.contains("name");
    const kept = new Map([[head, [...head.cells].filter((cell) => !isFixed(cell))], ...rows.map((row) => [row, [...row.cells].filter((cell) => !isFixed(cell))])]);
    const choice = make("select", { "aria-label": "Columns", onchange: () => {
      const metrics = groups.get(choice.value);
      for (const [row, cells] of kept) {
        [...row.cells].filter((cell) => !isFixed(cell)).forEach((cell) => cell.remove());
        if (!metrics) { row.append(...cells); continue; }
        if (row === head) {
          row.append(...metrics.map((metric) => make("th", { scope: "col", class: "number", "data-sort": "number", title: metric.name }, metric.heading || metric.name.slice(metric.name.indexOf(".") + 1))));
          continue;
        }
        const one = Number(row.dataset.c);
        if (data.outcomes[one] !== "finished") { row.append(...cells.map((cell) => cell.cloneNode(true))); row.lastElementChild.colSpan = metrics.length; continue; }
        row.append(...metrics.map((metric) => {
          const found = entry(metric, one);
          if (found.value === undefined) return make("td", { class: "number missing", title: found.gap }, found.gap ? "gap" : "—");
          const cell = make("td", { class: "number", "data-v": found.value }, written(metric, found));
          if (found.low !== undefined && found.low !== null && !found.class) cell.append(make("span", { class: "interval" }, interval(metric.name, found.value, found.low, found.high, metric.unit)));
          return cell;
        }));
      }
      after();
    } }, make("option", { value: "" }, "columns: summary"), ...[...groups.keys()].map((name) => make("option", { value: name }, `columns: ${name}`)));
    tools.insertBefore(choice, tools.querySelector("select") || tools.children[1] || null);
  };

  /* All that is known of a case. */
  const show = (one) => {
    const dialog = make("dialog", { class: "details", "aria-label": data.labels[one] });
    const close = make("button", { type: "button", class: "close", onclick: () => dialog.close() }, "Close");
    dialog.append(close, make("h2", {}, data.labels[one]));
    dialog.append(make("p", { class: "quiet mono" }, cases[one]));
    const facts = make("dl", { class: "facts" });
    const fact = (name, text) => { if (text !== undefined && text !== null && text !== "") facts.append(make("dt", {}, name), make("dd", {}, text)); };
    for (const axis of data.axes) fact(axis.heading, axis.names[axis.of[one]]);
    if (data.reasons && data.reasons[one]) fact(data.outcomes[one] === "gap" ? "not possible" : "failed", data.reasons[one]);
    for (const known of data.facts || []) if (known.of[one] !== null && known.of[one] !== undefined) fact(known.name, known.names[known.of[one]]);
    dialog.append(facts);
    const warnings = (data.warnings || [])[one] || [];
    if (warnings.length) dialog.append(make("h3", {}, "Warnings"), make("ul", {}, ...warnings.map(([kind, text]) => make("li", {}, make("span", { class: "tag" }, data.kinds[kind]), " ", text))));
    const known = (data.metrics || []).map((metric) => [metric, entry(metric, one)]).filter(([, found]) => found.value !== undefined || found.gap);
    if (known.length) {
      const predicted = known.some(([, found]) => found.from !== undefined && found.from !== null);
      const has = (bound) => bound !== undefined && bound !== null;
      const body = make("tbody", {}, ...known.map(([metric, found]) => {
        const row = make("tr", {}, make("th", { scope: "row" }, metric.heading ? `${metric.group}: ${metric.heading}` : metric.name));
        if (found.value === undefined) row.append(make("td", { class: "missing", colspan: predicted ? 3 : 2 }, found.gap));
        else {
          row.append(make("td", { class: "number" }, humanOf(metric, found)), make("td", { class: "number" }, has(found.low) ? interval(metric.name, found.value, found.low, found.high, metric.unit) : ""));
          if (predicted) row.append(make("td", { class: "number" }, has(found.from) ? interval(metric.name, found.value, found.from, found.to, metric.unit) : ""));
        }
        row.append(make("td", { class: "quiet" }, metric.better || ""));
        return row;
      }));
      const head = ["metric", "value", "interval", ...(predicted ? ["another process"] : []), "better"];
      dialog.append(make("h3", {}, "All values"), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))), body)));
      dialog.append(make("button", { type: "button", onclick: () => save(data.labels[one], allValues([one])) }, "CSV"));
    }
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    dialog.showModal();
  };
  const humanOf = (metric, found) => shownAs(metric.name, found.value, metric.unit) + (found.class ? ` (${found.class})` : "");

  /* Charts. */
  const MOST = 8;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const SHAPES = ["circle", "rect", "triangle", "diamond",
    "path://M0,0 L10,0 L5,9 Z", "path://M0,5 L9,0 L9,10 Z", "path://M9,5 L0,0 L0,10 Z", "path://M0,0 L12,0 L12,4 L0,4 Z"];
  const NINES = [[0, "0 %"], [0.30103, "50 %"], [1, "90 %"], [2, "99 %"], [3, "99.9 %"], [4, "99.99 %"], [5, "99.999 %"], [6, "99.9999 %"]];
  const tickLabel = (number) => {
    const text = significant(number);
    return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
  };
  const logTicks = (low, high) => {
    for (const digits of [[1], [1, 3], [1, 2, 5]]) {
      const ticks = [];
      for (let decade = Math.floor(Math.log10(low)); 10 ** decade <= high; decade += 1) {
        ticks.push(...digits.map((digit) => digit * 10 ** decade).filter((tick) => tick >= low && tick <= high));
      }
      if (ticks.length >= 3) {
        const every = Math.ceil(ticks.length / 9);
        return ticks.filter((_, index) => index % every === 0);
      }
    }
    return evenTicks(low, high);
  };
  const evenTicks = (low, high) => {
    const rough = (high - low) / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    const by = ([1, 2, 2.5, 5, 10].find((digit) => digit * power >= rough * 0.999) || 10) * power;
    const ticks = [];
    for (let at = Math.ceil(low / by); at * by <= high * (1 + 1e-12) && ticks.length < 20; at += 1) ticks.push(at * by);
    return ticks;
  };
  const points = (series, bounds, place) => {
    for (const point of series.points) {
      const all = place === 1 ? [point[1], point[3], point[4]] : [point[0]];
      for (const one of all) if (one !== null && one !== undefined && Number.isFinite(one)) { bounds[0] = Math.min(bounds[0], one); bounds[1] = Math.max(bounds[1], one); }
    }
  };
  const axisOf = (axis, series, place, narrow) => {
    const bounds = [Infinity, -Infinity];
    series.forEach((one) => points(one, bounds, place));
    if (bounds[0] > bounds[1]) bounds.fill(1);
    let [low, high] = bounds;
    const scale = axis.scale;
    const common = {
      name: axis.title, nameLocation: place === 1 ? "end" : "middle", nameGap: place === 1 ? 14 : 28,
      nameTextStyle: { color: colour("--quiet"), align: place === 1 ? "left" : "center", padding: place === 1 ? [0, 0, 0, -44] : 0 },
      axisLabel: { color: colour("--quiet"), hideOverlap: true }, axisTick: { show: false },
      axisLine: { show: place === 0, onZero: false, lineStyle: { color: colour("--line") } },
      splitLine: { show: true, lineStyle: { color: colour("--grid") } }, animation: false,
    };
    const custom = (values, label) => { common.axisLabel.customValues = values; common.axisTick.customValues = values; common.axisLabel.formatter = label; };
    switch (axis.kind) {
      case "names": return { ...common, type: "value", min: -0.5, max: axis.names.length - 0.5, splitLine: { show: false }, interval: 1,
        axisLabel: { ...common.axisLabel, customValues: spaced(axis.names.length, narrow ? 3 : 7), formatter: (at) => shorten(axis.names[Math.round(at)] || "", 18) } };
      case "nines": {
        custom(NINES.map(([at]) => at).filter((at) => at <= high), (at) => (NINES.find(([known]) => Math.abs(known - at) < 1e-6) || [0, ""])[1]);
        return { ...common, type: "value", min: 0, max: Math.max(1, high) * 1.02 };
      }
      case "sizes": {
        const values = [...new Set(series.flatMap((one) => one.points.map((point) => point[0])))].sort((a, b) => a - b);
        custom(values, (at) => tickLabel(Number(at.toPrecision(6))));
        return { ...common, type: "log", logBase: 2, min: low / 1.15, max: high * 1.15 };
      }
      case "log": {
        const room = Math.max((high / low) ** 0.06, 1.1);
        [low, high] = [low / room, high * room];
        custom(logTicks(low * scale, high * scale).map((tick) => tick / scale), (at) => tickLabel(at * scale));
        return { ...common, type: "log", min: low, max: high };
      }
      default: {
        const room = axis.kind === "zero" ? 0 : Math.max((high - low) * 0.08, Math.abs(high) * 5e-4, 1e-300);
        [low, high] = axis.kind === "zero" ? [Math.min(0, low), high * 1.06 || 1] : [low - room, high + room];
        custom(evenTicks(low * scale, high * scale).map((tick) => tick / scale), (at) => tickLabel(at * scale));
        return { ...common, type: "value", min: low, max: high };
      }
    }
  };
  const spaced = (length, most) => {
    const every = Math.max(1, Math.ceil(length / most));
    return [...Array(length).keys()].filter((at) => at % every === 0);
  };
  const shorten = (text, length) => (text.length <= length ? text : text.slice(0, length - 1).trimEnd() + "…");
  const casesOf = (series) => series.points.map((point) => point[2]).filter((one) => one !== null && one !== undefined);
  /* Series that a chart shows: those with a case that is shown; of too many, those of selected cases, or else the first. */
  const visible = (chart) => {
    const kept = chart.series
      .map((series) => ({ ...series, points: series.points.filter((point) => point[2] === null || point[2] === undefined || shown.has(point[2])) }))
      .filter((series) => series.points.length);
    const groups = [...new Set(kept.map((series) => series.group))].filter((group) => group !== null);
    if (groups.length <= MOST) return { series: recoloured(kept, groups), left: 0 };
    const chosen = (group) => kept.some((series) => series.group === group && casesOf(series).some((one) => selected.has(one)));
    const order = [...groups.filter(chosen), ...(selected.size && groups.some(chosen) ? [] : groups.filter((group) => !chosen(group)))].slice(0, MOST);
    return { series: recoloured(kept.filter((series) => series.group === null || order.includes(series.group)), order), left: groups.length - order.length };
  };
  const recoloured = (series, groups) => {
    const fits = groups.every((group) => group < MOST);
    return series.map((one) => ({ ...one, colour: fits ? one.group : groups.indexOf(one.group) }));
  };
  const tooltip = (chart, series, point) => {
    const lines = [make("b", {}, point[6] || series.name), `${series.line ? series.line + ", " : ""}${chart.y.name}: ${humanise(point[1], chart.y.unit)}`];
    if (point[3] !== null && point[3] !== undefined) lines.push(`interval ${interval("", point[1], point[3], point[4], chart.y.unit)}`);
    if (chart.x.kind === "names") lines.push(chart.x.names[Math.round(point[0])]);
    else if (chart.x.kind !== "nines") lines.push(`${chart.x.name}: ${humanise(point[0], chart.x.unit)}`);
    else lines.push(`${significant(100 - 100 * 10 ** -point[0], 6)} % of queries took at most this long`);
    if (point[7]) lines.push("recommended");
    const box = make("div", {});
    lines.forEach((line, index) => { if (index) box.append(make("br")); box.append(line); });
    return box;
  };
  const dim = (series) => selected.size > 0 && casesOf(series).length > 0 && !casesOf(series).some((one) => selected.has(one));
  const option = (chart, width) => {
    const narrow = width < 520;
    const { series, left } = visible(chart);
    const bars = chart.kind !== "points";
    const names = [...new Map(series.filter((one) => one.group !== null).map((one) => [one.group, one])).values()];
    const legendOf = (one) => (one.line ? `${one.name}` : one.name);
    const styled = (one) => (one.group === null ? colour("--quiet") : colour(`--s${one.colour % 8}`));
    const base = {
      animation: false, textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: colour("--ink") }, backgroundColor: "transparent",
      aria: { enabled: true, label: { description: `${chart.title}. ${chart.y.name} by ${chart.x.name}, ${count(names.length, "series", "series")}. The button Data shows the values.` }, decal: { show: bars } },
      tooltip: { trigger: "item", confine: true, backgroundColor: colour("--panel"), borderColor: colour("--line"), textStyle: { color: colour("--ink"), fontSize: 13 } },
      legend: names.length > 1 ? { type: "scroll", top: 0, left: 0, itemWidth: 18, itemHeight: 9, textStyle: { color: colour("--ink") }, pageTextStyle: { color: colour("--quiet") }, pageIconColor: colour("--ink"), inactiveColor: colour("--line"), data: [...new Set(names.map(legendOf))] } : undefined,
    };
    if (bars) {
      // Rows without a bar are left out.
      const rows = chart.x.names.map((_, index) => index).filter((row) => series.some((one) => one.points.some((point) => point[0] === row)));
      const at = new Map(rows.map((row, index) => [row, index]));
      const all = series.map((one) => ({ ...one, points: one.points.map((point) => [at.get(point[0]), ...point.slice(1)]) }));
      const stacked = chart.kind === "stacks";
      const totals = { points: rows.map((_, row) => [row, all.reduce((sum, one) => sum + one.points.filter((point) => point[0] === row).reduce((part, point) => part + point[1], 0), 0)]) };
      const axis = axisOf({ ...chart.y, kind: "zero" }, stacked ? [totals] : all, 1, narrow);
      return [{ ...base,
        grid: { left: narrow ? 110 : 190, right: 76, top: names.length > 1 ? 34 : 8, bottom: 44 },
        yAxis: { type: "category", inverse: true, data: rows.map((row) => chart.x.names[row]), axisTick: { show: false }, axisLine: { lineStyle: { color: colour("--line") } }, axisLabel: { color: colour("--ink"), interval: 0, width: narrow ? 100 : 180, overflow: "truncate" } },
        xAxis: { ...axis, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: colour("--quiet"), align: "center" } },
        series: all.map((one) => ({
          type: "bar", name: legendOf(one), stack: stacked ? "all" : undefined, barMaxWidth: 18, barGap: "12%", barCategoryGap: "28%",
          itemStyle: { color: one.lesser ? colour("--line") : styled(one), borderColor: colour("--page"), borderWidth: stacked ? 1 : 0 },
          emphasis: { itemStyle: { color: one.lesser ? colour("--line") : styled(one) } },
          label: stacked ? undefined : { show: true, position: "right", color: colour("--quiet"), formatter: (item) => humanise(item.value[0], chart.y.unit) },
          data: one.points.map((point) => ({ value: [point[1], point[0]], point, itemStyle: selected.size && point[2] !== null && point[2] !== undefined && !selected.has(point[2]) ? { opacity: 0.3 } : undefined })),
          tooltip: { formatter: (item) => tooltip({ ...chart, x: { ...chart.x, names: rows.map((row) => chart.x.names[row]) } }, one, item.data.point) },
        })) }, left, Math.max(140, rows.length * Math.max(30, (stacked ? 1 : names.length) * 19 + 10) + 90)];
    }
    const drawn = [];
    for (const one of series) {
      const faded = dim(one) ? 0.22 : 1;
      const strong = one.joined && selected.size && casesOf(one).some((id) => selected.has(id));
      const shape = { symbol: SHAPES[(one.colour || 0) % 8], color: styled(one) };
      drawn.push({
        type: one.joined ? "line" : "scatter", name: legendOf(one), symbol: one.bare && !one.points.some((point) => point[5]) ? "none" : one.bare ? "circle" : shape.symbol, symbolSize: 9, showAllSymbol: true, showSymbol: one.points.length <= 120, z: strong ? 4 : 3,
        lineStyle: { color: shape.color, width: strong ? 3 : one.lesser ? 1.5 : 2, type: one.lesser ? "dashed" : "solid", opacity: faded },
        itemStyle: { color: one.lesser ? colour("--page") : shape.color, borderColor: shape.color, borderWidth: 1.5, opacity: faded },
        emphasis: { focus: "none", itemStyle: { borderColor: colour("--ink"), borderWidth: 2 } },
        label: { show: true, position: "top", color: colour("--ink"), fontSize: 11, formatter: (item) => (item.data && item.data.point && item.data.point[5]) || "" },
        labelLayout: { hideOverlap: true }, clip: false,
        data: one.points.map((point) => {
          const on = point[2] !== null && point[2] !== undefined && selected.has(point[2]);
          const off = selected.size > 0 && !one.joined && !on;
          const style = { opacity: off ? 0.22 : faded };
          if (on && !one.bare) Object.assign(style, { borderColor: colour("--ink"), borderWidth: 2.5 });
          if (point[7]) Object.assign(style, { borderColor: colour("--ink"), borderWidth: 2.5, shadowBlur: 6, shadowColor: shape.color });
          return { value: [point[0], point[1]], point, symbolSize: one.bare ? 0.1 : on ? 13 : point[7] ? 12 : 9, itemStyle: { ...(one.lesser ? { color: colour("--page"), borderColor: shape.color, borderWidth: 1.5 } : { color: shape.color }), ...style } };
        }),
        tooltip: { formatter: (item) => (item.data && item.data.point ? tooltip(chart, one, item.data.point) : "") },
      });
      const whiskers = one.points.filter((point) => point[3] !== null && point[3] !== undefined);
      if (whiskers.length) drawn.push({
        type: "line", name: legendOf(one), silent: true, symbol: "none", connectNulls: false, z: 2, tooltip: { show: false },
        lineStyle: { color: shape.color, width: 1.5, opacity: faded * 0.8 }, itemStyle: { color: shape.color },
        data: whiskers.flatMap((point) => [[point[0], point[3]], [point[0], point[4]], [point[0], null]]),
      });
    }
    const marks = (chart.marks || []).map(([x, name, strong]) => ({ xAxis: x, name, lineStyle: { color: strong ? colour("--bad") : colour("--quiet"), type: strong ? "solid" : "dashed", width: strong ? 1.5 : 1 }, label: { show: strong === 1, formatter: shorten(name, 34), color: colour("--ink"), fontSize: 11, rotate: 0 } }));
    if (marks.length && drawn.length) drawn[0].markLine = { symbol: "none", data: marks, tooltip: { formatter: (item) => make("div", {}, item.name) } };
    const legendRows = names.length > 1 ? 30 : 0;
    return [{ ...base, grid: { left: 58, right: 18, top: 34 + legendRows, bottom: 46 },
      xAxis: axisOf(chart.x, series, 0, narrow), yAxis: axisOf(chart.y, series, 1, narrow),
      dataZoom: [{ type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false }],
      series: drawn }, left, 380];
  };

  const rowsOf = (chart) => [
    ["series", "line", chart.x.name + (chart.x.unit === "1" ? "" : ` [${chart.x.unit}]`), `${chart.y.name} [${chart.y.unit}]`, "interval low", "interval high", "case", "name"],
    ...chart.series.flatMap((series) => series.points.map((point) => [series.name, series.line || "",
      chart.x.kind === "names" ? chart.x.names[Math.round(point[0])] : chart.x.kind === "nines" ? 1 - 10 ** -point[0] : point[0], point[1], point[3], point[4],
      point[2] === null || point[2] === undefined ? "" : cases[point[2]], point[6] || ""])),
  ];
  const asTable = (chart) => {
    const [head, ...rows] = rowsOf(chart);
    const most = 400;
    const shownRows = rows.slice(0, most);
    const cell = (one) => make("td", { class: typeof one === "number" ? "number" : null }, one === null || one === undefined ? "" : typeof one === "number" ? significant(one, 4) : one);
    return make("div", { class: "scroll values", tabindex: "0", role: "group", "aria-label": `Values of ${chart.title}` },
      make("table", {}, make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...shownRows.map((row) => make("tr", {}, ...row.map(cell))))),
      ...(rows.length > most ? [make("p", { class: "quiet" }, `The first ${most} of ${rows.length} rows; the CSV has all.`)] : []));
  };

  const figures = [];
  const draw = (panel) => {
    const width = panel.box.clientWidth;
    if (!width) return;
    const [settings, left, height] = option(panel.chart, width);
    panel.box.style.height = `${height}px`;
    if (!panel.drawn) {
      panel.drawn = echarts.init(panel.box, null, { renderer: "svg" });
      panel.drawn.on("click", (item) => {
        const one = item.data && item.data.point ? item.data.point[2] : null;
        if (one !== null && one !== undefined) select(one);
      });
    }
    panel.drawn.resize();
    panel.drawn.setOption(settings, true);
    const lines = new Map(panel.chart.series.filter((one) => one.line).map((one) => [one.line, one.lesser]));
    const key = [...lines].map(([name, lesser]) => `${lesser ? "dashed" : "solid"}: ${name}`).join(", ");
    panel.note.textContent = (key && panel.chart.kind === "points" ? `${key}. ` : "") + (left ? `${count(left, "more line is", "more lines are")} not drawn: filter or select rows of the table to see them.` : "");
    panel.dirty = false;
  };
  const prepare = () => {
    if (!data.figures || !window.echarts) return;
    const seen = new IntersectionObserver((entries) => entries.forEach((found) => {
      const panel = figures.find((one) => one.box === found.target);
      panel.near = found.isIntersecting;
      if (panel.near && panel.dirty) draw(panel);
    }), { rootMargin: "300px" });
    for (const figure of data.figures) {
      const element = document.getElementById(figure.id);
      if (!element) continue;
      element.hidden = false;
      const panels = element.querySelector(".panels");
      panels.replaceChildren();
      for (const chart of figure.charts) {
        const box = make("div", { class: "drawn", role: "group", "aria-label": chart.title });
        const note = make("p", { class: "quiet note" });
        const toggle = make("button", { type: "button", "aria-expanded": "false", onclick: () => {
          const open = holder.querySelector(".values");
          if (open) open.remove(); else holder.append(asTable(chart));
          toggle.setAttribute("aria-expanded", String(!open));
        } }, "Data");
        const holder = make("div", { class: "panel" }, make("div", { class: "panel-head" }, make("p", { class: "chart-title" }, chart.title), toggle, make("button", { type: "button", "aria-label": `Save the data of ${chart.title} as CSV`, onclick: () => save(chart.title, rowsOf(chart)) }, "CSV")), box, note);
        panels.append(holder);
        const panel = { chart, box, note, dirty: true, near: false };
        figures.push(panel);
        seen.observe(box);
      }
    }
    const again = (now) => figures.forEach((panel) => { panel.dirty = true; if (panel.near || now) draw(panel); });
    listeners.push(() => again(false));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => again(false));
    let waiting = 0;
    addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => again(false), 120); });
    // Paper has all charts.
    addEventListener("beforeprint", () => figures.forEach((panel) => { if (panel.dirty) draw(panel); }));
  };

  /* A section with many figures shows one at a time. */
  const choices = () => {
    for (const section of document.querySelectorAll("main > section")) {
      const own = [...section.querySelectorAll(":scope > figure")].filter((figure) => figure.querySelector("h3") && (data.figures || []).some((known) => known.id === figure.id));
      if (own.length < 4) continue;
      const choice = make("select", { "aria-label": "Figure", onchange: () => { own.forEach((figure, index) => { figure.hidden = index !== Number(choice.value); }); figures.forEach((panel) => { if (panel.dirty && panel.near) draw(panel); }); } },
        ...own.map((figure, index) => make("option", { value: index }, figure.querySelector("h3").textContent)));
      own[0].before(make("form", { class: "tools", onsubmit: (event) => event.preventDefault() }, choice));
      own.forEach((figure, index) => { figure.hidden = index !== 0; });
    }
  };

  document.documentElement.classList.add("scripted");
  document.querySelectorAll("table.data").forEach(enhance);
  prepare();
  choices();
  window.tare = { data, shownAs, interval, figures, selected, select, draw, entry };
  document.documentElement.dataset.ready = Math.round(performance.now());
})();

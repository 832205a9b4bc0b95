// Acts as a reader would, and puts what it saw into the title, as JSON. For `browser.rs`.
addEventListener("load", () => {
  const seen = { errors: [] };
  const check = (name, work) => {
    try { seen[name] = work(); } catch (error) { seen.errors.push(`${name}: ${error}`); }
  };
  const row = document.querySelector("table.data tr[data-c]");
  const table = row ? row.closest("table") : document.querySelector("table.data");
  const rows = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const place = (heading) => [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.trim() === heading);
  const values = (at) => rows().map((row) => row.cells[at]).filter((cell) => cell && cell.dataset.v).map((cell) => Number(cell.dataset.v));
  const rising = (list) => list.every((value, index) => index === 0 || list[index - 1] <= value);
  check("wide", () => document.documentElement.scrollWidth > innerWidth + 1);
  check("rows", () => rows().length);
  check("sorted", () => {
    const at = place("p50");
    const button = table.tHead.rows[0].cells[at].querySelector("button");
    button.click();
    const up = rising(values(at)) && table.tHead.rows[0].cells[at].getAttribute("aria-sort") === "ascending";
    button.click();
    return up && rising(values(at).reverse()) && values(at).length > 1;
  });
  check("filtered", () => {
    const search = document.querySelector(".tools input[type=search]");
    if (!search) return null;
    const all = rows().length;
    search.value = "offline";
    search.dispatchEvent(new Event("input"));
    const left = rows();
    const right = left.length > 0 && left.length < all && left.every((row) => row.textContent.includes("offline"));
    const told = document.querySelector("[role=status]").textContent;
    [...document.querySelectorAll(".tools button")].find((button) => button.textContent === "Show all").click();
    return right && told.includes(`${left.length} of ${all}`) && rows().length === all;
  });
  // The script writes numbers as the page does.
  check("numbers", () => {
    const { data, entry, shownAs } = window.tare;
    const wrong = [];
    const headings = [...table.tHead.rows[0].cells];
    for (const row of rows()) {
      headings.forEach((heading, at) => {
        const metric = data.metrics.find((one) => one.name === heading.title);
        const cell = row.cells[at];
        if (!metric || !cell || !cell.dataset.v) return;
        const found = entry(metric, Number(row.dataset.c));
        if (found.value === undefined) return;
        const text = cell.firstChild.textContent;
        const shown = found.class || shownAs(metric.name, found.value, metric.unit);
        if (text !== shown) wrong.push(`${text} is ${shown}`);
      });
    }
    return wrong;
  });
  check("linked", () => {
    const box = table.querySelector("tbody input[type=checkbox]");
    box.click();
    const row = box.closest("tr");
    const on = row.classList.contains("selected") && window.tare.selected.has(Number(row.dataset.c));
    window.tare.select(Number(row.dataset.c), false);
    return on && !row.classList.contains("selected") && !box.checked;
  });
  check("details", () => {
    table.querySelector("tbody button.plain").click();
    const dialog = document.querySelector("dialog[open]");
    const found = dialog.querySelectorAll("tbody tr").length;
    dialog.close();
    return found;
  });
  check("columns", () => {
    const choice = document.querySelector("select[aria-label=Columns]");
    if (!choice) return null;
    choice.value = "latency";
    choice.dispatchEvent(new Event("change"));
    const found = place("p99") > 0 && values(place("p50")).length > 0;
    choice.value = "";
    choice.dispatchEvent(new Event("change"));
    return found;
  });
  check("charts", () => window.tare.figures.map((panel) => {
    panel.box.closest("figure").hidden = false;
    window.tare.draw(panel);
    return [panel.chart.title, panel.box.querySelectorAll("svg path").length];
  }));
  check("onScreen", () => {
    // Of each wanted column, whether its first cell is within the window without scrolling.
    const first = rows()[0];
    return ["p50", "p99", "throughput"].filter((heading) => {
      const cell = first.cells[place(heading)];
      return cell && cell.getBoundingClientRect().right <= innerWidth + 1;
    });
  });
  check("contrast", () => {
    const parse = (text) => text.match(/[\d.]+/g).map(Number);
    const light = (channels) => channels.slice(0, 3).map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
      .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
    const behind = (element) => {
      for (let one = element; one; one = one.parentElement) {
        const [r, g, b, a = 1] = parse(getComputedStyle(one).backgroundColor);
        if (a > 0) return [r, g, b];
      }
      return matchMedia("(prefers-color-scheme: dark)").matches ? [17, 20, 24] : [255, 255, 255];
    };
    const poor = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.textContent.trim() || element.closest("script, svg, option") || !element.getClientRects().length) continue;
      const style = getComputedStyle(element);
      const [, , , alpha = 1] = parse(style.color);
      if (alpha === 0) continue;
      const [one, other] = [light(parse(style.color)), light(behind(element))];
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      if (ratio < 4.5) poor.add(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
    }
    return [...poor];
  });
  check("unnamed", () => [...document.querySelectorAll("button, input, select, a[href]")]
    .filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label") || one.title || one.closest("label"))).length);
  seen.fetched = performance.getEntriesByType("resource").length;
  document.title = `probe ${JSON.stringify(seen)}`;
});

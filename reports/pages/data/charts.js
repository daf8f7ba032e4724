// The charts of a page: picture, legend and data table of each.
//   infoptCharts.update(id, chart)   another chart (charts.chart_dict) in the place of `id`
//   infoptCharts.written(value, unit), infoptCharts.rows(chart)   as Python writes them (written.js)
(() => {
  "use strict";

  const charts = window.infoptCharts;
  const { ink, writtenAt, looks, near, STEPS } = charts;
  const SVG = "http://www.w3.org/2000/svg";
  const PAPER = 640; // pixels of a picture in print: paper is as wide as it is, whatever the window

  function element(name, words, kind) {
    const made = document.createElement(name);
    if (words) made.textContent = words;
    if (kind) made.className = kind;
    return made;
  }

  function drawing(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // ---- legend

  const POINTS = { circle: "M14 2a5 5 0 1 0 .01 0z", diamond: "M14 0l7 7-7 7-7-7z", triangle: "M14 1l6 11H8z",
    rect: "M9 2h10v10H9z" };

  // A mark as it looks in the picture.
  function swatch(mark, { colour, dash, symbol }) {
    const fill = ink(colour), stroke = fill;
    const shapes = {
      line: () => [drawing("line", { x1: 1, x2: 27, y1: 7, y2: 7, stroke, "stroke-width": 2,
        "stroke-dasharray": dash.join(" ") || "none" })],
      band: () => [drawing("rect", { x: 1, y: 2, width: 26, height: 10, fill, stroke, "fill-opacity": 0.25 })],
      points: () => [drawing("path", { d: POINTS[symbol], fill })],
      frame: () => [drawing("rect", { x: 5, y: 2, width: 18, height: 10, fill: "none", stroke, "stroke-width": 3 })],
      range: () => [drawing("rect", { x: 1, y: 4, width: 26, height: 6, rx: 3, fill, "fill-opacity": 0.35 }),
        drawing("circle", { cx: 14, cy: 7, r: 4, fill })],
      box: () => [drawing("rect", { x: 4, y: 1, width: 20, height: 12, rx: 2, fill })],
    };
    const picture = drawing("svg", { width: 28, height: 14, viewBox: "0 0 28 14", "aria-hidden": "true" });
    picture.append(...(shapes[mark] ?? shapes.box)());
    return picture;
  }

  // Names of series and of straight lines; of a map what its colours mean.
  function legend(chart) {
    const list = element("ul", "", "legend"), look = looks(chart), heat = chart.kind === "heat";
    const add = (picture, words) => {
      const item = element("li");
      item.append(picture, words);
      list.append(item);
    };
    if (chart.series.some(charts.byValue)) steps(chart, add);
    const several = heat || chart.series.length > 1 || chart.lines.length > 0;
    chart.series.forEach((series, i) => {
      if (!several || charts.byValue(series)) return;
      if (heat && series.mark === "cell") add(swatch("box", { colour: charts.cellOf(series.role) }), series.name);
      else add(swatch(heat ? "frame" : series.mark, look[i]), series.name);
    });
    for (const line of chart.lines) {
      const off = near(chart, line) ? "" : " (beyond this picture)";
      add(swatch("line", { colour: line.role, dash: charts.DASHES[line.role] ?? [] }), line.label + off);
    }
    return list;
  }

  // What each colour of a map means.
  function steps(chart, add) {
    const values = chart.values ?? chart.y, [least, most] = charts.spanOf(chart);
    const colour = (i) => swatch("box", { colour: `heat-${i % STEPS}` });
    const log = values.scale === "log";
    const at = (part) => (log ? least * (most / least) ** part : least + (most - least) * part);
    const edge = (part) => writtenAt(at(part), values);
    if (values.scale === "category") values.categories.forEach((name, i) => add(colour(i), name));
    else if (least === most) add(colour(0), writtenAt(least, values));
    else for (let i = 0; i < STEPS; i += 1) add(colour(i), `${edge(i / STEPS)} to ${edge((i + 1) / STEPS)}`);
  }

  // ---- picture and table

  const shown = new Map(); // id -> {chart, figure, plot, legend, picture, width, stale}
  let printing = false;

  function heightOf(chart, width) {
    if (chart.kind === "lines") return Math.max(240, Math.min(360, width * 0.62));
    const heat = chart.kind === "heat", axis = heat ? chart.y : chart.x, count = new Map();
    for (const { mark, points } of chart.series) {
      for (const point of points) {
        const name = point[heat ? 1 : 0];
        count.set(name, (count.get(name) ?? 0) + (["bar", "range"].includes(mark) ? 1 : 0));
      }
    }
    const rows = axis.categories.length || count.size;
    return rows * Math.max(printing && heat ? 24 : 30, ...[...count.values()].map((lanes) => lanes * 24)) + 84;
  }

  function draw(place, width) {
    const height = heightOf(place.chart, width);
    place.plot.style.height = `${height}px`;
    if (!place.picture) place.picture = window.echarts.init(place.plot, null, { renderer: "svg", width, height });
    else if (width !== place.width || height !== place.height) place.picture.resize({ width, height, silent: true });
    place.picture.setOption(charts.optionOf(place.chart, width), { notMerge: true });
    Object.assign(place, { width, height });
  }

  // What is not visible (in a part that is closed) is drawn when it is.
  function fit(place) {
    const width = place.plot.clientWidth;
    if (!printing && width && width !== place.width) draw(place, width);
  }

  function fillTable(place) {
    const table = place.figure.querySelector("details table"), [columns, rows] = charts.rows(place.chart);
    const line = (words, name) => {
      const row = element("tr");
      row.append(...words.map((one, i) => {
        const cell = element(name, one, i ? "number" : "");
        if (name === "th") cell.scope = "col";
        return cell;
      }));
      return row;
    };
    table.tHead.replaceChildren(line(columns, "th"));
    table.tBodies[0].replaceChildren(...rows.map((row) => line(row, "td")));
    place.stale = false;
  }

  function add(chart) {
    const figure = document.getElementById(chart.id), plot = figure.querySelector(".plot");
    const place = { chart, figure, plot, legend: legend(chart), picture: null, width: 0, height: 0, stale: false };
    shown.set(chart.id, place);
    plot.after(place.legend);
    figure.querySelector("details").addEventListener("toggle", () => { if (place.stale) fillTable(place); });
    fit(place);
    new ResizeObserver(() => fit(place)).observe(plot);
  }

  function update(id, chart) {
    const place = shown.get(id), words = legend(chart);
    place.chart = chart;
    if (place.width) draw(place, place.width);
    if (!words.isEqualNode(place.legend)) {
      place.legend.replaceWith(words);
      place.legend = words;
    }
    place.plot.setAttribute("aria-label", `${chart.title}. ${chart.description}`);
    place.figure.querySelector("figcaption").replaceChildren(element("strong", chart.title), ` ${chart.description}`);
    place.stale = true;
    if (place.figure.querySelector("details").open) fillTable(place);
  }

  window.addEventListener("beforeprint", () => {
    printing = true;
    for (const place of shown.values()) draw(place, PAPER);
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    for (const place of shown.values()) fit(place);
  });

  const all = JSON.parse(document.getElementById("infopt-charts").textContent);
  Object.assign(charts, { update, all });
  all.forEach(add);
  document.documentElement.dataset.charts = "drawn";
})();

// Draws the charts of a page (charts.py says what they hold) and what stands beside each picture: legend, data table.
//   infoptCharts.update(id, chart)   another chart in the place of `id`: picture, words and table
//   infoptCharts.written(value, unit), infoptCharts.rows(chart)   as Python writes them (written.js)
(() => {
  "use strict";

  const charts = window.infoptCharts;
  charts.DASHES = { floor: [6, 4], target: [2, 3], limit: [], chosen: [8, 3, 2, 3], other: [] };
  charts.MARKS = { good: "✓ ", bad: "✗ ", open: "? " };
  for (const role of ["estimate", "floor", "interval", "target", "measured", "limit", "chosen", "other"]) charts.MARKS[role] = "";
  const { FONT, ink, place, tick, writtenAt, cut, widthOf } = charts;
  const SYMBOLS = { chosen: "diamond", bad: "triangle", open: "rect", limit: "rect", floor: "emptyCircle" };
  const ALIKE = new Set(["good", "bad", "open", "interval", "target", "limit", "chosen"]); // never told apart by colour
  const MORE = 5, MORE_DASHES = [[], [8, 4], [3, 3], [10, 3, 2, 3], [1, 3]], STEPS = 6;
  const HORIZONTAL = new Set(["waterfall", "bars", "ranges"]);

  // The first of a role has the colour of the role; the next ones differ in colour and dash.
  function looks(chart) {
    const seen = new Map();
    return chart.series.map((series) => {
      const key = `${series.role} ${series.mark}`, nth = ALIKE.has(series.role) ? 0 : seen.get(key) ?? 0;
      seen.set(key, nth + 1);
      const dash = nth ? MORE_DASHES[nth % MORE_DASHES.length] : charts.DASHES[series.role] ?? [];
      return { colour: nth ? `more-${(nth - 1) % MORE + 1}` : series.role, dash, symbol: SYMBOLS[series.role] ?? "circle" };
    });
  }

  // The axis with its categories in order and, on a log scale, its ends in the axis' unit.
  function prepared(axis, values) {
    if (axis.scale === "category") {
      const names = axis.categories.length ? axis.categories : [...new Set(values.map(String))];
      return { ...axis, categories: names };
    }
    if (axis.scale !== "log") return { ...axis, low: 0 };
    const numbers = values.map((value) => place(value, axis)).filter((number) => number !== null);
    if (!numbers.length) return { ...axis, scale: "linear", low: 0 };
    const least = Math.min(...numbers), most = Math.max(...numbers);
    const pad = least === most ? 2 : (most / least) ** 0.04;
    return { ...axis, low: least / pad, high: most * pad, from: charts.valueAt(least / pad, axis) };
  }

  // Values that a chart shows on an axis, "x" or "y", lines that are near enough included.
  function valuesOn(chart, name, lines) {
    const from = (point, mark) => (name === "x" ? [point[0]] : mark === "points" || mark === "cell" ? [point[1]] : point.slice(1));
    return [...chart.series.flatMap((series) => series.points.flatMap((point) => from(point, series.mark))),
      ...lines.filter((line) => line.axis === name).map((line) => line.value)].filter((value) => value !== null);
  }

  // A line so far off that the curves would be flat is left to the legend.
  function near(chart, line) {
    const axis = line.axis === "x" ? chart.x : chart.y;
    const numbers = valuesOn(chart, line.axis, []).filter((value) => typeof value === "number");
    if (axis.scale === "category" || !numbers.length) return axis.scale === "category" ? false : true;
    const most = Math.max(...numbers), least = Math.min(...numbers);
    if (axis.scale !== "log") return line.value <= Math.max(most, 0) * 5 || most <= 0;
    return line.value > 0 && line.value <= most * 100 && line.value >= least / 100;
  }

  function logTicks(axis, room) {
    const { low, high } = axis, ticks = [];
    if (["count", "tokens"].includes(axis.unit) && low >= 0.5 && high / low <= 2 ** 16) {
      for (let value = 1; value <= high; value *= 2) if (value >= low) ticks.push(value);
    } else {
      const decades = Math.log10(high / low), steps = decades > 3.5 ? [1] : decades > 1.3 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
        ticks.push(...steps.map((step) => Number(`${step}e${power}`)).filter((value) => value >= low && value <= high));
      }
    }
    const every = Math.max(1, Math.ceil(ticks.length / room));
    return ticks.filter((_, i) => i % every === 0);
  }

  function axisOption(axis, width, sideways) {
    const label = { color: ink("soft"), fontSize: 12, hideOverlap: true };
    const base = { name: axis.label, nameTextStyle: { color: ink("ink"), fontSize: 12 }, axisLine: { show: true, lineStyle: { color: ink("axis") } },
      axisTick: { show: true, lineStyle: { color: ink("axis") } }, splitLine: { show: axis.scale !== "category", lineStyle: { color: ink("line") } } };
    if (axis.scale === "category") {
      const room = sideways ? Math.min(width * 0.38, 220) : Math.max(48, Math.min(110, width * 0.2));
      return { ...base, type: "category", data: axis.categories, axisTick: { show: false },
        axisLabel: { ...label, color: ink("ink"), interval: sideways ? 0 : "auto", formatter: (name) => cut(name, room) } };
    }
    const formatter = (number) => tick(number, axis), room = sideways ? 7 : Math.max(3, Math.floor(width / 75));
    if (axis.scale !== "log") return { ...base, type: "value", splitNumber: Math.min(room, 6), axisLabel: { ...label, formatter } };
    const customValues = logTicks(axis, room);
    return { ...base, type: "log", min: axis.low, max: axis.high, axisTick: { ...base.axisTick, customValues }, axisLabel: { ...label, formatter, customValues } };
  }

  const cellOf = (role) => (["good", "bad", "open", "other"].includes(role) ? `${role}-cell` : "cell");

  // Fills of a map: by role where series have one of their own, else by value in steps.
  function filling(chart, numbers, look) {
    const values = chart.values ?? chart.y;
    const byValue = (value) => {
      if (typeof value === "string") return Math.max(0, values.categories.indexOf(value)) % STEPS;
      const at = (number) => (values.scale === "log" ? Math.log(number) : number);
      const least = at(numbers[0]), most = at(numbers[1]);
      return most > least ? Math.min(STEPS - 1, Math.floor((at(value) - least) / (most - least) * STEPS)) : 0;
    };
    return (series, value) => {
      if (series.role !== "estimate") {
        return { fill: cellOf(series.role), over: "ink" };
      }
      const step = byValue(value);
      return { fill: `heat-${step}`, over: step < STEPS / 2 ? "heat-ink" : "heat-ink-far" };
    };
  }

  // Series of bars that share categories, each of which needs a lane of its own.
  function lanesOf(chart) {
    const marked = chart.series.filter((series) => ["bar", "range"].includes(series.mark)), seen = new Set();
    return marked.some((series) => series.points.some(([name]) => seen.size === seen.add(name).size)) ? marked : [];
  }

  function seriesOptions(chart, look, lines, axes) {
    const labels = [], drawn = [], lanes = lanesOf(chart);
    const numbers = chart.kind === "heat" ? spanOf(chart) : null, fillOf = numbers && filling(chart, numbers, look);
    chart.series.forEach((series, i) => {
      const { colour, dash, symbol } = look[i];
      if (series.mark === "band") drawn.push(charts.band(series, chart, colour));
      else if (series.mark === "bar") drawn.push(charts.bars(series, chart, colour, Math.max(0, lanes.indexOf(series)), lanes.length || 1));
      else if (series.mark === "part") drawn.push(charts.bars(series, chart, colour, 0, 1));
      else if (series.mark === "range") drawn.push(charts.ranges(series, chart, colour, Math.max(0, lanes.indexOf(series)), lanes.length || 1));
      else if (series.mark === "cell") drawn.push(charts.cells(series, chart, fillOf));
      else {
        const data = series.points.map(([x, y]) => [place(x, chart.x), place(y, chart.y)]);
        const lone = series.mark === "points" || data.length < 2;
        const shape = { name: series.name, data: data.map((pair) => pair.map((n) => n ?? "-")), animation: false, z: 4, emphasis: { disabled: true },
          symbol: symbol, symbolSize: series.role === "chosen" ? 13 : 8, itemStyle: { color: ink(colour), borderColor: ink("paper"), borderWidth: 1 } };
        if (series.mark === "points") drawn.push({ ...shape, type: "scatter", z: series.role === "chosen" ? 5 : 4 });
        else drawn.push({ ...shape, type: "line", showSymbol: lone, lineStyle: { color: ink(colour), width: 2, type: dash.length ? dash : "solid" } });
        series.points.forEach((point, n) => {
          if (typeof point[2] === "string") labels.push({ point: data[n], words: cut(point[2], 160), role: series.role });
        });
      }
    });
    drawn.push(charts.overlay(chart, axes, lines, labels));
    return drawn;
  }

  // Least and greatest number among the cells that are coloured by value.
  function spanOf(chart) {
    const numbers = chart.series.filter((series) => series.mark === "cell" && series.role === "estimate")
      .flatMap((series) => series.points.map((point) => point[2])).filter((value) => typeof value === "number");
    return numbers.length ? [Math.min(...numbers), Math.max(...numbers)] : [0, 0];
  }

  function optionOf(given, width) {
    const sideways = HORIZONTAL.has(given.kind), close = given.lines.filter((line) => near(given, line));
    const chart = { ...given, x: prepared(given.x, valuesOn(given, "x", close)), y: prepared(given.y, valuesOn(given, "y", close)) };
    const axes = sideways ? { along: chart.y, upward: chart.x } : { along: chart.x, upward: chart.y };
    const lines = close.map((line) => ({ ...line, at: place(line.value, line.axis === "x" ? chart.x : chart.y),
      across: (line.axis === "x") === sideways ? "horizontal" : "vertical" })).filter((line) => line.at !== null);
    const along = { ...axisOption(axes.along, width, false), nameLocation: "middle", nameGap: 8 };
    const upward = { ...axisOption(axes.upward, width, true), nameLocation: "end", nameGap: 10 };
    upward.nameTextStyle = { ...upward.nameTextStyle, align: "left", padding: [0, 0, 0, -2] };
    if (sideways) Object.assign(upward, { name: "", inverse: true });
    const curves = chart.series.some((series) => ["line", "band"].includes(series.mark));
    const series = seriesOptions(chart, looks(chart), lines, axes);
    // Lines belong to the picture: axes reach them.
    const last = series[series.length - 1];
    last.data = [[NaN, NaN], ...lines.map((line) => (line.across === "vertical" ? [line.at, NaN] : [NaN, line.at]))];
    return {
      animation: false, textStyle: { fontFamily: "system-ui, sans-serif", fontSize: 12 },
      grid: { left: 6, right: 14, top: upward.name ? 30 : 8, bottom: 6, outerBoundsMode: "same", outerBoundsContain: "all" },
      xAxis: along, yAxis: upward, series,
      tooltip: { trigger: curves ? "axis" : "item", confine: true, transitionDuration: 0, enterable: false, className: "tip",
        axisPointer: { type: "line", animation: false, lineStyle: { color: ink("axis"), type: "solid" } },
        formatter: (found) => tip(chart, Array.isArray(found) ? found[0] : found, Array.isArray(found)) },
    };
  }

  function element(name, words, kind) {
    const made = document.createElement(name);
    if (words !== undefined) made.textContent = words;
    if (kind) made.className = kind;
    return made;
  }

  // What the pointer is on: at an x of curves, or one mark.
  function tip(chart, found, curves) {
    const box = element("div"), rows = [];
    const add = (name, words) => rows.push([name, words]);
    if (curves) {
      const at = found.axisValue, x = chart.x, number = x.scale === "category" ? null : Number(at);
      box.append(element("strong", `${x.label}: ${number === null ? at : writtenAt(charts.valueAt(number, x), x)}`));
      for (const series of chart.series) {
        const point = nearest(series.points, x, number ?? x.categories.indexOf(at));
        if (point) add(series.name, valuesOf(point, series.mark).map((value) => writtenAt(value, chart.y)).join(" to "));
      }
    } else {
      const series = chart.series[found.seriesIndex];
      if (!series) return "";
      const point = series.points[found.dataIndex];
      const label = typeof point[2] === "string" && series.mark === "points" ? `${point[2]}, ${series.name}` : series.name;
      box.append(element("strong", label));
      add(chart.x.label, writtenAt(point[0], chart.x));
      if (series.mark === "cell") add(chart.y.label, writtenAt(point[1], chart.y));
      const axis = series.mark === "cell" ? chart.values ?? chart.y : chart.y;
      if (series.mark === "part") add(axis.label, writtenAt(point[2] - point[1], axis));
      else if (series.mark === "range") {
        add(axis.label, writtenAt(point[2], axis));
        add("interval", `${writtenAt(point[1], axis)} to ${writtenAt(point[3], axis)}`);
      } else add(axis.label, writtenAt(series.mark === "cell" ? point[2] : point[1], axis));
    }
    for (const [name, words] of rows) {
      const row = element("div");
      row.append(`${name}: `, element("b", words));
      box.append(row);
    }
    return box;
  }

  const valuesOf = (point, mark) => (mark === "band" ? point.slice(1, 3) : [point[1]]);

  // The point of a series at this place, where it has one: nearer than half the way to its next one.
  function nearest(points, axis, at) {
    const far = (point) => {
      const number = place(point[0], axis);
      if (number === null) return Infinity;
      return axis.scale === "log" ? Math.abs(Math.log(number / at)) : Math.abs(number - at);
    };
    const best = points.reduce((found, point) => (found === null || far(point) < far(found) ? point : found), null);
    if (best === null) return null;
    const span = axis.scale === "log" ? Math.log(axis.high / axis.low) : axis.scale === "category" ? 1
      : Math.max(...points.map((point) => place(point[0], axis) ?? 0));
    return far(best) <= span * 0.02 ? best : null;
  }

  const SVG = "http://www.w3.org/2000/svg";
  function drawn(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function swatch(mark, { colour, dash, symbol }, role) {
    const picture = drawn("svg", { width: 28, height: 14, viewBox: "0 0 28 14", "aria-hidden": "true" }), fill = ink(colour);
    const line = () => drawn("line", { x1: 1, x2: 27, y1: 7, y2: 7, stroke: fill, "stroke-width": 2, "stroke-dasharray": dash.join(" ") || "none" });
    if (mark === "line") picture.append(line());
    else if (mark === "band") picture.append(drawn("rect", { x: 1, y: 2, width: 26, height: 10, fill, "fill-opacity": 0.25, stroke: fill }));
    else if (mark === "points") {
      const shapes = { circle: "M14 2a5 5 0 1 0 .01 0z", diamond: "M14 0l7 7-7 7-7-7z", triangle: "M14 1l6 11H8z", rect: "M9 2h10v10H9z", emptyCircle: "M14 2a5 5 0 1 0 .01 0z" };
      picture.append(drawn("path", { d: shapes[symbol], fill: symbol === "emptyCircle" ? ink("paper") : fill, stroke: fill, "stroke-width": symbol === "emptyCircle" ? 2 : 0 }));
    } else if (mark === "range") picture.append(drawn("rect", { x: 1, y: 4, width: 26, height: 6, rx: 3, fill, "fill-opacity": 0.35 }), drawn("circle", { cx: 14, cy: 7, r: 4, fill }));
    else picture.append(drawn("rect", { x: 4, y: 1, width: 20, height: 12, rx: 2, fill: mark === "cell" && role !== "estimate" ? ink(cellOf(role)) : fill }));
    return picture;
  }

  // Names of series and lines; of a map the values of its steps.
  function legend(chart) {
    const list = element("ul", undefined, "legend"), look = looks(chart);
    const add = (picture, words) => { const item = element("li"); item.append(picture, words); list.append(item); };
    const stepped = chart.series.filter((series) => series.mark === "cell" && series.role === "estimate");
    if (stepped.length) steps(chart, add);
    const named = chart.series.filter((series) => !stepped.includes(series));
    if (chart.series.length > 1 || chart.lines.length || chart.kind === "heat") {
      named.forEach((series) => add(swatch(series.mark, look[chart.series.indexOf(series)], series.role), series.name));
    }
    for (const line of chart.lines) {
      const off = near(chart, line) ? "" : " (beyond this picture)";
      add(swatch("line", { colour: line.role, dash: charts.DASHES[line.role] ?? [], symbol: "" }, line.role), line.label + off);
    }
    return list;
  }

  function steps(chart, add) {
    const values = chart.values ?? chart.y, [least, most] = spanOf(chart), log = values.scale === "log";
    const box = (colour) => swatch("bar", { colour, dash: [], symbol: "" }, "estimate");
    if (values.scale === "category") { values.categories.forEach((name, i) => add(box(`heat-${i % STEPS}`), name)); return; }
    if (least === most) { add(box("heat-0"), writtenAt(least, values)); return; }
    const edge = (i) => (log ? least * (most / least) ** (i / STEPS) : least + (most - least) * i / STEPS);
    for (let i = 0; i < STEPS; i += 1) add(box(`heat-${i}`), `${tickOf(edge(i), values)} to ${tickOf(edge(i + 1), values)}`);
  }
  const tickOf = (value, axis) => writtenAt(value, axis);

  function heightOf(chart, width) {
    const names = (axis, values) => (axis.categories.length || new Set(values).size);
    if (chart.kind === "lines") return Math.max(240, Math.min(360, width * 0.62));
    const count = names(chart.kind === "heat" ? chart.y : chart.x, chart.series.flatMap((s) => s.points.map((p) => p[chart.kind === "heat" ? 1 : 0])));
    return count * Math.max(30, lanesOf(chart).length * 24) + (chart.kind === "heat" ? 90 : 60);
  }

  // ---- the page

  const shown = new Map(); // id -> what stands on the page

  function draw(place, width) {
    const { plot, chart } = place;
    plot.style.height = `${heightOf(chart, width)}px`;
    place.width = width;
    if (!place.picture) place.picture = window.echarts.init(plot, null, { renderer: "svg", width, height: plot.clientHeight });
    else place.picture.resize({ width, height: plot.clientHeight, silent: true });
    place.picture.setOption(optionOf(chart, width), { notMerge: true });
  }

  // A picture that is not visible (in a closed part) is drawn when it is.
  function fit(place) {
    const width = place.plot.clientWidth;
    if (width && width !== place.width) draw(place, width);
  }

  function tableOf(place) {
    const table = place.figure.querySelector("details table");
    if (!table) return;
    const [columns, rows] = charts.rows(place.chart);
    const line = (words, name) => { const row = element("tr"); row.append(...words.map((word, i) => {
      const cell = element(name, word, i ? "number" : "");
      if (name === "th") cell.scope = "col";
      return cell;
    })); return row; };
    table.tHead.replaceChildren(line(columns, "th"));
    table.tBodies[0].replaceChildren(...rows.map((row) => line(row, "td")));
    place.stale = false;
  }

  function add(chart) {
    const figure = document.getElementById(chart.id);
    const place = { chart, figure, plot: figure.querySelector(".plot"), picture: null, width: 0, stale: false };
    shown.set(chart.id, place);
    place.plot.after(place.legend = legend(chart));
    figure.querySelector("details")?.addEventListener("toggle", () => place.stale && tableOf(place));
    new ResizeObserver(() => { if (!printing) fit(place); }).observe(place.plot);
    fit(place);
  }

  function update(id, chart) {
    const place = shown.get(id);
    if (!place) throw new Error(`no chart ${id} on this page`);
    place.chart = chart;
    if (place.width) draw(place, place.width);
    const list = legend(chart);
    if (!list.isEqualNode(place.legend)) { place.legend.replaceWith(list); place.legend = list; }
    if (chart.description !== undefined) {
      place.plot.setAttribute("aria-label", `${chart.title}. ${chart.description}`);
      const caption = place.figure.querySelector("figcaption");
      caption.replaceChildren(element("strong", chart.title), ` ${chart.description}`);
    }
    place.stale = true;
    if (place.figure.querySelector("details")?.open) tableOf(place);
  }

  // Paper is as wide as paper is, whatever the window.
  const PAPER = 640;
  let printing = false;
  window.addEventListener("beforeprint", () => { printing = true; for (const place of shown.values()) draw(place, PAPER); });
  window.addEventListener("afterprint", () => { printing = false; for (const place of shown.values()) { place.width = 0; fit(place); } });

  const given = document.getElementById("infopt-charts");
  const all = given ? JSON.parse(given.textContent) : [];
  Object.assign(charts, { update, all });
  all.forEach(add);
  document.documentElement.dataset.charts = "drawn";
})();

// A chart (charts.py) in the words of the drawing library: axes, marks, tooltip.
(() => {
  "use strict";

  const charts = window.infoptCharts;
  const { ink, place, writtenAt, cut, byValue } = charts;
  const STEPS = 6; // colours of a map by value, light to dark
  const SYMBOLS = { chosen: "diamond", bad: "triangle", open: "rect", limit: "rect" };
  // These mean one thing each and are never told apart by colour; other roles differ from their second series on.
  const WHOLE = new Set(["count", "tokens"]); // half of one is no tick
  const ALIKE = new Set(["good", "bad", "open", "interval", "target", "limit", "chosen"]);
  const MORE = 5, MORE_DASHES = [[], [8, 4], [3, 3], [10, 3, 2, 3], [1, 3]];
  const SIDEWAYS = new Set(["waterfall", "bars", "ranges"]); // categories from top to bottom

  // Colour, dash and symbol of each series.
  function looks(chart) {
    const seen = new Map();
    return chart.series.map(({ role, mark }) => {
      const key = `${role} ${mark}`, nth = ALIKE.has(role) ? 0 : seen.get(key) ?? 0;
      seen.set(key, nth + 1);
      return {
        colour: nth ? `more-${(nth - 1) % MORE + 1}` : role,
        dash: nth ? MORE_DASHES[nth % MORE_DASHES.length] : charts.DASHES[role] ?? [],
        symbol: SYMBOLS[role] ?? "circle",
      };
    });
  }

  // ---- axes

  // Which numbers of a point stand on the y axis, by mark.
  const HEIGHTS = { line: [1], points: [1], bar: [1], cell: [1], band: [1, 2], part: [1, 2], range: [1, 2, 3] };
  function valuesOn(chart, name) {
    const from = (mark) => (name === "x" ? [0] : HEIGHTS[mark]);
    return chart.series.flatMap(({ mark, points }) => points.flatMap((point) => from(mark).map((i) => point[i])))
      .filter((value) => value !== null && value !== undefined);
  }

  // Whether a straight line is near enough to be drawn; one far off would flatten the curves: the legend has it.
  function near(chart, line) {
    const axis = chart[line.axis], numbers = valuesOn(chart, line.axis).filter((value) => typeof value === "number");
    if (axis.scale === "category") return false;
    if (!numbers.length) return true;
    const least = Math.min(...numbers), most = Math.max(...numbers);
    if (axis.scale === "log") return line.value > 0 && line.value <= most * 100 && line.value >= least / 100;
    return most <= 0 || line.value <= most * 5;
  }

  // A share that comes near to all of it ends there: no tick of 120%.
  const ending = (axis, most) => (axis.unit === "share" && most > 80 && most <= 100 ? { most: 100 } : {});

  // The axis with its categories in order or, on a log scale, its ends in the axis' unit.
  function prepared(chart, name, lines) {
    const axis = chart[name];
    const values = [...valuesOn(chart, name), ...lines.filter((line) => line.axis === name).map((line) => line.value)];
    if (axis.scale === "category") {
      return { ...axis, categories: axis.categories.length ? axis.categories : [...new Set(values.map(String))] };
    }
    const numbers = values.map((value) => place(value, axis)).filter((number) => number !== null);
    const least = Math.min(...numbers), most = Math.max(...numbers);
    if (axis.scale !== "log" || !numbers.length) return { ...axis, scale: "linear", ...ending(axis, most) };
    const pad = least === most ? 2 : (most / least) ** 0.04;
    return { ...axis, low: least / pad, high: most * pad, from: charts.valueAt(least / pad, axis) };
  }

  // Ticks are round: 20.0 ms is written 20 ms.
  function tick(number, axis) {
    const bare = (_, kept) => (kept ? `.${kept}` : "");
    return writtenAt(charts.valueAt(number, axis), axis).replace(/\.(\d*?)0+(?=\D|$)/, bare);
  }

  // Ticks of a log scale: the densest of the usual steps (for counts: of powers of two) whose labels have room on an
  // axis of this length; `sizeOf` a label is what it takes of it.
  function logTicks(axis, length, sizeOf) {
    const { low, high, unit } = axis, inside = (values) => values.filter((value) => value >= low && value <= high);
    const at = (value) => Math.log(value / low) / Math.log(high / low) * length;
    const clear = (value, i, all) => i === 0 || at(value) - at(all[i - 1]) >= (sizeOf(value) + sizeOf(all[i - 1])) / 2;
    const first = Math.floor(Math.log10(low)), decades = Math.ceil(Math.log10(high)) - first + 1;
    const powers = Array.from({ length: decades }, (_, i) => first + i);
    const by = (steps) => inside(powers.flatMap((power) => steps.map((step) => Number(`${step}e${power}`))));
    const twos = inside(Array.from({ length: 54 }, (_, i) => 2 ** i)), counted = ["count", "tokens"].includes(unit);
    const binary = counted && low >= 0.5 && high / low <= 2 ** 17, coarse = binary ? twos : by([1]);
    const usual = binary ? [] : [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3]].map(by);
    const thinned = coarse.map((_, i) => coarse.filter((__, k) => k % (i + 1) === 0));
    return [...usual, ...thinned].find((ticks) => ticks.length > 1 && ticks.every(clear)) ?? [low, high];
  }

  // `upright`: of the axis that runs upwards; `width` of the picture that the other one may have.
  function axisOption(axis, upright, width) {
    const label = { color: ink("soft"), fontSize: 12, hideOverlap: true }, line = { lineStyle: { color: ink("axis") } };
    const option = { name: axis.label, nameTextStyle: { color: ink("ink"), fontSize: 12 },
      axisLine: { show: true, ...line }, axisTick: { show: true, ...line },
      splitLine: { show: true, lineStyle: { color: ink("line") } } };
    if (axis.scale === "category") {
      const room = upright ? Math.min(width * 0.38, 240) : Math.max(48, Math.min(120, width * 0.2));
      const formatter = (name) => cut(name, room), interval = upright ? 0 : "auto";
      const axisLabel = { ...label, color: ink("ink"), interval, formatter };
      const hidden = { show: false };
      return { ...option, type: "category", data: axis.categories, axisTick: hidden, splitLine: hidden, axisLabel };
    }
    const formatter = (number) => tick(number, axis), most = upright ? 6 : Math.max(2, Math.floor(width / 80));
    if (axis.scale !== "log") {
      const minInterval = WHOLE.has(axis.unit) ? 1 : 0;
      const axisLabel = { ...label, formatter };
      return { ...option, type: "value", splitNumber: Math.min(most, 6), minInterval, max: axis.most, axisLabel };
    }
    const sizeOf = (number) => (upright ? 20 : charts.widthOf(formatter(number)) + 12);
    const customValues = logTicks(axis, upright ? 200 : width - 90, sizeOf);
    return { ...option, type: "log", min: axis.low, max: axis.high, axisTick: { ...option.axisTick, customValues },
      axisLabel: { ...label, hideOverlap: false, formatter, customValues } };
  }

  // ---- marks

  const cellOf = (role) => (["good", "bad", "open", "other"].includes(role) ? `${role}-cell` : "cell");

  // Least and greatest number among the cells that are coloured by value.
  function spanOf(chart) {
    const numbers = chart.series.filter(byValue).flatMap(({ points }) => points.map((point) => point[2]))
      .filter((value) => typeof value === "number");
    return numbers.length ? [Math.min(...numbers), Math.max(...numbers)] : [0, 0];
  }

  // Colour of a cell, and of the text on it: of the role, or by value where the role is estimate.
  function filling(chart) {
    const values = chart.values ?? chart.y, [least, most] = spanOf(chart);
    const at = values.scale === "log" ? Math.log : (value) => value;
    const stepOf = (value) => {
      if (typeof value === "string") return Math.max(0, values.categories.indexOf(value)) % STEPS;
      if (most === least) return 0;
      return Math.min(STEPS - 1, Math.floor((at(value) - at(least)) / (at(most) - at(least)) * STEPS));
    };
    return (series, value) => {
      if (!byValue(series)) return { fill: cellOf(series.role), over: "ink" };
      const step = stepOf(value);
      return { fill: `heat-${step}`, over: step < STEPS / 2 ? "heat-ink" : "heat-ink-far" };
    };
  }

  // A curve or points.
  function plain(series, chart, { colour, dash, symbol }) {
    const data = series.points.map(([x, y]) => [place(x, chart.x), place(y, chart.y)].map((number) => number ?? "-"));
    const chosen = series.role === "chosen";
    const shape = { name: series.name, data, animation: false, emphasis: { disabled: true }, symbol,
      symbolSize: chosen ? 13 : 8, itemStyle: { color: ink(colour), borderColor: ink("paper"), borderWidth: 1 } };
    if (series.mark === "points") return { ...shape, type: "scatter", z: chosen ? 5 : 4 };
    return { ...shape, type: "line", z: 4, showSymbol: data.length < 2,
      lineStyle: { color: ink(colour), width: 2, type: dash.length ? dash : "solid" } };
  }

  function markOption(series, chart, look, fillOf) {
    if (series.mark === "points" && chart.kind === "heat") return charts.frames(series, chart, look.colour);
    if (["line", "points"].includes(series.mark)) return plain(series, chart, look);
    if (series.mark === "cell") return charts.cells(series, chart, fillOf);
    const draw = { band: charts.band, bar: charts.bars, part: charts.bars, range: charts.ranges }[series.mark];
    return draw(series, chart, look.colour);
  }

  // Straight lines, labels of points, and the curves they keep clear of.
  function overlayOptions(chart, axes, lines) {
    const point = ([x, y]) => [place(x, chart.x), place(y, chart.y)], known = (pair) => !pair.includes(null);
    const origin = [axes.along, axes.upward].map((axis) => axis.low ?? 0);
    const of = (mark) => (chart.kind === "heat" ? [] : chart.series.filter((series) => series.mark === mark));
    const labels = of("points").flatMap(({ points }) => points.map((one) => ({ point: point(one),
      words: typeof one[2] === "string" ? cut(one[2], 180) : "" }))).filter((label) => known(label.point));
    const curves = of("line").map(({ points }) => points.map(point).filter(known));
    return charts.overlay({ lines, labels, curves, origin, strip: stripOf(chart, lines) });
  }

  // Labels of straight lines stand over bars, not on them.
  const stripOf = (chart, lines) => (SIDEWAYS.has(chart.kind) ? Math.min(3, lines.length) * 16 : 0);

  function optionOf(given, width) {
    const close = given.lines.filter((line) => near(given, line)), sideways = SIDEWAYS.has(given.kind);
    const chart = { ...given, x: prepared(given, "x", close), y: prepared(given, "y", close) };
    const axes = sideways ? { along: chart.y, upward: chart.x } : { along: chart.x, upward: chart.y };
    const placed = ({ axis, value }) => ({ at: place(value, chart[axis]), vertical: (axis === "x") !== sideways });
    const lines = close.map((line) => ({ ...line, ...placed(line) })).filter((line) => line.at !== null);
    const across = sideways ? width * 0.6 : width; // names take the rest
    const xAxis = { ...axisOption(axes.along, false, across), nameLocation: "middle", nameGap: 26 };
    const yAxis = { ...axisOption(axes.upward, true, width), nameLocation: "end", nameGap: 12 };
    Object.assign(yAxis.nameTextStyle, { align: "left", padding: [0, 0, 0, -2] });
    if (sideways) Object.assign(yAxis, { name: "", inverse: true });
    if (sideways && chart.kind !== "waterfall") xAxis.boundaryGap = ["0%", "14%"]; // room for the figure behind a bar
    const look = looks(chart), fillOf = filling(chart), strip = stripOf(chart, lines);
    const series = chart.series.map((one, i) => markOption(one, chart, look[i], fillOf));
    const curves = chart.series.some(({ mark }) => ["line", "band"].includes(mark));
    return {
      animation: false, textStyle: { fontFamily: "system-ui, sans-serif", fontSize: 12 }, xAxis, yAxis,
      series: [...series, ...overlayOptions(chart, axes, lines)],
      grid: { left: 6, right: 16, top: (yAxis.name ? 30 : 8) + strip, bottom: 6,
        outerBoundsMode: "same", outerBoundsContain: "all" },
      tooltip: { trigger: curves ? "axis" : "item", confine: true, transitionDuration: 0, className: "tip",
        backgroundColor: ink("field"), borderColor: ink("axis"), textStyle: { color: ink("ink"), fontSize: 13 },
        axisPointer: { type: "line", animation: false, lineStyle: { color: ink("axis"), type: "solid" } },
        formatter: (found) => (curves ? curveTip(chart, found[0].axisValue) : markTip(chart, found)) },
    };
  }

  // ---- tooltip, as elements: no text of a file is ever read as HTML

  function box(head, rows) {
    const made = document.createElement("div"), strong = document.createElement("strong");
    strong.textContent = head;
    made.append(strong);
    for (const [name, words] of rows) {
      const row = document.createElement("div"), value = document.createElement("b");
      value.textContent = words;
      row.append(`${name}: `, value);
      made.append(row);
    }
    return made;
  }

  // Every curve at this x.
  function curveTip(chart, at) {
    const { x, y } = chart, number = x.scale === "category" ? x.categories.indexOf(at) : Number(at);
    const head = x.scale === "category" ? at : writtenAt(charts.valueAt(number, x), x);
    const rows = chart.series.flatMap((series) => {
      const point = nearest(series.points, x, number);
      if (!point) return [];
      const words = HEIGHTS[series.mark].map((i) => writtenAt(point[i], y)).join(" to ");
      return [[series.mark === "points" && point[2] ? `${series.name}, ${point[2]}` : series.name, words]];
    });
    return box(`${x.label}: ${head}`, rows);
  }

  // The point of a series at this place, where it has one close by.
  function nearest(points, axis, at) {
    const measure = axis.scale === "log" ? Math.log : (number) => number;
    const far = (point) => {
      const number = place(point[0], axis);
      return number === null ? Infinity : Math.abs(measure(number) - measure(at));
    };
    const best = points.reduce((found, point) => (found === null || far(point) < far(found) ? point : found), null);
    const span = { log: () => Math.log(axis.high / axis.low), category: () => 1,
      linear: () => Math.max(...points.map((point) => place(point[0], axis) ?? 0)) }[axis.scale]();
    return best && far(best) <= span * 0.02 ? best : null;
  }

  // One mark: its names and its values.
  function markTip(chart, { seriesIndex, dataIndex }) {
    const series = chart.series[seriesIndex], point = series?.points[dataIndex];
    if (!point) return "";
    const { y } = chart, rows = [[chart.x.label, writtenAt(point[0], chart.x)]];
    const row = (value, axis = y) => [axis.label, writtenAt(value, axis)];
    const found = {
      bar: () => [row(point[1])],
      points: () => [row(point[1])],
      part: () => [row(point[2] - point[1])],
      range: () => [row(point[2]), ["interval", `${writtenAt(point[1], y)} to ${writtenAt(point[3], y)}`]],
      cell: () => [row(point[1]), row(point[2], chart.values ?? y)],
    };
    rows.push(...found[series.mark]());
    return box(series.mark === "points" && point[2] ? `${point[2]}, ${series.name}` : series.name, rows);
  }

  Object.assign(charts, { STEPS, SIDEWAYS, looks, near, optionOf, cellOf, spanOf });
})();

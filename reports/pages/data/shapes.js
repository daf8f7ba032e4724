// Shapes that the library does not bring: bands, bars, parts, ranges, cells, straight lines, and labels that keep clear
// of each other. Colours are CSS variables (page.css): light, dark and paper need no second drawing.
(() => {
  "use strict";

  const charts = window.infoptCharts;
  const FONT = "12px system-ui, sans-serif", HEIGHT = 16; // of a line of text
  const SCALES = { bytes: 2 ** 30, share: 0.01 }; // base units in one unit of the axis: round ticks are round in print
  // Verdicts are told apart without colour, too.
  const MARKS = { good: "✓ ", bad: "✗ ", open: "? " };
  const DASHES = { floor: [6, 4], target: [2, 3], chosen: [8, 3, 2, 3] };
  const ink = (name) => `var(--${name})`;

  const pen = document.createElement("canvas").getContext("2d"), widths = new Map();
  pen.font = FONT;
  function widthOf(words) {
    if (!widths.has(words)) widths.set(words, pen.measureText(words).width);
    return widths.get(words);
  }

  // A text's head, with an ellipsis where it is wider than `width`.
  function cut(words, width) {
    if (widthOf(words) <= width) return words;
    let kept = words.length;
    while (kept > 1 && widthOf(`${words.slice(0, kept)}…`) > width) kept -= 1;
    return `${words.slice(0, kept).trimEnd()}…`;
  }

  // Where a value stands on an axis: the place of its category, or its number in the axis' unit; null where nowhere.
  function place(value, axis) {
    if (axis.scale === "category") {
      const at = axis.categories.indexOf(String(value));
      return at < 0 ? null : at;
    }
    if (typeof value !== "number" || (axis.scale === "log" && value <= 0)) return null;
    return value / (SCALES[axis.unit] ?? 1);
  }
  const valueAt = (number, axis) => number * (SCALES[axis.unit] ?? 1);
  const writtenAt = (value, axis) => charts.written(value, axis.unit);
  const marked = (series, value, axis) => (MARKS[series.role] ?? "") + writtenAt(value, axis);
  // Cells are coloured by their value where the role says no more than that.
  const byValue = ({ role, mark }) => mark === "cell" && role === "estimate";

  // ---- text and the room it takes

  // A text; `halo` keeps it legible over lines.
  function text(x, y, words, { fill = "ink", align = "left", halo = true } = {}) {
    const style = { x, y, text: words, font: FONT, fill: ink(fill), align, verticalAlign: "middle" };
    if (halo) Object.assign(style, { stroke: ink("paper"), lineWidth: 3 });
    return { type: "text", style, silent: true, z2: 10 };
  }

  const apart = (one, other) => one.x + one.width <= other.x || other.x + other.width <= one.x
    || one.y + one.height <= other.y || other.y + other.height <= one.y;
  const within = (box, frame) => box.x >= frame.x && box.y >= frame.y
    && box.x + box.width <= frame.x + frame.width + 1 && box.y + box.height <= frame.y + frame.height + 1;

  // The boxes of one picture that labels have taken, and those that curves run through.
  class Room {
    constructor(frame) { Object.assign(this, { frame, taken: [], crossed: [] }); }

    // The first wanted box that lies inside and free, if possible off the curves.
    put(wanted) {
      const free = wanted.filter((box) => within(box, this.frame) && this.taken.every((other) => apart(box, other)));
      const found = free.find((box) => this.crossed.every((other) => apart(box, other))) ?? free[0];
      if (found) this.taken.push(found);
      return found;
    }

    // A curve through these points.
    cross(points) {
      for (let i = 1; i < points.length; i += 1) {
        const [x1, y1] = points[i - 1], [x2, y2] = points[i];
        const steps = Math.ceil(Math.hypot(x2 - x1, y2 - y1) / 8);
        for (let k = 0; k < steps; k += 1) {
          const x = x1 + (x2 - x1) * k / steps, y = y1 + (y2 - y1) * k / steps;
          this.crossed.push({ x: x - 1, y: y - 1, width: 2, height: 2 });
        }
      }
    }
  }

  const boxAt = (x, y, words) => ({ x, y, width: widthOf(words) + 4, height: HEIGHT, words });
  const labelIn = (box, fill) => text(box.x + 2, box.y + HEIGHT / 2, box.words, { fill });

  const custom = (name, data, renderItem, more) => (
    { type: "custom", name, data, renderItem, animation: false, z: 3, ...more });

  // ---- straight lines and labels

  function acrossShape({ role, vertical }, at, frame) {
    const shape = vertical ? { x1: at, y1: frame.y, x2: at, y2: frame.y + frame.height }
      : { x1: frame.x, y1: at, x2: frame.x + frame.width, y2: at };
    const style = { stroke: ink(role), lineWidth: 2, lineDash: DASHES[role] };
    return { type: "line", silent: true, z2: 5, shape, style };
  }

  // The label of a straight line, beside it where there is room; it stands in the legend too.
  function acrossLabel(line, at, frame, room) {
    const words = cut(line.label, Math.max(40, frame.width * (line.vertical ? 0.9 : 0.6)));
    const wide = widthOf(words) + 4, wanted = [];
    for (let row = 0; row < 6; row += 1) {
      const y = room.frame.y + row * HEIGHT, x = frame.x + frame.width - wide - row * wide;
      if (line.vertical) wanted.push(boxAt(at + 3, y, words), boxAt(at - 3 - wide, y, words));
      else wanted.push(boxAt(x, at - HEIGHT - 1, words), boxAt(x, at + 2, words));
    }
    const box = room.put(wanted);
    return box ? [labelIn(box, line.role === "interval" ? "ink" : line.role)] : [];
  }

  // The label of a point, beside, over or under it; one without room is left out (tooltip and table have it).
  function pointLabel([x, y], words, room) {
    const wide = widthOf(words) + 4;
    const box = room.put([boxAt(x + 8, y - 8, words), boxAt(x - 8 - wide, y - 8, words),
      boxAt(x - wide / 2, y - 24, words), boxAt(x - wide / 2, y + 8, words), boxAt(x + 6, y - 22, words),
      boxAt(x + 6, y + 6, words), boxAt(x - 6 - wide, y - 22, words), boxAt(x - 6 - wide, y + 6, words)]);
    return box ? [labelIn(box, "ink")] : [];
  }

  // Straight lines under the marks, and over them all labels, in one go: they look out for each other and for curves.
  //   lines   {at, vertical, label, role}     labels  {point, words}
  //   curves  arrays of points                strip   height over the picture for labels of lines
  //   origin  a place on both axes
  function overlay({ lines, labels, curves, origin, strip }) {
    const placeOf = (api, { at, vertical }) => (
      vertical ? api.coord([at, origin[1]])[0] : api.coord([origin[0], at])[1]);
    const seen = (point) => point.every(Number.isFinite);
    const drawLine = (params, api) => {
      const line = lines[params.dataIndex];
      return acrossShape(line, placeOf(api, line), params.coordSys);
    };
    const drawLabels = (params, api) => {
      const frame = params.coordSys, under = new Room(frame);
      const over = strip ? new Room({ ...frame, y: frame.y - strip, height: strip }) : under;
      for (const curve of curves) under.cross(curve.map((point) => api.coord(point)).filter(seen));
      const ats = lines.map((line) => placeOf(api, line)), ends = [frame.x + frame.width, frame.y + frame.height];
      lines.forEach(({ vertical }, i) => {
        under.cross(vertical ? [[ats[i], frame.y], [ats[i], ends[1]]] : [[frame.x, ats[i]], [ends[0], ats[i]]]);
      });
      const points = labels.map(({ point }) => api.coord(point));
      for (const [x, y] of points.filter(seen)) under.taken.push({ x: x - 5, y: y - 5, width: 10, height: 10 });
      const across = lines.flatMap((line, i) => acrossLabel(line, ats[i], frame, line.vertical ? over : under));
      const named = (i) => labels[i].words && seen(points[i]);
      const names = points.flatMap((point, i) => (named(i) ? pointLabel(point, labels[i].words, under) : []));
      return { type: "group", children: [...across, ...names] };
    };
    const quiet = { silent: true, tooltip: { show: false } };
    // Axes reach every line.
    const ends = lines.map(({ at, vertical }) => (vertical ? [at, NaN] : [NaN, at]));
    return [custom("", ends, drawLine, { ...quiet, z: 2 }), custom("", [[NaN, NaN]], drawLabels, { ...quiet, z: 6 })];
  }

  // ---- marks

  // Between a low and a high curve.
  function band(series, chart, colour) {
    const points = series.points.map(([x, low, high]) => [place(x, chart.x), place(low, chart.y), place(high, chart.y)])
      .filter((point) => point.every((number) => number !== null));
    const draw = (params, api) => {
      if (params.dataIndex) return null;
      const [low, high] = [1, 2].map((i) => points.map((point) => api.coord([point[0], point[i]])));
      const edge = (curve) => ({ type: "polyline", shape: { points: curve },
        style: { stroke: ink(colour), lineWidth: 1, fill: "none" } });
      const area = { type: "polygon", shape: { points: [...low, ...high.reverse()] },
        style: { fill: ink(colour), opacity: 0.25 } };
      return { type: "group", silent: true, children: [area, edge(low), edge(high)] };
    };
    const data = points.flatMap(([x, low, high]) => [[x, low], [x, high]]);
    return custom(series.name, data, draw, { silent: true, z: 1, clip: true });
  }

  // Of several series that have a mark in a category, each one has a lane of its own there.
  function lane(api, at, series, chart) {
    const [, middle] = api.coord([valueAt(1, chart.y), at]), height = Math.abs(api.size([0, 1])[1]);
    const holds = (other) => other.points.some((point) => place(point[0], chart.x) === at);
    const beside = (other) => series.mark !== "part" && other.mark === series.mark && holds(other);
    const here = chart.series.filter((other) => other === series || beside(other));
    const each = Math.min(26, height * 0.85 / here.length);
    return { y: middle + each * (here.indexOf(series) - here.length / 2) + each * 0.1, height: each * 0.8 };
  }

  // A figure without its unit, which the axis or the legend has.
  const bare = (words) => words.replace(/ (GiB|tokens\/s|FLOP\/B)$/, "");

  // A text right of a mark, or inside a bar's end, or left of the mark; without its unit where that makes the room,
  // or else where the picture ends.
  function ending(frame, left, right, y, full, bar = false) {
    const align = "right";
    for (const words of [full, bare(full)]) {
      const wide = widthOf(words) + 8;
      if (right + wide <= frame.x + frame.width) return text(right + 5, y, words);
      if (bar && right - left >= wide) return text(right - 5, y, words, { fill: "paper", align, halo: false });
      if (left - wide >= frame.x) return text(left - 5, y, words, { align });
    }
    return text(frame.x + frame.width, y, bare(full), { align });
  }

  // Bars from zero, or parts from a start to an end.
  function bars(series, chart, colour) {
    const zero = chart.y.scale === "log" ? chart.y.from : 0;
    const spans = series.points.map((point) => (series.mark === "part" ? point : [point[0], zero, point[1]]));
    const data = spans.map(([x, start, end]) => [place(start, chart.y), place(end, chart.y), place(x, chart.x)]);
    const draw = (params, api) => {
      const [start, end, at] = data[params.dataIndex];
      if (data[params.dataIndex].includes(null)) return null;
      const { y, height } = lane(api, at, series, chart), [, from, to] = spans[params.dataIndex];
      const [left, right] = [start, end].map((number) => api.coord([number, at])[0]).sort((a, b) => a - b);
      const words = marked(series, to - (series.mark === "part" ? from : 0), chart.y);
      const bar = { type: "rect", shape: { x: left, y, width: Math.max(right - left, 1), height, r: 2 },
        style: { fill: ink(colour) } };
      const figure = ending(params.coordSys, left, right, y + height / 2, words, series.mark === "bar");
      return { type: "group", children: [bar, figure] };
    };
    return custom(series.name, data, draw, { encode: { x: [0, 1], y: 2 } });
  }

  // Values with their intervals; either may be unknown.
  function ranges(series, chart, colour) {
    const on = (value) => place(value, chart.y);
    const data = series.points.map(([x, ...values]) => [...values.map(on), place(x, chart.x)]);
    const draw = (params, api) => {
      const [low, value, high, at] = data[params.dataIndex];
      const known = [low, value, high].filter((number) => number !== null);
      if (at === null || !known.length) return null;
      const { y, height } = lane(api, at, series, chart), middle = y + height / 2, children = [];
      const x = (number) => api.coord([number, at])[0], style = { fill: ink(colour) };
      if (low !== null && high !== null) {
        const shape = { x: x(low), y: middle - 4, width: Math.max(x(high) - x(low), 1), height: 8, r: 4 };
        children.push({ type: "rect", shape, style: { ...style, opacity: 0.35 } }, { type: "line",
          shape: { x1: x(low), y1: middle, x2: x(high), y2: middle }, style: { stroke: ink(colour), lineWidth: 1.5 } });
      }
      if (value !== null) {
        const words = marked(series, series.points[params.dataIndex][2], chart.y), xs = known.map(x);
        const shape = { cx: x(value), cy: middle, r: 5 };
        children.push({ type: "circle", shape, style: { ...style, stroke: ink("paper") } },
          ending(params.coordSys, Math.min(...xs), Math.max(...xs), middle, words));
      }
      return { type: "group", children };
    };
    return custom(series.name, data, draw, { encode: { x: [0, 1, 2], y: 3 } });
  }

  // Squares of a map; `fillOf` gives the colour of a value and of the text on it. Values are written where all
  // have room, without their unit where that makes the room (the legend has it).
  function cells(series, chart, fillOf) {
    const values = chart.values ?? chart.y;
    const data = series.points.map(([x, y]) => [place(x, chart.x), place(y, chart.y)]);
    const full = series.points.map((point) => marked(series, point[2], values));
    const short = full.map(bare);
    const forms = [full, short].map((texts) => ({ texts, wide: Math.max(0, ...texts.map(widthOf)) + 6 }));
    const draw = (params, api) => {
      const [x, y] = data[params.dataIndex], value = series.points[params.dataIndex][2];
      if (x === null || y === null || (value === null && byValue(series))) return null;
      const [cx, cy] = api.coord([x, y]), [width, height] = api.size([1, 1]).map(Math.abs);
      const shape = { x: cx - width / 2 + 0.5, y: cy - height / 2 + 0.5, width: width - 1, height: height - 1 };
      const { fill, over } = fillOf(series, value);
      const words = forms.find(({ wide }) => wide <= width)?.texts[params.dataIndex];
      const square = { type: "rect", shape, style: { fill: ink(fill) } };
      const children = [square];
      if (words && height >= HEIGHT) children.push(text(cx, cy, words, { align: "center", fill: over, halo: false }));
      return { type: "group", children };
    };
    return custom(series.name, data, draw, { encode: { x: 0, y: 1 }, z: 2 });
  }

  // A frame around a square of a map.
  function frames(series, chart, colour) {
    const data = series.points.map(([x, y]) => [place(x, chart.x), place(y, chart.y)]);
    const draw = (params, api) => {
      const [x, y] = data[params.dataIndex];
      if (x === null || y === null) return null;
      const [cx, cy] = api.coord([x, y]), [width, height] = api.size([1, 1]).map(Math.abs);
      const shape = { x: cx - width / 2 + 1, y: cy - height / 2 + 1, width: width - 2, height: height - 2 };
      const edge = (name, lineWidth) => (
        { type: "rect", shape, style: { fill: "none", stroke: ink(name), lineWidth } });
      return { type: "group", silent: true, children: [edge("paper", 6), edge(colour, 3)] };
    };
    return custom(series.name, data, draw, { encode: { x: 0, y: 1 }, silent: true, z: 4 });
  }

  Object.assign(charts, { DASHES, ink, widthOf, cut, place, byValue, valueAt, writtenAt });
  Object.assign(charts, { overlay, band, bars, ranges, cells, frames });
})();

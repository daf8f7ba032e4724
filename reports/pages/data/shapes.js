// Shapes of charts that the library does not bring: parts, bars, ranges, cells, bands, straight lines, labels that keep
// clear of each other. Colours are CSS variables (page.css): light, dark and print change without drawing again.
(() => {
  "use strict";

  const charts = window.infoptCharts;
  const FONT = "12px system-ui, sans-serif";
  const SCALES = { bytes: 2 ** 30, share: 0.01 }; // base units in one unit of the axis: round ticks are round in print
  const ink = (name) => `var(--${name})`;

  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const widths = new Map();
  function widthOf(text) {
    if (!widths.has(text)) widths.set(text, pen.measureText(text).width);
    return widths.get(text);
  }

  // A text's head, with an ellipsis where it is wider than `width`.
  function cut(text, width) {
    if (widthOf(text) <= width) return text;
    let kept = text.length;
    while (kept > 1 && widthOf(`${text.slice(0, kept)}…`) > width) kept -= 1;
    return `${text.slice(0, kept).trimEnd()}…`;
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

  // Ticks are round: 20.0 ms is written 20 ms.
  function tick(number, axis) {
    return writtenAt(valueAt(number, axis), axis).replace(/\.(\d*?)0+(?=\D|$)/, (_, kept) => (kept ? `.${kept}` : ""));
  }

  function text(x, y, words, options = {}) {
    const style = { x, y, text: words, font: FONT, fill: ink(options.fill ?? "ink"), align: options.align ?? "left",
      verticalAlign: options.verticalAlign ?? "middle", stroke: ink(options.halo ?? "paper"),
      lineWidth: options.halo === null ? 0 : 3 };
    return { type: "text", style, silent: true, z2: 10 };
  }

  // Boxes taken by labels of one picture; `put` gives the first of the wanted boxes that is free and inside.
  class Room {
    constructor(frame) { this.frame = frame; this.taken = []; }
    free(box) {
      const { frame } = this;
      if (box.x < frame.x || box.y < frame.y || box.x + box.width > frame.x + frame.width + 1
          || box.y + box.height > frame.y + frame.height + 1) return false;
      return this.taken.every((other) => box.x + box.width <= other.x || other.x + other.width <= box.x
        || box.y + box.height <= other.y || other.y + other.height <= box.y);
    }
    put(wanted) {
      const found = wanted.find((box) => this.free(box));
      if (found) this.taken.push(found);
      return found;
    }
  }

  const HEIGHT = 16; // of a line of text
  const boxAt = (x, y, words) => ({ x, y, width: widthOf(words) + 4, height: HEIGHT, words });
  const labelIn = (box, fill) => text(box.x + 2, box.y + HEIGHT / 2, box.words, { fill });

  // A straight line across and its label, beside it where there is room; the label stands in the legend too.
  function across(line, at, frame, room) {
    const vertical = line.across === "vertical";
    const from = vertical ? [at, frame.y] : [frame.x, at], to = vertical ? [at, frame.y + frame.height] : [frame.x + frame.width, at];
    const shape = { type: "line", silent: true, z2: 5, shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] },
      style: { stroke: ink(line.role), lineWidth: 2, lineDash: charts.DASHES[line.role] ?? [] } };
    const words = cut(line.label, Math.max(40, frame.width * 0.45)), wide = widthOf(words) + 4, wanted = [];
    for (let row = 0; row < 6; row += 1) {
      const y = frame.y + 2 + row * HEIGHT;
      if (vertical) wanted.push(boxAt(at + 3, y, words), boxAt(at - 3 - wide, y, words));
      else wanted.push(boxAt(frame.x + frame.width - wide - row * wide, at - HEIGHT - 1, words),
        boxAt(frame.x + frame.width - wide - row * wide, at + 2, words));
    }
    const box = room.put(wanted);
    return box ? [shape, labelIn(box, line.role === "interval" ? "ink" : line.role)] : [shape];
  }

  // Labels of points, beside, over or under them; one without room is left out (tooltip and table have it).
  function pointLabels(points, room) {
    for (const { x, y } of points) room.taken.push({ x: x - 4, y: y - 4, width: 8, height: 8 });
    return points.flatMap(({ x, y, words, role }) => {
      const wide = widthOf(words) + 4;
      const box = room.put([boxAt(x + 7, y - 8, words), boxAt(x - 7 - wide, y - 8, words),
        boxAt(x - wide / 2, y - 23, words), boxAt(x - wide / 2, y + 7, words), boxAt(x + 6, y - 21, words),
        boxAt(x + 6, y + 5, words), boxAt(x - 6 - wide, y - 21, words), boxAt(x - 6 - wide, y + 5, words)]);
      return box ? [labelIn(box, "ink")] : [];
    });
  }

  // What lies over a picture: straight lines and labels, drawn in one go because they look out for each other.
  function overlay(chart, axes, lines, labels) {
    return {
      type: "custom", silent: true, z: 6, animation: false, data: [[NaN, NaN]], tooltip: { show: false },
      renderItem: (params, api) => {
        const frame = params.coordSys, room = new Room(frame);
        const drawn = lines.flatMap((line) => {
          const vertical = line.across === "vertical";
          const origin = (axis) => (axis.scale === "category" ? 0 : axis.low ?? 1);
          const pair = vertical ? [line.at, origin(axes.upward)] : [origin(axes.along), line.at];
          return across(line, api.coord(pair)[vertical ? 0 : 1], frame, room);
        });
        const points = labels.map(({ point, words, role }) => {
          const [x, y] = api.coord(point);
          return { x, y, words, role };
        }).filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
        return { type: "group", children: [...drawn, ...pointLabels(points, room)] };
      },
    };
  }

  // Between a low and a high curve.
  function band(series, chart, colour) {
    const points = series.points.map(([x, low, high]) => [place(x, chart.x), place(low, chart.y), place(high, chart.y)])
      .filter((point) => point.every((number) => number !== null));
    const all = points.flatMap(([x, low, high]) => [[x, low], [x, high]]);
    return {
      type: "custom", silent: true, z: 1, animation: false, name: series.name, data: all, clip: true,
      renderItem: (params, api) => {
        if (params.dataIndex) return null;
        const edge = (i) => points.map((point) => api.coord([point[0], point[i]]));
        const line = (shape) => ({ type: "polyline", shape: { points: shape }, silent: true,
          style: { stroke: ink(colour), lineWidth: 1, fill: "none" } });
        const [low, high] = [edge(1), edge(2)];
        return { type: "group", children: [
          { type: "polygon", shape: { points: [...low, ...high.slice().reverse()] }, silent: true,
            style: { fill: ink(colour), opacity: 0.25 } }, line(low), line(high)] };
      },
    };
  }

  // A mark's place within its category, where several series share one.
  function lane(api, at, index, of) {
    const [, middle] = api.coord([0, at]), height = Math.abs(api.size([0, 1])[1]);
    const each = Math.min(26, height * 0.8 / of);
    return { y: middle - each * of / 2 + each * index + each * 0.1, height: each * 0.8 };
  }

  // A text right of a mark; left of it or inside where the picture ends.
  function ending(frame, left, right, y, words) {
    const wide = widthOf(words) + 6;
    if (right + wide <= frame.x + frame.width) return text(right + 5, y, words);
    if (left - wide >= frame.x) return text(left - 5, y, words, { align: "right" });
    return text(frame.x + frame.width - 4, y, words, { align: "right" });
  }

  // One bar or part: from `start` to `end` on the value axis.
  function bars(series, chart, colour, index, of) {
    const part = series.mark === "part";
    const data = series.points.map(([x, start, end]) => [place(x, chart.x), place(part ? start : chart.y.scale === "log" ? chart.y.from : 0, chart.y),
      place(part ? end : start, chart.y), part ? end - start : start]);
    return {
      type: "custom", name: series.name, animation: false, data, encode: { x: [1, 2], y: 0, tooltip: [] }, z: 3,
      renderItem: (params, api) => {
        const [at, start, end, value] = data[params.dataIndex];
        if (at === null || start === null || end === null) return null;
        const frame = params.coordSys, { y, height } = lane(api, at, index, of);
        const [left, right] = [start, end].map((number) => api.coord([number, at])[0]).sort((a, b) => a - b);
        const words = charts.MARKS[series.role] + writtenAt(value, chart.y);
        return { type: "group", children: [
          { type: "rect", shape: { x: left, y, width: Math.max(right - left, 1), height, r: 2 },
            style: { fill: ink(colour) } },
          ending(frame, left, right, y + height / 2, words)] };
      },
    };
  }

  // A value with its interval; a value of null has a bar only.
  function ranges(series, chart, colour, index, of) {
    const data = series.points.map(([x, low, value, high]) => [place(x, chart.x), place(low, chart.y), place(value, chart.y),
      place(high, chart.y), value]);
    return {
      type: "custom", name: series.name, animation: false, data, encode: { x: [1, 2, 3], y: 0, tooltip: [] }, z: 3,
      renderItem: (params, api) => {
        const [at, low, value, high, base] = data[params.dataIndex];
        if (at === null) return null;
        const { y, height } = lane(api, at, index, of), middle = y + height / 2;
        const x = (number) => api.coord([number, at])[0], children = [];
        if (low !== null && high !== null) {
          children.push({ type: "rect", shape: { x: x(low), y: middle - 4, width: Math.max(x(high) - x(low), 1), height: 8, r: 4 },
            style: { fill: ink(colour), opacity: 0.35 } },
            { type: "line", shape: { x1: x(low), y1: middle, x2: x(high), y2: middle }, style: { stroke: ink(colour), lineWidth: 1.5 } });
        }
        const known = [low, value, high].filter((number) => number !== null).map(x);
        if (!known.length) return null;
        if (value !== null) {
          children.push({ type: "circle", shape: { cx: x(value), cy: middle, r: 5 }, style: { fill: ink(colour), stroke: ink("paper"), lineWidth: 1 } },
            ending(params.coordSys, Math.min(...known), Math.max(...known), middle, charts.MARKS[series.role] + writtenAt(base, chart.y)));
        }
        return { type: "group", children };
      },
    };
  }

  // Squares of a map; `fillOf` gives the colour (and its ink) of a value. Values are written where they have room.
  function cells(series, chart, fillOf) {
    const data = series.points.map(([x, y, value]) => [place(x, chart.x), place(y, chart.y), value]);
    const values = chart.values ?? chart.y;
    return {
      type: "custom", name: series.name, animation: false, z: 2, encode: { x: 0, y: 1, tooltip: [] },
      data: data.map(([x, y]) => [x, y]),
      renderItem: (params, api) => {
        const [x, y, value] = data[params.dataIndex];
        if (x === null || y === null || value === null) return null;
        const [cx, cy] = api.coord([x, y]), [width, height] = api.size([1, 1]).map(Math.abs);
        const { fill, over } = fillOf(series, value), words = (series.role in charts.MARKS ? charts.MARKS[series.role] : "") + writtenAt(value, values);
        const shape = { x: cx - width / 2 + 0.5, y: cy - height / 2 + 0.5, width: width - 1, height: height - 1 };
        const children = [{ type: "rect", shape, style: { fill: ink(fill) } }];
        if (widthOf(words) + 6 <= width && height >= HEIGHT) {
          children.push(text(cx, cy, words, { align: "center", fill: over, halo: null }));
        }
        return { type: "group", children };
      },
    };
  }

  Object.assign(charts, { FONT, ink, widthOf, cut, place, valueAt, writtenAt, tick, overlay, band, bars, ranges, cells });
})();

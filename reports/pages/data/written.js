// Figures as Python writes them (units.py, through charts.WRITTEN), and a chart's data as a table (charts.chart_rows).
// A test in the browser compares both with Python.
(() => {
  "use strict";

  const DECIMAL = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]];
  const COUNTS = [["T", 1e12], ["B", 1e9], ["M", 1e6], ["k", 1e3]];

  // toFixed rounds an exact tie away from zero, Python to the even digit.
  function fixed(value, decimals) {
    const text = value.toFixed(decimals);
    const scaled = Math.abs(value) * 10 ** decimals;
    if (scaled < 2 ** 50 && scaled % 1 !== 0.5) return text; // beyond that, the product itself is rounded
    const exact = Math.abs(value).toFixed(Math.min(100, decimals + 60));
    const point = exact.indexOf(".");
    if (!/^50*$/.test(exact.slice(point + 1 + decimals))) return text;
    const kept = exact.slice(0, decimals ? point + 1 + decimals : point);
    const odd = Number(kept.slice(-1)) % 2;
    return odd ? text : (value < 0 ? "-" : "") + kept;
  }

  const grouped = (text) => text.replace(/^(-?\d+)/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

  // Three digits, never in exponent form and never cutting digits before the point.
  function digits(value) {
    for (const decimals of [2, 1]) {
      if (Math.abs(Number(fixed(value, decimals))) < 10 ** (3 - decimals)) return fixed(value, decimals);
    }
    return fixed(value, 0);
  }

  // Divided by the prefix that leaves 1 to 1000 before the point.
  function prefixed(value, prefixes) {
    for (const [prefix, factor] of prefixes) {
      if (Math.abs(value) >= factor * 0.9995) return [value / factor, prefix];
    }
    return [value, ""];
  }

  const exponentOf = (value) => Number(value.toExponential(60).split("e")[1]);

  // Python's format "g" with three digits.
  function general(value) {
    if (value === 0) return "0";
    let exponent = exponentOf(value);
    const at = (e) => (e > 2 ? fixed(value / 10 ** (e - 2), 0) : fixed(value, 2 - e));
    if (Math.abs(Number(at(exponent))) >= (exponent > 2 ? 1000 : 10 ** (exponent + 1))) exponent += 1;
    const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (exponent >= -4 && exponent < 3) return bare(at(exponent));
    const mantissa = exponent > 2 ? Number(at(exponent)) / 100 : Number(fixed(value, 2 - exponent)) / 10 ** exponent;
    const shown = String(Math.abs(exponent)).padStart(2, "0");
    return `${bare(fixed(mantissa, 2))}e${exponent < 0 ? "-" : "+"}${shown}`;
  }

  function seconds(value) {
    if (value === 0) return "0 s";
    for (const [unit, factor] of [["s", 1], ["ms", 1e-3]]) {
      if (Math.abs(value) >= factor * 0.9995) return `${digits(value / factor)} ${unit}`;
    }
    return `${digits(value / 1e-6)} us`;
  }

  function count(value) {
    if (Math.abs(value) < 10000) return grouped(fixed(value, 0));
    const [scaled, suffix] = prefixed(value, COUNTS);
    return digits(scaled) + suffix;
  }

  function rate(value, unit) {
    const [scaled, prefix] = prefixed(value, DECIMAL.slice(1));
    return `${digits(scaled)} ${prefix}${unit}/s`;
  }

  function decimalBytes(value) {
    const [scaled, prefix] = prefixed(value, DECIMAL);
    if (!prefix) return `${fixed(scaled, 0)} B`;
    return `${fixed(scaled, Math.abs(Number(fixed(scaled, 2))) < 100 ? 2 : 1)} ${prefix}B`;
  }

  function flop(value) {
    const [scaled, prefix] = prefixed(value, DECIMAL);
    return `${digits(scaled)} ${prefix}FLOP`;
  }

  function usd(value) {
    const price = Math.abs(value);
    const decimals = price === 0 || price >= 0.1 ? 2 : 2 - exponentOf(price);
    return `${value < 0 ? "-" : ""}$${grouped(fixed(price, decimals))}`;
  }

  function share(value) {
    const percent = value * 100;
    const tiny = Math.abs(percent) > 0 && Math.abs(percent) < 0.1;
    return `${fixed(percent, tiny ? 2 : 1).replace(/\.0$/, "")}%`;
  }

  const WRITTEN = {
    "s": seconds,
    "bytes": (value) => `${fixed(value / 2 ** 30, 2)} GiB`,
    "decimal bytes": decimalBytes,
    "tokens": (value) => grouped(fixed(value, 0)).replace(/^-0$/, "0"),
    "share": share,
    "count": count,
    "usd": usd,
    "bytes/s": (value) => rate(value, "B"),
    "flop": flop,
    "flop/s": (value) => rate(value, "FLOP"),
    "tokens/s": (value) => `${count(value)} tokens/s`,
    "1/s": (value) => `${general(value)}/s`,
    "ratio": (value) => `${general(value)}x`,
    "flop/byte": (value) => `${count(value)} FLOP/B`,
  };

  // A value as it is read; "-" where it is not known.
  function written(value, unit) {
    if (value === null || value === undefined) return "-";
    return typeof value === "string" ? value : WRITTEN[unit](value);
  }

  const ENDINGS = { line: [""], points: [""], bar: [""], band: [" low", " high"], part: [" from", " to"],
    range: [" low", "", " high"] };

  // Column names and rows of a chart's data.
  function rows(chart) {
    if (chart.kind === "heat") return cellRows(chart);
    const columns = [chart.x.label], found = new Map();
    for (const series of chart.series) {
      const names = ENDINGS[series.mark].map((ending) => series.name + ending);
      columns.push(...names);
      for (const point of series.points) {
        const named = series.mark === "points" && typeof point[2] === "string";
        const key = named ? point[2] : point[0];
        if (!found.has(key)) found.set(key, []);
        const here = found.get(key);
        let at = here.find((row) => !(names[0] in row));
        if (!at) here.push(at = {});
        names.forEach((name, i) => { if (i + 1 < point.length) at[name] = written(point[i + 1], chart.y.unit); });
      }
    }
    const keys = [...found.keys()];
    const order = (x) => (typeof x === "number" ? [0, x] : [1, 0]);
    if (chart.x.scale !== "category") {
      keys.sort((a, b) => order(a)[0] - order(b)[0] || order(a)[1] - order(b)[1]);
    }
    const row = (x, at) => [written(x, chart.x.unit), ...columns.slice(1).map((name) => at[name] ?? "")];
    return [columns, keys.flatMap((x) => found.get(x).map((at) => row(x, at)))];
  }

  function cellRows(chart) {
    const values = chart.values ?? chart.y, found = new Map();
    const key = (x, y) => JSON.stringify([x, y]);
    const cell = (x, y) => found.get(key(x, y)) ?? "-";
    for (const series of chart.series) {
      for (const [x, y, value] of series.points) {
        const named = series.mark === "points";
        found.set(key(x, y), named ? `${cell(x, y)} (${series.name})` : written(value, values.unit));
      }
    }
    return [
      [`${chart.y.label} \\ ${chart.x.label}`, ...chart.x.categories],
      chart.y.categories.map((y) => [y, ...chart.x.categories.map((x) => cell(x, y))]),
    ];
  }

  window.infoptCharts = { written, rows };
})();

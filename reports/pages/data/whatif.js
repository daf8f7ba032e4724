// What-if on a plan's page: reads the controls, runs the program of the placement (program.js), writes every figure,
// text and chart that depends on them. Nothing old stays: what the programs do not say is blanked or hidden.
(() => {
  "use strict";

  const { lengths, placed } = window.infoptProgram, { update, written, all } = window.infoptCharts;
  const data = JSON.parse(document.getElementById("infopt-whatif").textContent);
  const form = document.getElementById("what-if"), saying = document.getElementById("what-if-said");
  const shownCommand = document.getElementById("what-if-command"), verdict = document.querySelector("#verdict > p");
  const figures = [...document.querySelectorAll("data[data-key]")].filter((one) => one.dataset.key in data.units);
  const texts = [...document.querySelectorAll("[data-text]")], ofThePlan = [...document.querySelectorAll("[data-of-plan]")];
  const ofTheChange = [...document.querySelectorAll("[data-of-change]")];
  const heading = document.querySelector("h1"), model = JSON.parse(document.getElementById("infopt-result").textContent).model.id;
  const templates = new Map(all.map((chart) => [chart.id, chart]));
  const asked = { figures: figures.map((one) => [one.value, one.textContent]), texts: texts.map((one) => one.textContent),
    heading: heading.textContent, verdict: [verdict.className, [...verdict.childNodes]], command: shownCommand.textContent };
  const AXES = ["weights", "kv", "hardware", "tp"], NUMBERS = data.lengths.inputs, load = lengths(data);
  const whole = (value) => written(value, "tokens");

  // Controls ---------------------------------------------------------------------------------------------------------

  const sliders = new Map([...form.querySelectorAll("input[type=range]")].map((one) => [one.dataset.for, one]));

  // The slider moves in quarters of a doubling, from 1 to where the largest sensible value lies.
  function setSlider(name) {
    const slider = sliders.get(name), field = form.elements[name];
    const most = name === "batch" ? data.curve.most_batch : data.curve.longest_tokens;
    slider.max = String(Math.ceil(Math.log2(Math.max(most, Number(field.defaultValue)))));
    slider.value = String(Math.log2(Math.max(1, Number(field.value))));
    slider.setAttribute("aria-valuetext", whole(Number(field.value)));
  }

  function read() {
    const given = {}, wrong = [];
    for (const name of NUMBERS) {
      const field = form.elements[name], value = Number(field.value);
      given[name] = value;
      const bad = !field.value || !Number.isSafeInteger(value) || value < 1;
      field.toggleAttribute("aria-invalid", bad);
      if (bad) wrong.push(`${field.labels[0].textContent}: a whole number of 1 or more is needed`);
    }
    const chosen = AXES.map((name) => Number(form.elements[name].value));
    return { given, chosen, wrong: wrong.join("; ") };
  }

  function isThePlan({ given, chosen }) {
    return chosen.every((i) => i === 0) && NUMBERS.every((name) => String(given[name]) === form.elements[name].defaultValue);
  }

  // Places stand in the order of the axes, the last one changing fastest.
  function placeOf(chosen) {
    const place = AXES.reduce((sum, name, i) => sum * data.axes[name].length + chosen[i], 0);
    return placed(data, place);
  }

  function quoted(word) {
    return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
  }

  function headingOf({ chosen }) {
    const place = placeOf(chosen), id = data.axes.hardware[chosen[2]];
    return `What if: ${model} on ${typeof place === "string" ? "" : `${place.get("hardware.gpus")} x `}${id}`;
  }

  // The command line whose answer this is.
  function commandOf({ given, chosen }) {
    const { base, placed: typed, has_ep: hasEp, options, calibrated } = data.command, [weights, kv, hardware, tp] = chosen;
    const words = hardware === 0 || !calibrated[0] || calibrated[hardware] ? base : without(base, "--calibration");
    const place = placeOf(chosen), ep = hasEp && typeof place !== "string" ? ["--ep", String(place.get("hardware.ep"))] : [];
    const placement = hardware === 0 && tp === 0 ? typed
      : ["--hw", data.axes.hardware[hardware], "--tp", String(data.axes.tp[tp]), ...ep];
    const loads = NUMBERS.flatMap((name) => [options[name], String(given[name])]);
    return [...words, ...placement, ...data.axes.weights[weights], ...data.axes.kv[kv], ...loads].map(quoted).join(" ");
  }

  function without(words, option) {
    const left = words.filter((word, i) => word !== option && words[i - 1] !== option);
    return left.filter((word) => !word.startsWith(`${option}=`));
  }

  // Figures and texts ------------------------------------------------------------------------------------------------

  function writeFigures(get) {
    for (const one of figures) {
      const value = get(one.dataset.key);
      one.value = value === null ? "" : String(value);
      one.textContent = written(value, data.units[one.dataset.key]);
    }
  }

  function writeTexts(said) {
    for (const one of texts) one.textContent = said[one.dataset.text] ?? "";
  }

  function textsOf(place, get) {
    const reason = get("estimate.reason"), bound = get("estimate.bound");
    const outside = reason === null ? place.outside.filter((_, i) => get(`outside.${i}`)) : [];
    return {
      "estimate.reason": reason === null ? "" : place.texts[reason],
      "estimate.bound": bound === null ? "" : data.bounds[place.texts[bound]],
      "estimate.extrapolated": outside.length ? `outside what was measured: ${outside.join("; ")}; there the interval is not measured` : "",
    };
  }

  function writeVerdict(status, headline, text) {
    const strong = document.createElement("strong");
    strong.textContent = headline;
    verdict.className = `verdict ${status}`;
    verdict.replaceChildren(strong, `: ${text}`);
  }

  const gib = (value) => written(value, "bytes");
  const UNLIMITED = 1e9;

  function verdictOf(get) {
    const fits = get("memory.fits"), sequences = get("memory.max_sequences"), longest = get("memory.max_context_tokens");
    const missing = get("memory.used_bytes_per_gpu") - get("memory.capacity_bytes_per_gpu");
    const many = sequences * get("hardware.dp"), each = `${whole(get("workload.context_tokens"))} tokens`;
    const room = sequences >= UNLIMITED ? "the model caches nothing per token: sequences are not limited by memory"
      : `${whole(many)} ${many === 1 ? "sequence" : "sequences"} of ${each}${longest === null ? "" : `; the longest single one ${whole(longest)} tokens`}`;
    if (fits === 1) return ["pass", "FITS", room];
    if (fits === -1) return ["open", "UNDETERMINED", "not known well enough to say; the command line below says why"];
    if (get("memory.refused")) return ["fail", "DOES NOT FIT", "the engine refuses to start; the command line below says why"];
    if (missing > 0) return ["fail", "DOES NOT FIT", `${gib(missing)} short on each device`];
    const pool = gib(get("memory.kv_pool_bytes_per_gpu"));
    return ["fail", "DOES NOT FIT", `the KV pool of ${pool} is too small for ${gib(get("memory.kv_bytes_per_gpu"))}`];
  }

  // Charts -----------------------------------------------------------------------------------------------------------

  // The chart as it is, other points in its series and other lines; series that are not named lose their points.
  function filled(id, points, lines, changes = {}) {
    const chart = templates.get(id);
    const series = chart.series.map((one) => ({ ...one, points: points[one.name] ?? [] }));
    return { ...chart, ...changes, series, lines };
  }

  // Whole numbers from low to high at even ratios, some others among them.
  function between(low, high, also) {
    const { points } = data.curve, ratio = high / low, found = new Set([low, high]);
    for (let i = 0; i < points; i += 1) found.add(Math.round(low * ratio ** (i / (points - 1))));
    for (const one of also) if (low <= one && one <= high) found.add(one);
    return [...found].sort((a, b) => a - b);
  }

  function memoryChart(get, names) {
    const parts = [], capacity = get("memory.capacity_bytes_per_gpu"), prefix = "memory.term.";
    let end = 0;
    for (const name of names.filter((one) => one.startsWith(prefix))) {
      const size = get(name), term = name.slice(prefix.length);
      if (size) parts.push([data.terms.memory[term] ?? term, end, end += size]);
    }
    const rest = end <= capacity ? ["free", end, capacity, "good"] : ["missing", capacity, end, "bad"];
    const series = [{ name: "in use", role: "estimate", mark: "part", points: parts },
      { name: rest[0], role: rest[3], mark: "part", points: [rest.slice(0, 3)] }];
    const chart = templates.get("memory"), categories = [...parts.map((part) => part[0]), rest[0]];
    const lines = [{ axis: "y", value: capacity, label: `usable ${gib(capacity)}`, role: "limit" }];
    return { ...chart, x: { ...chart.x, categories }, series, lines };
  }

  function tpotChart(place, at, get) {
    const dp = get("hardware.dp"), most = get("memory.max_sequences") * dp, { most_batch: top, least_batch: least } = data.curve;
    const last = Math.max(Math.min(most, get("curve.most_batch"), top), at.batch, least * dp);
    const replicas = between(1, Math.ceil(last / dp), [Math.ceil(at.batch / dp), most / dp]).map((one) => one * dp);
    const batches = [...new Set([...replicas, at.batch])].sort((a, b) => a - b);
    const points = { floor: [], estimate: [], interval: [] };
    for (const batch of batches) {
      place.run({ ...at, batch });
      points.floor.push([batch, place.get("bandwidth.tpot_floor_s")]);
      points.estimate.push([batch, place.get("estimate.tpot_s")]);
      points.interval.push([batch, place.get("estimate.tpot_low_s"), place.get("estimate.tpot_high_s")]);
      if (batch === at.batch) points["this load"] = [[batch, place.get("estimate.tpot_s") ?? place.get("bandwidth.tpot_floor_s")]];
    }
    const targets = templates.get("tpot").lines.filter((line) => line.role === "target");
    const limit = { axis: "x", value: most, label: "most that fit", role: "limit" };
    return filled("tpot", points, [...(0 < most && most <= batches.at(-1) ? [limit] : []), ...targets]);
  }

  function kvChart(place, at) {
    const { longest_tokens: known, least_context_tokens: least } = data.curve, longest = Math.max(known, at.context_tokens);
    const points = { "cache of the batch": [], "room for the cache": [], "cache's part of a step's bytes": [] };
    for (const tokens of between(Math.min(least, longest), longest, [at.context_tokens])) {
      place.run({ ...at, context_tokens: tokens, decode_context_tokens: tokens });
      const share = place.get("memory.kv_share");
      points["cache of the batch"].push([tokens, share]);
      points["room for the cache"].push([tokens, place.get("memory.kv_pool_bytes_per_gpu") / place.get("memory.capacity_bytes_per_gpu")]);
      points["cache's part of a step's bytes"].push([tokens, place.get("bandwidth.kv_share_of_step")]);
      if (tokens === at.context_tokens) points["this load"] = [[tokens, share]];
    }
    return filled("kv", points, []);
  }

  function termsChart(get, names) {
    const prefix = "estimate.terms_s.", chart = templates.get("terms");
    const terms = names.filter((one) => one.startsWith(prefix) && get(one) !== null)
      .map((one) => [data.terms.estimate[one.slice(prefix.length)] ?? one.slice(prefix.length), get(one)]);
    return filled("terms", { estimate: terms }, [], { x: { ...chart.x, categories: terms.map((term) => term[0]) } });
  }

  function rooflineChart(place, at) {
    const of = (batch) => {
      const get = place.run({ ...at, batch }), tpot = get("estimate.tpot_s"), x = get("roofline.decode_flop_per_byte");
      return { x, most: [x, get("roofline.decode_at_most_flop_per_s"), `decode, batch ${whole(batch)}`],
        expected: tpot === null ? [] : [[x, get("roofline.step_flop") / tpot]] };
    };
    const here = place.run(at), dp = here("hardware.dp"), most = here("memory.max_sequences") * dp;
    const batches = [...new Set([dp, at.batch, ...(0 < most && most <= data.curve.most_batch ? [most] : [])])].sort((a, b) => a - b);
    const decodes = batches.map(of), get = place.run(at), peak = get("roofline.peak_flop_per_s");
    if (peak === null) return filled("roofline", {}, []);
    const prompt = [get("roofline.prefill_flop_per_byte"), get("roofline.prefill_at_most_flop_per_s"), `prompt of ${whole(at.input_tokens)} tokens`];
    const rate = get("roofline.bandwidth_bytes_per_s"), bend = peak / rate, xs = [...decodes.map((one) => one.x), prompt[0], bend];
    const roof = [Math.min(...xs) / 2, bend, Math.max(...xs) * 2].map((x) => [x, Math.min(peak, x * rate)]);
    const points = { roof, "at most": [...decodes.map((one) => one.most), prompt], expected: decodes.flatMap((one) => one.expected) };
    return filled("roofline", points, []);
  }

  function drawCharts(place, at) {
    const get = place.run(at);
    const charts = [memoryChart(get, place.names), termsChart(get, place.names), tpotChart(place, at, get), kvChart(place, at)];
    if (templates.has("roofline")) charts.push(rooflineChart(place, at));
    charts.forEach(draw);
  }

  // Pictures in sight are drawn at once, the others one by one after the frame, or as soon as they come in sight: no old
  // one is ever seen. A picture of nothing is not shown.
  const waiting = new Map(), inSight = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) inSight.delete(target.id);
      else inSight.add(target.id) && drawNow(target.id);
    }
  });

  function drawNow(id) {
    if (!waiting.has(id)) return;
    update(id, waiting.get(id));
    waiting.delete(id);
  }

  function draw(chart) {
    showIfAny(chart);
    if (!waiting.size) requestAnimationFrame(() => setTimeout(drawNext));
    waiting.set(chart.id, chart);
    if (inSight.has(chart.id)) drawNow(chart.id);
  }

  function drawNext() {
    if (waiting.size) drawNow(waiting.keys().next().value);
    if (waiting.size) setTimeout(drawNext);
    else document.documentElement.dataset.whatIf = "drawn";
  }

  function showIfAny(chart) {
    document.getElementById(chart.id).hidden = !chart.series.some((one) => one.points.length);
  }

  function emptyCharts() {
    for (const [id, chart] of templates) {
      const x = chart.x.scale === "category" ? { ...chart.x, categories: [] } : chart.x;
      draw(filled(id, {}, [], { x }));
    }
  }

  // The page ---------------------------------------------------------------------------------------------------------

  function backToThePlan() {
    figures.forEach((one, i) => { [one.value, one.textContent] = asked.figures[i]; });
    texts.forEach((one, i) => { one.textContent = asked.texts[i]; });
    heading.textContent = asked.heading;
    verdict.className = asked.verdict[0];
    verdict.replaceChildren(...asked.verdict[1]);
    shownCommand.textContent = asked.command;
    templates.forEach(draw);
  }

  // No answer: every figure is blanked, and the reason stands where the verdict was.
  function refuse(reason) {
    writeFigures(() => null);
    writeTexts({});
    writeVerdict("fail", "NOT POSSIBLE", reason);
    emptyCharts();
  }

  function answer(now) {
    const place = placeOf(now.chosen);
    if (typeof place === "string") return refuse(place);
    const get = load.run(now.given);
    if (!get("possible")) return refuse("input and output must be at least 1 token each, and together no longer than the context");
    const at = Object.fromEntries(data.load.map((name) => [name, get(name)]));
    place.run(at);
    writeFigures(place.get);
    writeTexts(textsOf(place, place.get));
    writeVerdict(...verdictOf(place.get));
    return drawCharts(place, at);
  }

  function changed() {
    const now = read(), same = !now.wrong && isThePlan(now);
    NUMBERS.forEach(setSlider);
    ofThePlan.forEach((one) => { one.hidden = !same; });
    ofTheChange.forEach((one) => { one.hidden = same; });
    document.documentElement.dataset.whatIf = "drawing";
    if (same) {
      backToThePlan();
      saying.textContent = "";
      return;
    }
    heading.textContent = headingOf(now);
    shownCommand.textContent = now.wrong ? "" : commandOf(now);
    if (now.wrong) refuse(now.wrong);
    else answer(now);
    saying.textContent = `Not the plan as asked. ${verdict.textContent}`;
  }

  form.reset();
  form.addEventListener("input", (event) => {
    const name = event.target.dataset.for;
    if (name) form.elements[name].value = String(Math.round(2 ** Number(event.target.value)));
    changed();
  });
  // A field takes digits alone: "k" and "m" are what they are on the command line, 1,024 and its square.
  form.addEventListener("beforeinput", (event) => {
    const [, typed, letter] = (event.data ?? "").trim().match(/^([0-9]*)([km])$/i) ?? [];
    const number = Number(typed || event.target.value);
    if (!letter || !number) return;
    event.preventDefault();
    event.target.value = String(number * 1024 ** (letter.toLowerCase() === "k" ? 1 : 2));
    changed();
  });
  form.addEventListener("reset", () => setTimeout(changed));
  form.addEventListener("submit", (event) => event.preventDefault());
  NUMBERS.forEach(setSlider);
  for (const chart of templates.values()) {
    showIfAny(chart);
    watcher.observe(document.getElementById(chart.id));
  }
  addEventListener("beforeprint", () => [...waiting.keys()].forEach(drawNow));
  form.hidden = false;
})();

// Runs programs of ledgers/traced.py: the ledgers' own operations, in their order, on other loads.
//   infoptProgram.placed(data, i)    the i-th place of the what-if data: run(load), get(name); or its error, a text
//   infoptProgram.lengths(data)      from the lengths that were given to a load
// Whole numbers are exact below 2^53; "//" and "rint" are Python's.
(() => {
  "use strict";

  // Python's floor division of floats: by the remainder, which is exact.
  function floorDivide(a, b) {
    const rest = a % b;
    let quotient = (a - rest) / b;
    if (rest !== 0 && (b < 0) !== (rest < 0)) quotient -= 1;
    const floor = Math.floor(quotient);
    return quotient - floor > 0.5 ? floor + 1 : floor;
  }

  // Half to even.
  function rint(a) {
    const floor = Math.floor(a), rest = a - floor;
    return rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1;
  }

  const APPLY = {
    "+": (a, b) => a + b,
    "-": (a, b) => a - b,
    "*": (a, b) => a * b,
    "/": (a, b) => a / b,
    "//": floorDivide,
    "**": (a, b) => a ** b,
    "min": Math.min,
    "max": Math.max,
    "<": (a, b) => (a < b ? 1 : 0),
    "<=": (a, b) => (a <= b ? 1 : 0),
    "==": (a, b) => (a === b ? 1 : 0),
    "&": (a, b) => (a && b ? 1 : 0),
    "|": (a, b) => (a || b ? 1 : 0),
    "^": (a, b) => (!a !== !b ? 1 : 0),
    "neg": (a) => -a,
    "floor": Math.floor,
    "trunc": Math.trunc,
    "rint": rint,
    "sqrt": Math.sqrt,
    "log2": Math.log2,
    "?": (condition, yes, no) => (condition ? yes : no),
  };

  // A program with its constants in place: inputs, constants, then a value for each operation.
  function compiled(data, shape, constants, inputs) {
    const steps = data.operations.map(([name, count]) => [APPLY[name], count]), { operations } = shape;
    const slots = new Map();
    for (let i = 0; i < shape.outputs.length; i += 2) slots.set(data.names[shape.outputs[i]], shape.outputs[i + 1]);
    const values = [...inputs.map(() => NaN), ...constants.map((i) => data.numbers[i] ?? NaN)], first = values.length;
    function run(given) {
      inputs.forEach((name, i) => { values[i] = given[name]; });
      for (let at = 0, slot = first; at < operations.length; slot += 1) {
        const [apply, count] = steps[operations[at]];
        const a = values[operations[at + 1]];
        if (count === 1) values[slot] = apply(a);
        else if (count === 2) values[slot] = apply(a, values[operations[at + 2]]);
        else values[slot] = apply(a, values[operations[at + 2]], values[operations[at + 3]]);
        at += 1 + count;
      }
      return get;
    }
    // The value of an output, null where there is none.
    function get(name) {
      const value = slots.has(name) ? values[slots.get(name)] : NaN;
      return Number.isNaN(value) ? null : value;
    }
    return { run, get, names: [...slots.keys()] };
  }

  function lengths(data) {
    return compiled(data, data.lengths, data.lengths.constants, data.lengths.inputs);
  }

  const known = new WeakMap();
  function placed(data, i) {
    if (typeof data.places[i] === "string") return data.places[i];
    if (!known.has(data)) known.set(data, new Map());
    const places = known.get(data);
    if (!places.has(i)) {
      const [shape, own, texts, outside] = data.places[i], left = own[Symbol.iterator]();
      const constants = data.shapes[shape].constants.map((one) => (one < 0 ? left.next().value : one));
      const program = compiled(data, data.shapes[shape], constants, data.load);
      places.set(i, { ...program, texts: texts.map((text) => data.texts[text]), outside: outside.map((text) => data.texts[text]) });
    }
    return places.get(i);
  }

  window.infoptProgram = { lengths, placed };
})();

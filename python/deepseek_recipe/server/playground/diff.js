// What two lists have in common, by Myers' algorithm. Knows nothing about prompts.

const MOST = 2000; // Edits looked for: time and memory are quadratic in them, and people do not read more.

/**
 * The runs of two lists of strings: `{kind: "same" | "first" | "second", items}`, in order. The items of `same` are the
 * places in both lists, `[i, j]`; those of the others are places in one. Lists further apart than MOST edits have
 * nothing but their beginning and end in common.
 */
export function diff(first, second) {
  let start = 0;
  while (start < first.length && start < second.length && first[start] === second[start]) start++;
  let end = 0;
  const most = Math.min(first.length, second.length) - start;
  while (end < most && first[first.length - 1 - end] === second[second.length - 1 - end]) end++;
  const a = first.slice(start, first.length - end);
  const b = second.slice(start, second.length - end);

  const runs = [];
  const add = (kind, item) => {
    const last = runs.at(-1);
    if (last && last.kind === kind) last.items.push(item);
    else runs.push({ kind, items: [item] });
  };
  for (let i = 0; i < start; i++) add("same", [i, i]);
  for (const [kind, i, j] of middle(a, b)) {
    if (kind === "same") add(kind, [start + i, start + j]);
    else add(kind, start + (kind === "first" ? i : j));
  }
  for (let i = end; i > 0; i--) add("same", [first.length - i, second.length - i]);
  return runs;
}

/** The steps `[kind, i, j]` from `a` to `b`. */
function middle(a, b) {
  const trace = farthest(a, b);
  if (!trace) {
    return [...a.map((_, i) => ["first", i, 0]), ...b.map((_, j) => ["second", 0, j])];
  }
  const steps = [];
  let [i, j] = [a.length, b.length];
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reached = trace[edits];
    const k = i - j;
    const down = k === -edits || (k !== edits && at(reached, edits, k - 1) < at(reached, edits, k + 1));
    const fromI = edits === 0 ? 0 : at(reached, edits, down ? k + 1 : k - 1);
    const fromJ = edits === 0 ? 0 : fromI - (down ? k + 1 : k - 1);
    const startI = edits === 0 ? 0 : down ? fromI : fromI + 1;
    while (i > startI) steps.push(["same", --i, --j]);
    if (edits > 0) steps.push(down ? ["second", i, --j] : ["first", --i, j]);
  }
  return steps.reverse();
}

/**
 * For each number of edits the farthest places in `a` that fewer edits reach, one a diagonal `i - j`: those of
 * `edits - 1` at the index `k + edits`. `null` beyond MOST edits.
 */
function farthest(a, b) {
  const trace = [];
  let before = new Int32Array(0);
  for (let edits = 0; edits <= Math.min(MOST, a.length + b.length); edits++) {
    trace.push(before);
    const after = new Int32Array(2 * edits + 3);
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && at(before, edits, k - 1) < at(before, edits, k + 1));
      let i = edits === 0 ? 0 : down ? at(before, edits, k + 1) : at(before, edits, k - 1) + 1;
      while (i < a.length && i - k < b.length && a[i] === b[i - k]) i++;
      after[k + edits + 1] = i;
      if (i >= a.length && i - k >= b.length) return trace;
    }
    before = after;
  }
  return null;
}

/** The place that `edits - 1` edits reach on diagonal `k`. */
function at(reached, edits, k) {
  return reached[k + edits];
}

// The difference of lists against a slow twin: the longest common subsequence by a table.

import assert from "node:assert/strict";
import { test } from "node:test";
import { diff } from "../../python/deepseek_recipe/server/playground/diff.js";

function longestCommon(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  return table[0][0];
}

/** Checks that the runs are both lists, in order. Returns how many items they have in common. */
function check(a, b) {
  const runs = diff(a, b);
  const same = runs.filter((run) => run.kind === "same").flatMap((run) => run.items);
  const places = (kind, side) =>
    runs.flatMap((run) => (run.kind === "same" ? run.items.map((pair) => pair[side]) : run.kind === kind ? run.items : []));
  assert.deepEqual(places("first", 0), [...a.keys()]);
  assert.deepEqual(places("second", 1), [...b.keys()]);
  for (const [i, j] of same) assert.equal(a[i], b[j]);
  assert.ok(runs.every((run, i) => i === 0 || run.kind !== runs[i - 1].kind));
  return same.length;
}

test("random lists have the longest common part", () => {
  let seed = 7;
  const random = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 3000; round++) {
    const list = () => Array.from({ length: random(14) }, () => "abcd"[random(1 + random(4))]);
    const [a, b] = [list(), list()];
    assert.equal(check(a, b), longestCommon(a, b), `${a} | ${b}`);
  }
});

test("long lists: a change in the middle, and nothing in common", () => {
  const a = Array.from({ length: 50000 }, (_, i) => `item ${i}`);
  const changed = [...a.slice(0, 20000), "new", ...a.slice(20010)];
  assert.equal(check(a, changed), a.length - 10);
  const other = a.map((item) => `other ${item}`);
  assert.equal(check(["begin", ...a], ["begin", ...other]), 1);
});

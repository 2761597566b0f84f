// SPDX-License-Identifier: Apache-2.0
// The npm package as users get it: packed from a build, installed from the file into an empty folder without a network or a script.
//   BUILD=build/release node --test tests/system/npm/
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

const root = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../../..");
const build = resolve(process.env.BUILD ?? join(root, "build/release"));
const model = join(root, "tests/fixtures/checkpoints/bert-deebert");
const texts = ["a great film", "dull and boring", "a", "the film was a great surprise"];
const scratch = mkdtempSync(join(tmpdir(), "exeunt-npm-"));
const home = join(scratch, "home");
let exeunt;

function run(program, args, options = {}) {
  return execFileSync(program, args, { encoding: "utf8", cwd: home, stdio: ["ignore", "pipe", "pipe"], ...options });
}

before(async () => {
  const file = run(join(root, "scripts/npm"), [build, join(scratch, "out")], { cwd: root }).trim();
  execFileSync("mkdir", [home]);
  writeFileSync(join(home, "package.json"), '{"private": true, "type": "module"}');
  run("npm", ["install", "--ignore-scripts", "--offline", "--no-audit", "--no-fund", file]);
  exeunt = await import(pathToFileURL(join(home, "node_modules/exeunt/index.js")).href);
});
after(() => rmSync(scratch, { recursive: true, force: true }));

test("the three lines of its page answer as the command does", () => {
  const [, lines] = readFileSync(join(root, "js/README.md"), "utf8").match(/```js\n([^]*?)```/);
  writeFileSync(join(home, "three.js"), lines.replace('"models/sst2"', JSON.stringify(model)).replace(/console.log\((.*)\);/, "console.log(JSON.stringify($1));"));
  const said = JSON.parse(run(process.execPath, ["three.js"]));
  writeFileSync(join(home, "texts.txt"), "A delight from start to end.\nDull.\n");
  const lone = run(join(build, "bin/exeunt"), ["predict", model, "texts.txt", "--json", "--quiet"]).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(said.map((one) => [one.label, one.exitLayer]), lone.map((one) => [one.label, one.exit_layer]));
});

test("the package has the library inside, and nothing that runs when it is installed", () => {
  const folder = join(home, "node_modules/exeunt"), facts = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  assert.deepEqual([facts.scripts, facts.dependencies, facts.type], [undefined, undefined, "module"]);
  assert.deepEqual(readdirSync(folder).sort(), ["LICENSE", "README.md", "THIRD_PARTY.md", "exeunt.node", "index.d.ts", "index.js", "libexeunt.so.0", "licenses", "package.json"]);
  assert.deepEqual(readdirSync(join(folder, "licenses")).sort(), run(join(root, "scripts/sbom"), ["--packages"]).trim().split("\n").sort());
  assert.match(run("ldd", [join(folder, "exeunt.node")]), new RegExp(`libexeunt.so.0 => ${folder}`));
});

test("answers have labels, scores and layers in the order of the texts", async () => {
  const model_ = new exeunt.Classifier(model, { policy: "full", threads: 1 });
  assert.deepEqual([model_.labels, model_.problem, model_.policy], [["negative", "positive"], "single_label_classification", "full"]);
  const answers = await model_.classify(texts);
  for (const one of answers) {
    assert.ok(Math.abs(one.scores.negative + one.scores.positive - 1) < 1e-5);
    assert.equal(one.score, Math.max(...Object.values(one.scores)));
    assert.equal(one.scores[one.label], one.score);
  }
  assert.deepEqual(answers.map((one) => one.exitLayer), [3, 3, 3, 3]);
  assert.deepEqual((await model_.classify(texts, { policy: "layer:1" })).map((one) => one.exitLayer), [1, 1, 1, 1]);
  assert.deepEqual(await model_.classify(texts[0]), answers.slice(0, 1));
  assert.deepEqual(await model_.classify(["", texts[1], " \n"]), [null, answers[1], null]);
  assert.deepEqual(await model_.classify([]), []);
  assert.deepEqual(await model_.classify(["a\0 great film"]).then(([one]) => one.tokens), 5);
  model_.close();
});

test("several calls at once are answered as each alone, beyond a part and a close", async () => {
  const model_ = new exeunt.Classifier(model), wanted = await model_.classify(texts);
  const many = Array.from({ length: 16384 + 2 }, (_, i) => i % 2 ? "a" : "dull");
  const calls = [model_.classify(many, { policy: "layer:1" }), ...Array.from({ length: 8 }, () => model_.classify(texts))];
  const [long, ...short] = await Promise.all(calls);
  assert.deepEqual(short, Array(8).fill(wanted));
  assert.deepEqual(long.at(-1), long[1]);
  const running = model_.classify(texts);
  model_.close();
  assert.deepEqual(await running, wanted);
  await assert.rejects(model_.classify(texts), /the model is closed/);
});

test("errors have a code, a status and a hint", async () => {
  assert.throws(() => new exeunt.Classifier("no/such/model"), { name: "ExeuntError", code: "bad_file", status: 4 });
  assert.throws(() => new exeunt.Classifier(model, { policy: "entropie:0.2" }), (error) => error.code === "usage" && error.hint.includes("entropy"));
  assert.throws(() => new exeunt.Classifier(7), /folder: got number, want a string/);
  assert.throws(() => new exeunt.Classifier(model, { threads: "2" }), /threads: got string, want a number/);
  const model_ = new exeunt.Classifier(model);
  await assert.rejects(model_.classify(texts, { policy: "entropie:0.2" }), { name: "ExeuntError", code: "usage" });
  await assert.rejects(model_.classify(["a", 3]), /texts: got number at 1, want a string/);
  assert.deepEqual((await model_.classify(texts)).length, 4);
});

test("several labels are a list", async () => {
  const folder = join(scratch, "several");
  cpSync(model, folder, { recursive: true });
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, problem_type: "multi_label_classification" }));
  const model_ = new exeunt.Classifier(folder, { policy: "full" });
  for (const one of await model_.classify(texts))
    assert.deepEqual(one.labels, model_.labels.filter((label) => one.scores[label] > 0.5));
});

const compiler = join(root, "tests/system/npm/node_modules/typescript/bin/tsc");
test("the types fit what a program does, and refuse what it must not", { skip: !existsSync(compiler) && "no typescript" }, () => {
  const check = (text) => {
    writeFileSync(join(home, "program.ts"), `import { Classifier, ExeuntError, version } from "exeunt";\n${text}\n`);
    run(process.execPath, [compiler, "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "program.ts"]);
  };
  check(`const model = new Classifier("x", { precision: "int8" });
    const layers: number[] = (await model.classify(["a"])).map((one) => one?.exitLayer ?? 0);
    export const out: [string, string[], number[]] = [version, model.labels, layers];
    export const code: "usage" | "resources" | "bad_file" | "failure" = new ExeuntError().code;`);
  for (const wrong of ['new Classifier(7)', 'new Classifier("x", { precision: "int4" })', 'await new Classifier("x").classify([3])'])
    assert.throws(() => check(wrong));
});

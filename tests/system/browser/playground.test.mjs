// SPDX-License-Identifier: Apache-2.0
// The playground in a real browser, against a running server: answers, keyboard, names, light and dark, and 50 texts
// that try to become markup.
//   EXEUNT=build/release/bin/exeunt MODEL=tests/fixtures/checkpoints/bert-deebert node --test tests/system/browser/
// With SCREENSHOTS=folder, pictures of PICTURED, a model that has learned something: the one `make demo` leaves behind.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "./chromium.mjs";
import { faintTexts } from "./contrast.mjs";

const exeunt = process.env.EXEUNT ?? "build/release/bin/exeunt";
const model = process.env.MODEL ?? "tests/fixtures/checkpoints/bert-deebert";
const pictured = process.env.PICTURED ?? "build/demo/model";
let browser, server, origin;

// A server of its own for a model: the process, and where it listens.
async function serve(folder, flags = ["--policy", "entropy:0.45"]) {
  const process = spawn(exeunt, ["serve", folder, "--port", "0", "--json-output", ...flags, "--allow-policies", "full,entropy:0..0.7"],
    { stdio: ["ignore", "ignore", "pipe"] });
  const address = await new Promise((found, failed) => {
    let log = "";
    process.stderr.on("data", (bytes) => {
      log += bytes;
      const listening = log.match(/"message":"listening","address":"([^"]+)"/);
      if (listening) found(`http://${listening[1]}`);
    });
    process.on("exit", (code) => failed(new Error(`the server ended with ${code}: ${log}`)));
  });
  return { process, address };
}

before(async () => {
  ({ process: server, address: origin } = await serve(model));
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.kill("SIGTERM");
});

// The page forbids what playwright's waitForFunction does (its content security policy), so it is asked again and again.
async function until(page, holds) {
  for (const limit = Date.now() + 20000; !await page.evaluate(holds);) {
    assert.ok(Date.now() < limit, "the page does not get there");
    await page.waitForTimeout(10);
  }
}

async function open(options = {}, address = origin) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 900 }, ...options });
  const page = await context.newPage();
  const troubles = [], elsewhere = [];
  page.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
  page.on("pageerror", (error) => troubles.push(String(error)));
  page.on("dialog", async (dialog) => { troubles.push("dialog " + dialog.message()); await dialog.dismiss(); });
  page.on("request", (request) => request.url().startsWith(address) || elsewhere.push(request.url()));
  await page.goto(address + "/");
  await until(page, () => !document.getElementById("model").textContent.startsWith("Loading"));
  return { page, troubles, elsewhere, close: () => context.close() };
}

async function classify(page, text) {
  await page.fill("#text", text);
  await page.press("#text", "Control+Enter");
  await until(page, () => !document.getElementById("go").disabled && document.getElementById("status").textContent !== "Classifying …");
}

for (const colorScheme of ["light", "dark"]) {
  test(`${colorScheme}: a text is answered by keyboard alone, and nothing comes from elsewhere`, async () => {
    const { page, troubles, elsewhere, close } = await open({ colorScheme });
    await classify(page, "A great film");
    assert.match(await page.textContent("#status"), /Left after layer \d+ of \d+/);
    assert.ok(await page.locator("#rungs tr").count() >= 1);
    assert.equal(await page.locator("#rungs tr.left").count(), 1);
    assert.ok(await page.locator("#rungs tr.unrun").count() >= 1);
    assert.deepEqual(await faintTexts(page), []);
    assert.deepEqual(troubles, []);
    assert.deepEqual(elsewhere, []);
    await close();
  });
}

test("what shadow runs know of a policy's loss stands on the page", async () => {
  const watching = await serve(model, ["--policy", "entropy:0.45", "--shadow", "100%"]);
  const { page, troubles, close } = await open({}, watching.address);
  assert.match(await page.textContent("#watched"), /entropy:0\.45: nothing certified .*; no text compared yet/);
  await classify(page, "A great film");
  // Asked once, and five times to be timed: repeats count.
  for (const limit = Date.now() + 20000; !/below [\d.]+ % \(95 % confidence, texts compared: 6\)/.test(await page.textContent("#watched"));) {
    assert.ok(Date.now() < limit, await page.textContent("#watched"));
    await page.evaluate(() => refreshWatched());
  }
  assert.deepEqual(troubles, []);
  await close();
  watching.process.kill("SIGTERM");
});

test("pictures show a right answer of a trained model", { skip: !process.env.SCREENSHOTS }, async () => {
  const trained = await serve(pictured, []);
  for (const colorScheme of ["light", "dark"]) {
    const { page, close } = await open({ colorScheme }, trained.address);
    await classify(page, "The soup was divine, and a lid that closes would keep it that way on the train.");
    assert.equal(await page.textContent("#rungs tr.left td:nth-child(2)"), "suggestion");
    await page.screenshot({ path: join(process.env.SCREENSHOTS, `playground-${colorScheme}.png`), fullPage: true });
    await close();
  }
  trained.process.kill("SIGTERM");
});

test("every control has a name, and the slider says its policy", async () => {
  const { page, close } = await open();
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("input, textarea, button")]
    .filter((control) => !control.labels?.length && !control.textContent.trim()).map((control) => control.id));
  assert.deepEqual(unnamed, []);
  await page.focus("#policy");
  for (let i = 0; i < 3; ++i) await page.keyboard.press("ArrowRight");
  assert.match(await page.getAttribute("#policy", "aria-valuetext"), /^entropy:/);
  await close();
});

test("the slider has each policy once, from full depth on, and begins at the server's own", async () => {
  const { page, close } = await open();
  const named = () => page.getAttribute("#policy", "aria-valuetext");
  assert.equal(await named(), "entropy:0.45 (default)");
  await page.focus("#policy");
  await page.keyboard.press("Home");
  assert.equal(await named(), "full");
  await page.keyboard.press("End");
  assert.equal(await named(), "entropy:0.7");
  const all = await page.evaluate(() => policies);
  assert.equal(new Set(all).size, all.length);
  assert.equal(all.filter((policy) => policy === "entropy:0.45").length, 1);
  await close();
});

test("the text to begin with is one of the model's own data, and none where there is none", async () => {
  const { page, close } = await open();
  assert.equal(await page.inputValue("#text"), "");
  assert.ok(await page.isVisible("#with-pair"), "nobody knows what the model was trained on");
  await close();
  const folder = mkdtempSync(join(tmpdir(), "example-"));
  cpSync(model, join(folder, "own"), { recursive: true });
  writeFileSync(join(folder, "own", "held-out.csv"), 'text,label\n"Free entry, win <b>now</b>",0\n');
  writeFileSync(join(folder, "own", "recipe.json"), '{"run": {"texts": 1}}');
  const own = await serve(join(folder, "own"));
  const { page: other, troubles, close: done } = await open({}, own.address);
  assert.equal(await other.inputValue("#text"), "Free entry, win <b>now</b>");
  assert.ok(await other.isHidden("#with-pair"), "the model was trained on single texts");
  assert.deepEqual(troubles, []);
  await done();
  own.process.kill("SIGTERM");
  rmSync(folder, { recursive: true });
});

for (const [policy, head] of [["margin:0.5", "Margin"], ["patience:1", "Streak"], ["entropy:0.3", "Entropy"]]) {
  test(`beside each exit stands what ${policy} compares`, async () => {
    const own = await serve(model, ["--policy", policy]);
    const { page, troubles, close } = await open({}, own.address);
    await classify(page, "A great film");
    assert.equal(await page.textContent("#measure"), head);
    assert.match(await page.textContent("caption"), new RegExp(`were not run\\. ${head}: `));
    assert.match(await page.textContent("#rungs tr.left td:nth-child(4)"), /^[0-9.]+$/);
    assert.deepEqual(troubles, []);
    await close();
    own.process.kill("SIGTERM");
  });
}

test("both ways are timed when warm, and the page says what was compared", async () => {
  const { page, close } = await open();
  const asked = [];
  page.on("request", (request) => request.url().endsWith("/predict") && asked.push(JSON.parse(request.postData()).exit.policy ?? ""));
  await classify(page, "A great film");
  assert.deepEqual(asked, ["", "full", ...Array.from({ length: 5 }, () => ["", "full"]).flat()]);
  assert.match(await page.textContent("#compared"), /this text by entropy:0\.45 and at full depth, the median of 5 requests each/);
  const times = await page.evaluate(() => [...document.querySelectorAll("#cards .card")]
    .filter((card) => card.textContent.includes("server time")).map((card) => parseFloat(card.textContent)));
  assert.equal(times.length, 2);
  assert.ok(times.every((ms) => ms > 0), "the server's own times: " + times);
  await page.uncheck("#compare");
  await classify(page, "A great film");
  assert.equal(asked.length, 13);
  assert.ok(await page.isHidden("#compared"));
  await close();
});

test("a pair is sent as a pair", async () => {
  const { page, troubles, close } = await open();
  await page.check("#with-pair");
  await page.fill("#pair", "and its end");
  await classify(page, "A great film");
  assert.match(await page.textContent("#status"), /Left after/);
  assert.deepEqual(troubles, []);
  await close();
});

const parts = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "\"><script>alert(1)</script>",
  "javascript:alert(1)", "<iframe srcdoc='<script>alert(1)</script>'>", "<a href=javascript:alert(1)>x</a>", "{{7*7}}", "${alert(1)}",
  "<body onload=alert(1)>", "<math><mi xlink:href=javascript:alert(1)>", "<style>*{display:none}</style>", "</textarea><script>alert(1)</script>"];
const payloads = Array.from({ length: 50 }, (_, i) => parts[i % parts.length] + "‮".repeat(i % 2) + "<b>".repeat(i % 5) + i);

test("fifty texts that try to become markup stay texts", async () => {
  const { page, troubles, elsewhere, close } = await open();
  const count = () => page.evaluate(() => document.querySelectorAll("script, iframe, svg, img, style, b").length);
  await classify(page, "plain");
  const usual = await count();
  for (const payload of payloads) {
    await classify(page, payload);
    assert.equal(await count(), usual, payload);
  }
  assert.deepEqual(troubles, []);
  assert.deepEqual(elsewhere, []);
  await close();
});

const markup = (page) => page.evaluate(() => document.querySelectorAll("script, iframe, svg, img, style, math").length);

// Models whose config.json names its two classes so: 25 of them, each behind a server of its own.
test("fifty labels that try to become markup stay texts", async () => {
  const folder = mkdtempSync(join(tmpdir(), "labels-"));
  for (let i = 0; i < payloads.length; i += 2) {
    const names = payloads.slice(i, i + 2), copy = join(folder, String(i));
    cpSync(model, copy, { recursive: true });
    const config = JSON.parse(readFileSync(join(copy, "config.json"), "utf8"));
    config.id2label = { 0: names[0], 1: names[1] };
    config.label2id = { [names[0]]: 0, [names[1]]: 1 };
    writeFileSync(join(copy, "config.json"), JSON.stringify(config));
    const { process: own, address } = await serve(copy);
    const { page, troubles, elsewhere, close } = await open({}, address);
    const usual = await markup(page);
    await classify(page, "A great film");
    assert.equal(await markup(page), usual, names.join());
    const shown = await page.textContent("#rungs");
    for (const name of names) assert.ok(shown.includes(name), name);
    assert.deepEqual(troubles, []);
    assert.deepEqual(elsewhere, []);
    await close();
    own.kill("SIGTERM");
  }
  rmSync(folder, { recursive: true });
});

// What no sound server sends: every word of an answer is one of them.
test("fifty answers made of markup stay texts", async () => {
  const { page, troubles, close } = await open();
  let turn = 0;
  await page.route("**/predict", async (route) => {
    const label = payloads[turn];
    const exits = [{ layer: 1, label, probabilities: [0.9, 0.1], entropy: 0.1, streak: 0 }];
    await route.fulfill({ json: [label, payloads[(turn + 1) % 50]].map((name, i) => ({ score: 0.9 - i / 2, label: name,
      exit: { layer: 1, layers_run: 1, layers: 3, left_by: label, policy: label, tokens: 3, exits } })) });
  });
  const usual = await markup(page);
  for (turn = 0; turn < payloads.length; ++turn) {
    await classify(page, "x");
    assert.equal(await markup(page), usual, payloads[turn]);
    assert.ok((await page.textContent("#cards")).includes(payloads[turn]), payloads[turn]);
  }
  assert.deepEqual(troubles, []);
  await close();
});

test("an answer before the first layer is said to come from the words alone", async () => {
  const { page, troubles, close } = await open();
  const exits = [{ layer: 0, label: "spam", probabilities: [0.9, 0.1], entropy: 0.1, streak: 0 }];
  await page.route("**/predict", (route) => route.fulfill({ json: ["spam", "ham"].map((label, i) => ({ score: 0.9 - 0.8 * i, label,
    exit: { layer: 0, layers_run: 0, layers: 3, left_by: "policy", policy: "entropy:0.2", tokens: 3, exits } })) }));
  await classify(page, "free money");
  assert.match(await page.textContent("#status"), /Answered from the words alone, before layer 1 of 3, by policy/);
  assert.match(await page.textContent("#cards"), /3 of 3/);
  assert.match(await page.textContent("#rungs tr >> nth=0"), /^0spam.*left here/);
  assert.deepEqual(troubles, []);
  await close();
});

test("the slider changes the policy, full depth is shown beside it, and the request can be copied", async () => {
  const { page, troubles, close } = await open();
  await page.focus("#policy");
  await page.keyboard.press("End");
  await classify(page, "It's a great film");
  assert.match(await page.textContent("#cards"), /entropy:0\.7policy/);
  assert.match(await page.textContent("#cards"), /full depth says/);
  assert.equal(await page.locator("#rungs tr").count(), 3);
  assert.match(await page.textContent("#rungs tr >> nth=0"), /%/);
  await page.uncheck("#compare");
  await classify(page, "It's a great film");
  assert.doesNotMatch(await page.textContent("#cards"), /full depth says/);
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));  // as without TLS
  await page.click("#curl");
  await until(page, () => document.getElementById("copied").textContent !== "");
  const command = await page.textContent("#copied");
  const output = await new Promise((done) => {
    const shell = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "ignore"] });
    let text = "";
    shell.stdout.on("data", (bytes) => { text += bytes; });
    shell.on("close", () => done(text));
  });
  assert.equal(JSON.parse(output)[0].exit.policy, "entropy:0.7");
  assert.deepEqual(troubles, []);
  await close();
});

test("a page may ask through fetch as any client does, and reads every protocol", async () => {
  const { page, troubles, close } = await open();
  const answers = await page.evaluate(async () => {
    const ask = async (path, body) => {
      const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      return { status: response.status, layer: response.headers.get("x-exit-layer"), body: await response.json() };
    };
    const info = await (await fetch("info")).json();
    return [await ask("predict", { inputs: [["one"], ["two", "three"]] }), await ask("classify", { input: ["one", "two"] }),
      await ask(`v2/models/${info.model_id}/infer`, { inputs: [{ name: "text", shape: [1], datatype: "BYTES", data: ["one"] }] })];
  });
  assert.deepEqual(answers.map((answer) => answer.status), [200, 200, 200]);
  assert.equal(answers[0].body.length, 2);
  assert.equal(answers[1].body.data.length, 2);
  assert.equal(answers[2].body.outputs[0].name, "label");
  assert.match(answers[0].layer, /^\d+,\d+$/);
  assert.deepEqual(troubles, []);
  await close();
});

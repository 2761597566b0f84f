// SPDX-License-Identifier: Apache-2.0
// The report in a real browser: no errors, nothing fetched, readable without scripts, hover and zoom with them.
//   REPORT=report.html [SCREENSHOTS=folder] node --test tests/system/browser/
import assert from "node:assert/strict";
import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { launch, openPage } from "./chromium.mjs";
import { faintTexts } from "./contrast.mjs";

const report = resolve(process.env.REPORT ?? "report.html");
let browser;

before(async () => { browser = await launch(); });
after(async () => browser?.close());

// A page with the report open, and what went wrong or was fetched on the way.
const open = (options, file = report) => openPage(browser, pathToFileURL(file).href, options);

// The size of the page, and where its sections begin: pictures are cut there and not through a figure.
async function measures(page) {
  return page.evaluate(() => ({ width: innerWidth, height: document.documentElement.scrollHeight,
    sections: [...document.querySelectorAll("h2")].map((title) => Math.floor(title.getBoundingClientRect().top + scrollY) - 12) }));
}

const demo = resolve("build/demo/report.html");
test("a picture of the demo's report ends with a section", { skip: !process.env.SCREENSHOTS || !existsSync(demo) }, async () => {
  const { page, close } = await open({}, demo);
  const { width, height, sections } = await measures(page);
  const clip = { x: 0, y: 0, width, height: Math.max(...sections.filter((top) => top < 1700), Math.min(height, 500)) };
  await page.screenshot({ path: join(process.env.SCREENSHOTS, "demo-report.png"), fullPage: true, clip });
  await close();
});

test("the file stays within 300 KB", () => assert.ok(statSync(report).size <= 300 * 1024, `${statSync(report).size} bytes`));

for (const colorScheme of ["light", "dark"]) {
  test(`${colorScheme}: no console error, no request beyond the file itself`, async () => {
    const { page, troubles, fetched, close } = await open({ colorScheme });
    await page.waitForTimeout(200);
    assert.deepEqual(troubles, []);
    assert.deepEqual(fetched, [pathToFileURL(report).href]);
    const [paper, ink] = await page.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]);
    const bright = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3;
    assert.equal(bright(paper) > bright(ink), colorScheme === "light", `${paper} under ${ink}`);
    if (process.env.SCREENSHOTS) {
      const { width, height, sections } = await measures(page);
      const middle = sections.sort((a, b) => Math.abs(a - height / 2) - Math.abs(b - height / 2))[0];
      const parts = [{ x: 0, y: 0, width, height: middle }, { x: 0, y: middle, width, height: height - middle }];
      for (const [part, clip] of parts.entries()) {  // each small enough for a repository
        await page.screenshot({ path: join(process.env.SCREENSHOTS, `report-${colorScheme}-${part + 1}.png`), fullPage: true, clip });
      }
    }
    const size = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(size[0] <= size[1], `the page is ${size[0]} wide in a window of ${size[1]}`);
    await page.evaluate(() => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
    assert.deepEqual(await faintTexts(page), []);
    await close();
  });
}

test("with scripts off every chart and its values are there", async () => {
  const { page, close } = await open({ javaScriptEnabled: false });
  assert.ok(await page.locator("svg.chart").count() >= 3);
  assert.ok(await page.locator("svg.chart .mark title").count() > 0);
  for (const svg of await page.locator("svg.chart").all()) assert.ok((await svg.boundingBox()).height > 100);
  await close();
});

test("every part is there, and the certificate of the run that has one", async () => {
  const { page, close } = await open({ javaScriptEnabled: false });
  const parts = await page.locator("h2").allTextContents();
  assert.deepEqual(parts, ["Quality against speed-up", "Quality at each exit", "Exit distribution", "Calibration", "Classes",
                           "Certificates", "Settings", "Examples", "Environment"]);
  assert.match(await page.locator("#certificates + p").textContent(), /at most 1 % of answers to requests differ .* confidence 95 %/);
  assert.equal(await page.locator(".glance tr").count(), 4);
  await close();
});

test("no text of a chart lies outside it or over another", async () => {
  const { page, close } = await open();
  const trouble = await page.evaluate(() => {
    const found = [];
    for (const svg of document.querySelectorAll("svg.chart")) {
      const frame = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
      for (const [name, box] of texts) {
        if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) found.push(`${name} leaves its chart`);
      }
      for (let i = 0; i < texts.length; ++i) {
        for (let j = 0; j < i; ++j) {
          const [a, b] = [texts[i][1], texts[j][1]];
          if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) found.push(`${texts[i][0]} over ${texts[j][0]}`);
        }
      }
    }
    return found;
  });
  assert.deepEqual(trouble, []);
  await close();
});

test("hovering a point shows its values", async () => {
  const { page, close } = await open();
  const point = page.locator("svg.chart .plot .mark").last();
  await point.scrollIntoViewIfNeeded();
  const box = await point.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const tip = page.locator("#tip");
  assert.equal(await tip.isVisible(), true);
  assert.match(await tip.textContent(), /\d/);
  const key = page.locator("svg.chart .key .mark").first();
  await key.scrollIntoViewIfNeeded();
  const sign = await key.boundingBox();
  await page.mouse.move(sign.x + sign.width / 2, sign.y + sign.height / 2);
  assert.equal(await tip.isVisible(), false, "a sign of the legend has nothing to say");
  await close();
});

test("a chart zooms with the wheel and returns with a double click", async () => {
  const { page, close } = await open();
  const chart = page.locator('svg[data-kind="xy"]').first();
  await chart.scrollIntoViewIfNeeded();
  const before = await chart.getAttribute("viewBox");
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -400);
  await page.keyboard.up("Control");
  await page.waitForTimeout(100);
  assert.notEqual(await chart.getAttribute("viewBox"), before);
  await chart.dblclick();
  assert.equal(await chart.getAttribute("viewBox"), before);
  await close();
});

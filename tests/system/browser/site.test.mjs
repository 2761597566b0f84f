// SPDX-License-Identifier: Apache-2.0
// The pages of scripts/site in a real browser, from a folder: no errors, nothing fetched from elsewhere, the search finds.
//   SITE=build/browser/site node --test tests/system/browser/
import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { launch, openPage } from "./chromium.mjs";
import { faintTexts } from "./contrast.mjs";

const site = resolve(process.env.SITE ?? "build/browser/site");
const address = (name) => pathToFileURL(join(site, name)).href;
let browser;

before(async () => { browser = await launch(); });
after(async () => browser?.close());

const open = (name, options) => openPage(browser, address(name), options);

for (const colorScheme of ["light", "dark"]) {
  test(`${colorScheme}: pages have no error, load files of the folder alone, and are as wide as the window`, async () => {
    for (const name of ["index.html", "README.html", "docs/cli.html", "lab/notebooks/reproducing.html"]) {
      for (const width of [1060, 420]) {
        const { page, troubles, fetched, close } = await open(name, { colorScheme, viewport: { width, height: 900 } });
        assert.deepEqual(troubles, []);
        assert.deepEqual(fetched.filter((url) => !url.startsWith(pathToFileURL(site).href)), []);
        const [inside, outside] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(inside <= outside, `${name} is ${inside} wide in a window of ${outside}`);
        if (name === "index.html") assert.deepEqual(await faintTexts(page), []);
        await close();
      }
    }
  });
}

test("the search finds a section by its words and leads to it, from a page in a folder", async () => {
  const { page, troubles, close } = await open("docs/decisions/0001-record-decisions.html");
  await page.getByLabel("Search these pages").fill("scikit-learn predict_proba");
  await page.locator("#found a").first().waitFor();
  const found = await page.locator("#found a").allTextContents();
  assert.ok(found.some((name) => name.startsWith("Python")), found.join());
  await page.locator("#found a", { hasText: "Python" }).first().click();
  await page.waitForURL(/docs\/python\.html#/);
  await page.getByLabel("Search these pages").fill("nosuchwordanywhere");
  await page.getByText("Nothing has all of these words.").waitFor();
  assert.equal(await page.locator("#found a").count(), 0);
  assert.deepEqual(troubles, []);
  await close();
});

test("without scripts the pages and their links are there, and no search that cannot work", async () => {
  const { page, close } = await open("index.html", { javaScriptEnabled: false });
  assert.equal(await page.locator("h2").count(), 3);
  assert.equal(await page.locator("input").count(), 0);
  await page.getByRole("link", { name: "your data", exact: true }).click();
  await page.waitForURL(address("docs/your-data.html"));
  await close();
});

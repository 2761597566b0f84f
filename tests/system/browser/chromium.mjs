// SPDX-License-Identifier: Apache-2.0
// Headless Chromium, and a page in it with what went wrong and what was fetched on the way.
import { chromium } from "playwright-core";

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"],
});

export async function openPage(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1060, height: 900 }, ...options });
  const page = await context.newPage();
  const troubles = [], fetched = [];
  page.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
  page.on("pageerror", (error) => troubles.push(String(error)));
  page.on("request", (request) => fetched.push(request.url()));
  await page.goto(address);
  return { page, troubles, fetched, close: () => context.close() };
}

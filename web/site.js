// SPDX-License-Identifier: Apache-2.0
// The search of scripts/site: sections that have every word of the question, those with words in their names first. Nothing is fetched
// but site-index.js, a script beside this one.
"use strict";
const root = document.currentScript.dataset.root;
const box = document.createElement("div");
box.id = "search";
box.innerHTML = '<input type="search" placeholder="Search" aria-label="Search these pages" autocomplete="off"><ol id="found" aria-live="polite"></ol>';
document.querySelector("header").append(box);
const input = box.querySelector("input"), list = box.querySelector("ol");
let sections = null;

function exeuntSections(found) {
  sections = found.map(([url, page, name, text]) => ({ url, page, name, text, title: `${page} ${name}`.toLowerCase(), low: text.toLowerCase() }));
  show();
}

function ranked(question) {
  const words = question.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const scored = [];
  for (const one of sections) {
    let score = 0;
    for (const word of words) {
      const inTitle = one.title.includes(word), inText = one.low.split(word).length - 1;
      if (!inTitle && inText === 0) { score = 0; break; }
      score += (inTitle ? 20 : 0) + Math.min(inText, 5);
    }
    if (score > 0) scored.push([score, one]);
  }
  return scored.sort((a, b) => b[0] - a[0]).slice(0, 12).map(([, one]) => [one, words[0]]);
}

function show() {
  if (sections === null) return;
  const found = ranked(input.value);
  list.replaceChildren(...found.map(([one, word]) => {
    const item = document.createElement("li"), link = document.createElement("a"), around = document.createElement("span");
    link.href = root + one.url;
    link.textContent = one.name === one.page ? one.page : `${one.page}: ${one.name}`;
    const at = Math.max(0, one.low.indexOf(word) - 60);
    around.textContent = one.text.slice(at, at + 160);
    item.append(link, around);
    return item;
  }));
  if (found.length === 0 && input.value.trim() !== "") list.append(Object.assign(document.createElement("li"), { textContent: "Nothing has all of these words." }));
}

input.addEventListener("focus", () => {
  if (document.getElementById("sections")) return;
  document.head.append(Object.assign(document.createElement("script"), { id: "sections", src: `${root}site-index.js` }));
});
input.addEventListener("input", show);
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter") list.querySelector("a")?.click();
  if (event.key === "Escape") { input.value = ""; show(); }
});

// SPDX-License-Identifier: Apache-2.0
// Texts of a page that are hard to read: less contrast to what lies behind them than 4.5 to 1, as WCAG 2 counts it.
export async function faintTexts(page) {
  return page.evaluate(() => {
    const parts = (colour) => { const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
    const over = ([r, g, b, a], below) => [r, g, b].map((one, i) => a * one + (1 - a) * below[i]);
    // What lies behind an element: the backgrounds of those around it, from the page on.
    const behind = (element) => {
      const around = [];
      for (let one = element; one; one = one.parentElement) around.unshift(getComputedStyle(one).backgroundColor);
      return around.reduce((below, colour) => over(parts(colour), below), [255, 255, 255]);
    };
    const opacity = (element) => {
      let all = 1;
      for (let one = element; one; one = one.parentElement) all *= Number(getComputedStyle(one).opacity);
      return all;
    };
    const light = (colour) => {
      const [r, g, b] = colour.map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
      const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).join("").trim();
      const box = element.getBoundingClientRect();
      if (!own || !box.width || !box.height || element.closest("title, style, script, [hidden]")) continue;
      const style = getComputedStyle(element), paper = behind(element);
      const [r, g, b, a] = parts(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
      const ink = over([r, g, b, a * opacity(element)], paper);
      const [high, low] = [light(ink), light(paper)].sort((one, other) => other - one);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio < 4.5) found.push(`${own.slice(0, 40)}: ${ratio.toFixed(1)}`);
    }
    return found;
  });
}

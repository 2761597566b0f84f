// Hover and zoom for the report's charts. Everything is readable without this: marks carry their text in <title>.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  // The title of a mark becomes our own tip, so that it appears at once and in the page's look.
  const textOf = (mark) => {
    if (!mark.dataset.text) {
      const title = mark.querySelector("title");
      if (!title) return "";
      mark.dataset.text = title.textContent;
      title.remove();
    }
    return mark.dataset.text;
  };
  document.addEventListener("pointermove", (event) => {
    const mark = event.target instanceof Element && event.target.closest("svg .mark, svg .rule");
    const text = mark ? textOf(mark) : "";  // marks of a legend have none
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 10) + "px";
  });

  // Ctrl + wheel zooms a chart around the pointer, dragging moves it, a double click shows all of it again.
  for (const svg of document.querySelectorAll('svg[data-kind="xy"]')) {
    const whole = svg.getAttribute("viewBox").split(" ").map(Number);
    let view = [...whole];
    const show = () => svg.setAttribute("viewBox", view.join(" "));
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      return [view[0] + (event.clientX - box.left) / box.width * view[2], view[1] + (event.clientY - box.top) / box.height * view[3]];
    };
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const [x, y] = place(event), size = Math.min(whole[2], Math.max(whole[2] / 20, view[2] * Math.exp(event.deltaY * 0.002)));
      const scale = size / view[2];
      view = [x - (x - view[0]) * scale, y - (y - view[1]) * scale, size, view[3] * scale];
      show();
    }, { passive: false });
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      if (view[2] < whole[2]) { from = place(event); svg.setPointerCapture(event.pointerId); }
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x, y] = place(event);
      view[0] += from[0] - x;
      view[1] += from[1] - y;
      show();
    });
    svg.addEventListener("pointerup", () => { from = null; });
    svg.addEventListener("dblclick", () => { view = [...whole]; show(); });
  }
})();

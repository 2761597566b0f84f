# SPDX-License-Identifier: Apache-2.0
"""Small line charts side by side as one SVG, readable on light and dark pages. No library is needed."""
from html import escape

COLOURS = ('#d9622b', '#2b7bd9', '#2f9e58', '#9a4fc7', '#b08a1e', '#d13f7e', '#7a7f87', '#159a9c')
GREY, WIDTH, HEIGHT, ACROSS = '#80868e', 300, 220, 3
LEFT, RIGHT, TOP, BOTTOM, LEGEND = 38, 10, 26, 34, 18


def ticks(low, high, wanted):
    """Round numbers between `low` and `high`."""
    step = next(size for size in (0.5, 1, 2, 5, 10, 20, 50) if (high - low) / size <= wanted)
    first = -(-low // step) * step
    return [first + i * step for i in range(int((high - first) / step) + 1)]


def panel(title, lines, at, size=(WIDTH, HEIGHT), floor=None):
    """One chart: `lines` is {name: [(x, y) or (x, y, spread), ...]}, a spread giving a band; `at` its upper left corner. What lies
    below `floor` is cut off."""
    points = [point for line in lines.values() for point in line]
    x0, x1 = min(point[0] for point in points), max(point[0] for point in points)
    shown = [point for point in points if floor is None or point[1] >= floor]
    y0, y1 = min(point[1] for point in shown), max(sum(point[1:]) for point in shown)
    y0, y1 = y0 - 0.05 * (y1 - y0 + 1), y1 + 0.05 * (y1 - y0 + 1)
    across, down = size[0] - LEFT - RIGHT, size[1] - TOP - BOTTOM

    def x_of(x):
        return at[0] + LEFT + across * (x - x0) / ((x1 - x0) or 1)

    def y_of(y):
        return at[1] + TOP + down * (y1 - y) / (y1 - y0)

    def path(line):
        return ' '.join(f'{x_of(x):.1f},{y_of(y):.1f}' for x, y in line)
    out = [f'<text x="{at[0] + LEFT}" y="{at[1] + 16}" font-weight="bold">{escape(title)}</text>']
    for y in ticks(y0, y1, size[1] // 55):
        out.append(f'<path d="M{x_of(x0):.1f} {y_of(y):.1f}H{x_of(x1):.1f}" stroke="{GREY}" stroke-opacity=".3"/>'
                   f'<text x="{at[0] + LEFT - 5}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks(x0, x1, size[0] // 75):
        out.append(f'<text x="{x_of(x):.1f}" y="{at[1] + size[1] - BOTTOM + 15}" text-anchor="middle">{x:g}</text>')
    drawn = []
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        line = sorted(line)
        band = [(x, y + spread) for x, y, *spreads in line for spread in spreads] + [
            (x, y - spread) for x, y, *spreads in reversed(line) for spread in spreads]
        if band:
            drawn.append(f'<polygon points="{path(band)}" fill="{colour}" fill-opacity=".15"/>')
        drawn.append(f'<polyline points="{path(point[:2] for point in line)}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        drawn += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.2" fill="{colour}"><title>{escape(name)}: {y:.1f}'
                  f'{"".join(f" ± {spread:.1f}" for spread in spreads)} at {x:.1f}</title></circle>' for x, y, *spreads in line]
    if floor is not None:
        drawn = [f'<clipPath id="plot"><rect x="{at[0] + LEFT - 3}" y="{at[1] + TOP}" width="{across + 6}" height="{down}"/></clipPath>',
                 '<g clip-path="url(#plot)">', *drawn, '</g>']
    return '\n'.join(out + drawn)


def panels(charts, caption, size=(WIDTH, HEIGHT), floor=None):
    """`charts`: {title: {name: [(x, y), ...]}}, all with the same names."""
    across = min(ACROSS, len(charts))
    width, top = across * size[0], -(-len(charts) // ACROSS) * size[1]
    places, x, y = [], LEFT, top
    for name in next(iter(charts.values())):
        if x + 30 + 7 * len(name) > width:
            x, y = LEFT, y + LEGEND
        places.append((name, x, y))
        x += 40 + 7 * len(name)
    if x + 6 * len(caption) > width:
        y += LEGEND
    height = y + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'font-family="sans-serif" font-size="11" fill="{GREY}" role="img" aria-label="{escape(caption)}">']
    for i, (title, lines) in enumerate(charts.items()):
        out.append(panel(title, lines, (i % ACROSS * size[0], i // ACROSS * size[1]), size, floor))
    for (name, x, y), colour in zip(places, COLOURS, strict=False):
        out.append(f'<path d="M{x} {y + 14}h18" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{x + 23}" y="{y + 18}">{escape(name)}</text>')
    out.append(f'<text x="{width - RIGHT}" y="{height - 12}" text-anchor="end">{escape(caption)}</text></svg>')
    return '\n'.join(out) + '\n'

# SPDX-License-Identifier: Apache-2.0
"""Small line charts side by side as one SVG, readable on light and dark pages. No library is needed."""
from html import escape

COLOURS = ('#d9622b', '#2b7bd9', '#2f9e58', '#9a4fc7')
GREY, WIDTH, HEIGHT, ACROSS = '#80868e', 300, 220, 3
LEFT, RIGHT, TOP, BOTTOM = 38, 10, 26, 34


def ticks(low, high, wanted=4):
    """Round numbers between `low` and `high`."""
    step = next(size for size in (0.5, 1, 2, 5, 10, 20, 50) if (high - low) / size <= wanted)
    first = -(-low // step) * step
    return [first + i * step for i in range(int((high - first) / step) + 1)]


def panel(title, lines, at):
    """One chart: `lines` is {name: [(x, y), ...]}; `at` its upper left corner."""
    points = [point for line in lines.values() for point in line]
    (x0, x1), (y0, y1) = ((min(values), max(values)) for values in zip(*points))
    y0, y1 = y0 - 0.05 * (y1 - y0 + 1), y1 + 0.05 * (y1 - y0 + 1)
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(x):
        return at[0] + LEFT + across * (x - x0) / ((x1 - x0) or 1)

    def y_of(y):
        return at[1] + TOP + down * (y1 - y) / (y1 - y0)
    out = [f'<text x="{at[0] + LEFT}" y="{at[1] + 16}" font-weight="bold">{escape(title)}</text>']
    for y in ticks(y0, y1):
        out.append(f'<path d="M{x_of(x0):.1f} {y_of(y):.1f}H{x_of(x1):.1f}" stroke="{GREY}" stroke-opacity=".3"/>'
                   f'<text x="{at[0] + LEFT - 5}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks(x0, x1):
        out.append(f'<text x="{x_of(x):.1f}" y="{at[1] + HEIGHT - BOTTOM + 15}" text-anchor="middle">{x:g}</text>')
    for (name, line), colour in zip(lines.items(), COLOURS):
        path = ' '.join(f'{x_of(x):.1f},{y_of(y):.1f}' for x, y in sorted(line))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.2" fill="{colour}"><title>{escape(name)}: {y:.1f} at {x:.1f}'
                '</title></circle>' for x, y in line]
    return '\n'.join(out)


def panels(charts, caption):
    """`charts`: {title: {name: [(x, y), ...]}}, all with the same names."""
    rows = -(-len(charts) // ACROSS)
    width, height = ACROSS * WIDTH, rows * HEIGHT + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'font-family="sans-serif" font-size="11" fill="{GREY}" role="img" aria-label="{escape(caption)}">']
    for i, (title, lines) in enumerate(charts.items()):
        out.append(panel(title, lines, (i % ACROSS * WIDTH, i // ACROSS * HEIGHT)))
    x = LEFT
    for name, colour in zip(next(iter(charts.values())), COLOURS):
        out.append(f'<path d="M{x} {height - 16}h18" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{x + 23}" y="{height - 12}">{escape(name)}</text>')
        x += 40 + 7 * len(name)
    out.append(f'<text x="{width - RIGHT}" y="{height - 12}" text-anchor="end">{escape(caption)}</text></svg>')
    return '\n'.join(out) + '\n'

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the demo is there to show: depth helps, and most texts do not need it.

    demo_slow.py EXEUNT BACKBONE SEED [more arguments of scripts/demo]

The first exit lies at least 5 points below the last on certify.csv, and layers / average layers on the report part is above
1.2 with at most 2 % of the answers changed. Minutes on two cores; a line with the figures is printed.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]


def main():
    program, backbone, seed, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, ROOT / "scripts" / "demo", pathlib.Path(program).resolve(), "--backbone", backbone,
                        "--seed", seed, "--out", f"{out}/demo", *more], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, XDG_STATE_HOME=out))  # where tries on the same texts are counted
        s = json.loads(pathlib.Path(out, "demo/summary.json").read_text())
    depth, gain = s["accuracy"][-1] - s["accuracy"][0], s["gain"]
    good = depth >= 5 and gain > 1.2
    print(f"{backbone} seed {seed}: exits {' '.join(f'{a:.1f}' for a in s['accuracy'])}, depth is worth {depth:.1f} points, "
          f"{gain:.2f} times fewer layers, {s['speed_up']:.2f} times faster, accuracy {s['report_early']:.1f} for "
          f"{s['report_full']:.1f}, {s['train_seconds']:.0f} of {s['seconds']:.0f} s trained: "
          f"{'good' if good else 'NOT GOOD'}", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()

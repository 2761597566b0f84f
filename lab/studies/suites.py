# SPDX-License-Identifier: Apache-2.0
"""A suite of training runs in one JSONL file: a line for each run, and before the first that uses it a line for each recipe.

    {"id": "pabee-52c1f0a9", "settings": {...}}                          what recipe.json holds of every such run
    {"task": "RTE", ..., "settings": {"id": "pabee-52c1f0a9", "seed": 42, "run": {...}, "provenance": {...}}, ...}
"""
import hashlib
import json
import struct
from pathlib import Path

OF_A_RUN = ('seed', 'run', 'provenance')  # fields of recipe.json that belong to the run, not to the recipe


def read_suite(path):
    """Its runs in the order of the file, each with its whole `settings`; none where there is no such file."""
    recipes, runs = {}, []
    for number, line in enumerate(Path(path).read_text(encoding='utf-8').splitlines() if Path(path).exists() else [], 1):
        try:
            entry = json.loads(line)
            if 'id' in entry:
                recipes[entry['id']] = entry['settings']
                continue
            if 'settings' in entry:
                own = dict(entry['settings'])
                entry['settings'] = recipes[own.pop('id')] | own
            runs.append(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f'{path}:{number}: {type(error).__name__}: {error}') from None
    return runs


def append_run(path, run):
    """Adds `run`, and its recipe where the file does not hold it yet."""
    settings = run['settings']
    recipe = {name: value for name, value in settings.items() if name not in OF_A_RUN}
    text = json.dumps(recipe, ensure_ascii=False)
    name = f"{recipe['name']}-{hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:8]}"
    own = {'id': name} | {field: settings[field] for field in OF_A_RUN if field in settings}
    lines = '' if holds(path, name) else f'{{"id": "{name}", "settings": {text}}}\n'
    lines += json.dumps(run | {'settings': own}, ensure_ascii=False) + '\n'
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'a', encoding='utf-8') as file:
        file.write(lines)


def holds(path, name):
    if not Path(path).exists():
        return False
    with open(path, encoding='utf-8') as file:
        return any(line.startswith(f'{{"id": "{name}",') for line in file)


def read_arrays(path):
    """(header, {name: bytes}) of a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + size])
    return header, {name: data[8 + size + part['data_offsets'][0]:8 + size + part['data_offsets'][1]]
                    for name, part in header.items() if name != '__metadata__'}

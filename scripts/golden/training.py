#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every training recipe must compute: loss and gradients at step 0, and ten optimiser steps without dropout.

    training.py OUT        writes OUT/<case>.safetensors

Plain PyTorch in double precision that shares nothing with the C++ trainer: the network is a function over a dictionary,
gradient rules are hooks, the optimiser is spelled out, and the table CASES says again what each recipe means. Needs torch
alone. A file holds init.*, gradient.* (as the optimiser would get them, before clipping) and final.* in fp32, the losses
of all steps, ids, types, lengths and gold of all batches, and the case as JSON in its metadata.
"""
import json, pathlib, struct, sys

import torch
import torch.nn.functional as F

L, D, HEADS, INNER, VOCAB, POSITIONS, EMBEDDING = 3, 8, 2, 12, 20, 12, 5
ROWS, BATCHES, LR = 4, 10, 2e-3
CLASSES = 3
D64 = torch.float64

DEE = dict(stages=[dict(objective="last", train="backbone"), dict(objective="early_sum", train="exits")])
BASE = dict(pooler="own", classifier="own", reader=False, lte=False, exits="all", gradient="none", weight_decay=0.0, warmup=0.0,
            head_lr=1.0, clip=1.0, clip_scope="all", adamw="hf", kl="element", fresh=False, gamma=0.9, temperature=3.0,
            variant="last", stages=[dict(objective="sum", train="all")])
RECIPES = {
    "plain": dict(exits="last", stages=[dict(objective="last", train="all")]),
    "deebert": DEE,
    "deebert-sd": dict(stages=[DEE["stages"][0], dict(objective="distill_early", train="exits")]),
    "pabee": dict(pooler="shared", stages=[dict(objective="linear", train="all")]),
    "elasticbert": dict(gradient="equilibrium", weight_decay=0.1, warmup=0.06),
    "elasticbert-static": dict(exits="last", weight_decay=0.1, warmup=0.06, stages=[dict(objective="last", train="all")]),
    "romebert-sd": dict(stages=[dict(objective="distill", train="all")]),
    "romebert": dict(gradient="project", stages=[dict(objective="distill", train="all")]),
    "elbert": dict(pooler="shared", classifier="shared", stages=[dict(objective="learned", train="all")]),
    "elbert-equal": dict(pooler="shared", classifier="shared"),
    "berxit": dict(lte=True, stages=[dict(objective="alternate", train="all")]),
    "exeunt": dict(reader=True, gradient="equilibrium", warmup=0.06, head_lr=5.0),
    "attach": dict(reader="own_but_last", warmup=0.06, clip_scope="trainable", adamw="torch", kl="batch", gamma=1.0, temperature=1.0,
                   stages=[dict(objective="last", train="backbone"),
                           dict(objective="distill_early", train="exits", weight_decay=0.01, clip=0.0)]),
}
# name: recipe, family, and how it departs from the recipe: `here` for this script, `patch` the same as a JSON patch.
CASES = {
    "plain_bert": ("plain", "bert", {}),
    "deebert_bert": ("deebert", "bert", {}),
    "deebert_roberta": ("deebert", "roberta", {}),
    "deebert_clip_trainable": ("deebert", "bert", dict(here=dict(clip_scope="trainable"), patch={"compat": {"clip_scope": "trainable"}})),
    "deebert_sd_bert": ("deebert-sd", "bert", {}),
    "pabee_bert": ("pabee", "bert", {}),
    "pabee_albert": ("pabee", "albert", {}),
    "pabee_regression": ("pabee", "bert", dict(regression=True)),
    "elasticbert": ("elasticbert", "elasticbert", {}),
    "elasticbert_albert": ("elasticbert", "albert", {}),
    "elasticbert_static": ("elasticbert-static", "elasticbert", {}),
    "romebert_sd_bert": ("romebert-sd", "bert", {}),
    "romebert_sd_roberta": ("romebert-sd", "roberta", {}),
    "romebert_sd_regression": ("romebert-sd", "bert", dict(regression=True)),
    "romebert_sd_batch_kl": ("romebert-sd", "bert", dict(here=dict(kl="batch"), patch={"compat": {"kd_kl_reduction": "batch"}})),
    "romebert_early_anchor": ("romebert", "bert", {}),
    "romebert_last_anchor": ("romebert", "bert", dict(anchor_last=True)),
    "romebert_accumulated": ("romebert", "bert", dict(accumulation=2)),
    "romebert_logit_scale": ("romebert-sd", "bert", dict(here=dict(gradient="logit_scale"), patch={"gradient": {"rule": "logit_scale"}})),
    "elbert_albert": ("elbert", "albert", {}),
    "elbert_fresh": ("elbert", "albert", dict(here=dict(fresh=True), patch={"compat": {"dyn_grad": "fresh"}})),
    "elbert_equal_albert": ("elbert-equal", "albert", {}),
    "berxit_bert": ("berxit", "bert", {}),
    "berxit_albert": ("berxit", "albert", {}),
    "berxit_regression": ("berxit", "bert", dict(regression=True)),
    "berxit_without_lte": ("berxit", "bert", dict(here=dict(lte=False), patch={"heads": {"lte": False}})),
    "exeunt_bert": ("exeunt", "bert", {}),
    "exeunt_roberta": ("exeunt", "roberta", {}),
    "exeunt_albert": ("exeunt", "albert", {}),
    "exeunt_elasticbert": ("exeunt", "elasticbert", {}),
    "exeunt_regression": ("exeunt", "bert", dict(regression=True)),
    "exeunt_torch_adamw": ("exeunt", "bert", dict(here=dict(adamw="torch", weight_decay=0.1), weight_decay=0.1, patch={"compat": {"adamw": "torch"}})),
}
for variant in ("chain", "bidir", "berxit", "group"):
    CASES[f"distill_{variant}"] = ("romebert-sd", "bert", dict(here=dict(variant=variant), variant=variant))
CASES["attach_bert"] = ("attach", "bert", {})


def family_of(name):
    f = dict(family=name, layers=L, hidden=D, heads=HEADS, inner=INNER, vocab=VOCAB, positions=POSITIONS, segments=2, embedding=D,
             groups=0, pad_id=0, position_offset=0, norm_eps=1e-12, activation="gelu")
    if name == "roberta":
        f.update(segments=1, pad_id=1, position_offset=2, norm_eps=1e-5, positions=POSITIONS + 2)
    if name == "albert":
        f.update(embedding=EMBEDDING, groups=1, activation="gelu_new")
    return f


def has_reader(r, exit, exits):
    return bool(r["reader"]) and not (r["reader"] == "own_but_last" and exit == exits - 1)


def make_parameters(f, r, outputs, generator):
    """Random weights under our names, large enough that nothing is near zero or linear."""
    p = {}

    def draw(name, *shape, scale=None, centre=0.0):
        p[name] = centre + torch.randn(*shape, generator=generator, dtype=D64) * (scale or 1.0 / shape[-1] ** 0.5)

    def linear(name, rows, columns):
        draw(name + ".weight", rows, columns)
        draw(name + ".bias", rows, scale=0.2)

    def norm(name, size):
        draw(name + ".weight", size, scale=0.2, centre=1.0)
        draw(name + ".bias", size, scale=0.2)

    e, d = f["embedding"], f["hidden"]
    for table, rows in (("word", f["vocab"]), ("position", f["positions"]), ("segment", f["segments"])):
        draw(f"embeddings.{table}.weight", rows, e, scale=0.7)
    norm("embeddings.norm", e)
    if f["family"] == "albert":
        linear("embeddings.project", d, e)
    for i in range(f["groups"] or f["layers"]):
        prefix = f"{'group' if f['groups'] else 'layer'}.{i}."
        for part in ("query", "key", "value", "output"):
            linear(prefix + part, d, d)
        norm(prefix + "attention_norm", d)
        linear(prefix + "ffn1", f["inner"], d)
        linear(prefix + "ffn2", d, f["inner"])
        norm(prefix + "ffn_norm", d)
    exits = f["layers"] if r["exits"] == "all" else 1
    for i in range(exits):
        if has_reader(r, i, exits):
            draw(f"exits.reader.{i}.weight", d, scale=0.3)
    for i in range(exits if r["pooler"] == "own" else 1):
        linear(f"exits.pooler.{i}", d, 2 * d if has_reader(r, i, exits) else d)
    for i in range(exits if r["classifier"] == "own" else 1):
        linear(f"exits.classifier.{i}", outputs, d)
    if r["lte"]:
        linear("exits.lte", 1, d)
    # What C++ starts from is fp32, so the doubles are made equal to it.
    return {k: v.float().to(D64).requires_grad_() for k, v in p.items()}


def scaled(x, factor):
    """x, with the gradient that comes back through it multiplied by `factor`."""
    y = x.clone()
    y.register_hook(lambda g: g * factor)
    return y


def forward(p, f, r, batch):
    """Logits of all exits, and the doubt of the learning-to-exit head."""
    ids, types, mask = batch["ids"], batch["types"], batch["mask"]
    lin = lambda name, x: F.linear(x, p[name + ".weight"], p[name + ".bias"])
    norm = lambda name, x: F.layer_norm(x, (x.shape[-1],), p[name + ".weight"], p[name + ".bias"], f["norm_eps"])
    act = F.gelu if f["activation"] == "gelu" else lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x ** 3)))
    places = torch.arange(ids.shape[1]) + f["position_offset"]
    h = norm("embeddings.norm", p["embeddings.word.weight"][ids] + p["embeddings.position.weight"][places] + p["embeddings.segment.weight"][types])
    if f["family"] == "albert":
        h = lin("embeddings.project", h)
    b, s, d = h.shape
    split = lambda x: x.view(b, s, f["heads"], d // f["heads"]).permute(0, 2, 1, 3)
    logits, doubts = [], []
    for i in range(1, f["layers"] + 1):
        prefix = f"group.0." if f["groups"] else f"layer.{i - 1}."
        q, k, v = (split(lin(prefix + n, h)) for n in ("query", "key", "value"))
        scores = q @ k.transpose(-1, -2) / (d // f["heads"]) ** 0.5
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        context = (torch.softmax(scores, -1) @ v).permute(0, 2, 1, 3).reshape(b, s, d)
        a = norm(prefix + "attention_norm", h + lin(prefix + "output", context))
        h = norm(prefix + "ffn_norm", a + lin(prefix + "ffn2", act(lin(prefix + "ffn1", a))))
        if r["gradient"] == "equilibrium":
            h = scaled(h, 1.0 / (f["layers"] - i + 1))
        if r["exits"] == "all" or i == f["layers"]:
            e = i - 1 if r["exits"] == "all" else 0
            x = h[:, 0]
            if has_reader(r, e, f["layers"]):
                weights = torch.softmax((h @ p[f"exits.reader.{e}.weight"]).masked_fill(~mask, float("-inf")), 1)
                x = torch.cat([x, torch.einsum("bt,btd->bd", weights, h)], 1)
            pooled = torch.tanh(lin(f"exits.pooler.{e if r['pooler'] == 'own' else 0}", x))
            z = lin(f"exits.classifier.{e if r['classifier'] == 'own' else 0}", pooled)
            if r["gradient"] == "logit_scale":
                z = scaled(z, 1.0 / (f["layers"] - i + 1))
            logits.append(z)
            if r["lte"]:
                doubts.append(torch.sigmoid(lin("exits.lte", pooled))[:, 0])
        if r["gradient"] == "equilibrium":
            h = scaled(h, float(f["layers"] - i))
    return logits, doubts


def losses(r, objective, logits, doubts, gold, regression, number, w):
    """The loss of the last exit and that of everything else."""
    one = lambda z: ((z[:, 0] - gold) ** 2).mean() if regression else F.cross_entropy(z, gold)
    n, zero = len(logits), torch.zeros((), dtype=D64)
    each = [one(z) for z in logits]
    last, early = zero, zero
    if objective == "last":
        last = each[-1]
    elif objective == "early_sum":
        early = sum(each[:-1])
    elif objective == "sum":
        last, early = each[-1], sum(each[:-1], zero)
    elif objective == "linear":
        total = n * (n + 1) / 2
        last, early = n * each[-1] / total, sum((i + 1) * l / total for i, l in enumerate(each[:-1]))
    elif objective == "alternate":
        even = number % 2 == 0
        if even or not r["lte"]:
            last = each[-1]
        if not even:
            early = sum(each[:-1])
    elif objective == "learned":
        alpha = torch.sigmoid(w)
        last, early = (n - alpha.sum()) * each[-1], sum(alpha[i] * each[i] for i in range(n - 1))
    elif objective in ("distill", "distill_early"):
        g, t, v = r["gamma"], r["temperature"], r["variant"]
        if objective == "distill":
            last = each[-1]
        for i in range(n - 1):
            teacher = logits[i + 1 if v == "chain" else n - 1].detach()
            if v != "group":
                early = early + (1.0 if v == "berxit" else 1 - g) * each[i]
            if regression:
                early = early + g * ((logits[i] - teacher) ** 2).mean()
            elif v == "bidir":
                early = early - g * (logits[i] * teacher).sum()
            elif v == "berxit":
                early = early - (torch.softmax(teacher, -1) * torch.log_softmax(logits[i], -1)).sum()
            else:
                kl = F.kl_div(torch.log_softmax(logits[i] / t, -1), torch.softmax(teacher / t, -1), reduction="sum")
                early = early + g * t * t * kl / (len(gold) * (logits[i].shape[1] if r["kl"] == "element" else 1))
        if v == "group":  # sums of two neighbours
            for i in range(n - 2):
                early = early + one(logits[i] + logits[i + 1])
    if r["lte"]:
        terms = []
        for z, u in zip(logits, doubts):
            wrong = torch.tanh(z[:, 0] - gold).abs() if regression else (z.argmax(-1) != gold).to(D64)
            terms.append(((u - wrong.detach()) ** 2).mean())
        early = early + sum(terms) / n
    return last, early


def trains(name, r, stage):
    if stage["train"] == "all":
        return True
    parts = name.split(".")
    own = {"pooler": r["pooler"], "classifier": r["classifier"], "reader": "own"}
    early = parts[0] == "exits" and parts[1] != "lte" and own[parts[1]] == "own" and int(parts[2]) < L - 1
    return early == (stage["train"] == "exits")


def gradients_of(p, r, last, early, anchor_last):
    """Gradients by name, None where there is none; the projection keeps its two parts."""
    names, values = list(p), list(p.values())
    if r["gradient"] != "project":
        found = torch.autograd.grad(last + early, values, allow_unused=True)
        return dict(zip(names, found)), None
    a, b = (last, early) if anchor_last else (early, last)
    ga = torch.autograd.grad(a, values, allow_unused=True, retain_graph=True)
    gb = torch.autograd.grad(b, values, allow_unused=True)
    return dict(zip(names, ga)), dict(zip(names, gb))


def projected(ga, gb):
    inside = [n for n in ga if n.startswith(("layer.0.", "layer.1.")) and n.endswith(".weight") and "norm" not in n]
    flat = lambda g: torch.cat([(g[n] if g[n] is not None else torch.zeros_like(ga[n])).reshape(-1) for n in inside])
    va, vb = flat(ga), flat(gb)
    rho = min(float(vb @ va / (va @ va)), 0.0)
    out = {}
    for n in ga:
        if n in inside:
            out[n] = ga[n] + (gb[n] - rho * ga[n])
        else:
            both = [g for g in (ga[n], gb[n]) if g is not None]
            out[n] = sum(both) if both else None
    return out


def add_up(a, b):
    if a is None:
        return b
    return {n: a[n] if b[n] is None else b[n] if a[n] is None else a[n] + b[n] for n in a}


class Adam:
    def __init__(self, kind):
        self.kind, self.state = kind, {}

    def step(self, name, p, g, lr, decay):
        m, v, t = self.state.get(name, (torch.zeros_like(p), torch.zeros_like(p), 0))
        t, m, v = t + 1, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        self.state[name] = (m, v, t)
        c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
        with torch.no_grad():
            if self.kind == "torch":
                p -= lr * decay * p
                p -= lr * (m / c1) / ((v / c2).sqrt() + 1e-8)
            else:
                p -= lr * c2 ** 0.5 / c1 * m / (v.sqrt() + 1e-8)
                p -= lr * decay * p


def decays(name, family):
    if name.endswith(".bias"):
        return False
    if "norm.weight" in name:
        return family == "albert" and "ffn_norm" in name
    return True


def run(case, seed):
    recipe, family, extra = CASES[case]
    r = {**BASE, **RECIPES[recipe], **extra.get("here", {})}
    f, regression = family_of(family), extra.get("regression", False)
    accumulation, anchor_last = extra.get("accumulation", 1), extra.get("anchor_last", False)
    generator = torch.Generator().manual_seed(seed)
    p = make_parameters(f, r, 1 if regression else CLASSES, generator)
    initial = {k: v.detach().clone() for k, v in p.items()}
    batches = make_batches(f, regression, generator)
    steps_in_all = BATCHES // accumulation
    per_stage = steps_in_all // len(r["stages"])
    out, first, next_batch = [], None, 0
    for stage in r["stages"]:
        r = {**r, **stage}  # a stage may have a decay and a clipping of its own
        adam = Adam(r["adamw"])
        w = torch.full((L - 1,), 4.0, dtype=D64, requires_grad=True)
        kept, warmup = torch.zeros(L - 1, dtype=D64), r["warmup"] * per_stage
        for k in range(per_stage):
            ga = gb = None
            loss = 0.0
            gw = torch.zeros_like(w)
            for _ in range(accumulation):
                batch, number = batches[next_batch], next_batch % (per_stage * accumulation)
                next_batch += 1
                logits, doubts = forward(p, f, r, batch)
                last, early = losses(r, stage["objective"], logits, doubts, batch["gold"], regression, number, w)
                loss += float(last + early) / accumulation
                share = 1.0 / accumulation
                if stage["objective"] == "learned":
                    gw += torch.autograd.grad((last + early) * share, w, retain_graph=True)[0]
                a, b = gradients_of(p, r, last * share, early * share, anchor_last)
                ga, gb = add_up(ga, a), add_up(gb, b) if b else None
            g = projected(ga, gb) if gb else ga
            out.append(loss)
            if first is None:
                first = {n: v.clone() for n, v in g.items() if v is not None}
            scope = [n for n in g if g[n] is not None and (r["clip_scope"] == "all" or trains(n, r, stage))]
            length = sum(float((g[n] ** 2).sum()) for n in scope) ** 0.5
            factor = min(1.0, r["clip"] / (length + 1e-6)) if r["clip"] else 1.0
            rate = LR * (k / max(1.0, warmup) if k < warmup else max(0.0, (per_stage - k) / max(1.0, per_stage - warmup)))
            for n in g:
                if g[n] is None or not trains(n, r, stage):
                    continue
                head = r["head_lr"] if n.startswith("exits.") else 1.0
                adam.step(n, p[n], g[n] * factor, rate * head, r["weight_decay"] if decays(n, family) else 0.0)
            if stage["objective"] == "learned":
                kept = gw if r["fresh"] else kept + gw
                adam.step("w", w, kept, 0.01, 0.0)
    meta = dict(recipe=recipe, patch=extra.get("patch", {}), spec=f, regression=regression, classes=CLASSES, lr=LR,
                accumulation=accumulation, anchor_last=anchor_last, steps=per_stage)
    if "variant" in extra:
        meta["patch"] = {"stages": [{"objective": {"kind": "distill", "gamma": 0.9, "temperature": 3, "variant": extra["variant"]}}]}
    if "weight_decay" in extra:
        meta["weight_decay"] = extra["weight_decay"]
    tensors = {f"init.{n}": v for n, v in initial.items()}
    tensors.update({f"gradient.{n}": v for n, v in first.items()})
    tensors.update({f"final.{n}": v.detach() for n, v in p.items()})
    tensors["losses"] = torch.tensor(out, dtype=D64)
    if any(s["objective"] == "learned" for s in r["stages"]):
        tensors["final_weights"] = w.detach()
    tensors = {n: v.float() for n, v in tensors.items()}
    flat = [(row_ids, row_types, gold) for b in batches for row_ids, row_types, gold in b["rows"]]
    tensors["ids"] = torch.tensor([t for ids, _, _ in flat for t in ids], dtype=torch.int32)
    tensors["types"] = torch.tensor([t for _, types, _ in flat for t in types], dtype=torch.uint8)
    tensors["lengths"] = torch.tensor([len(ids) for ids, _, _ in flat], dtype=torch.int32)
    tensors["gold"] = torch.tensor([float(gold) for _, _, gold in flat])
    return tensors, meta


def make_batches(f, regression, generator):
    number = lambda low, high: int(torch.randint(low, high, (1,), generator=generator))
    batches = []
    for _ in range(BATCHES):
        rows = []
        for _ in range(ROWS):
            n = number(2, 11)
            types = [int(t > n // 2) if f["segments"] > 1 else 0 for t in range(n)]
            gold = round(5 * float(torch.rand(1, generator=generator)), 2) if regression else number(0, CLASSES)
            rows.append(([number(0, f["vocab"]) for _ in range(n)], types, gold))
        longest = max(len(ids) for ids, _, _ in rows)
        pad = lambda values, fill: torch.tensor([list(v) + [fill] * (longest - len(v)) for v in values])
        gold = torch.tensor([g for _, _, g in rows], dtype=torch.float32).to(D64) if regression else torch.tensor([g for _, _, g in rows])
        batches.append(dict(rows=rows, ids=pad([i for i, _, _ in rows], f["pad_id"]), types=pad([t for _, t, _ in rows], 0),
                            mask=pad([[True] * len(i) for i, _, _ in rows], False), gold=gold))
    return batches


def write(path, tensors, meta):
    kinds = {torch.float32: "F32", torch.int32: "I32", torch.uint8: "U8"}
    header, body = {"__metadata__": {"case": json.dumps(meta)}}, b""
    for name, value in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        data = value.contiguous().numpy().tobytes()
        header[name] = {"dtype": kinds[value.dtype], "shape": list(value.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for seed, case in enumerate(CASES, 1):
        tensors, meta = run(case, seed)
        write(out / f"{case}.safetensors", tensors, meta)
        print(f"{case:28} losses {tensors['losses'][0]:.6f} … {tensors['losses'][-1]:.6f}")
    print("torch", torch.__version__)


if __name__ == "__main__":
    main()

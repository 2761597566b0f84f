# SPDX-License-Identifier: Apache-2.0
"""Plain PyTorch training of multi-exit encoders, apart from our own trainer: the source of real traces and test models.

Settings are those of the preset `reference`: bf16 autocast, batch 32, lr 5e-5 (regression 2e-5), warm-up 6 %, linear
decay, weight decay 0, clip 1.0, length 128, torch AdamW, dropout 0.1. Heads: `exeunt` = a reader, pooler and classifier
per exit at five times the rate, `elasticbert` = pooler and classifier per exit, `plain` = the last exit alone; the first
two sum the exits' losses under gradient equilibrium.
"""
import argparse, csv, datetime, hashlib, json, math, pathlib, random, sys, time

import torch
import torch.nn.functional as F
from torch import nn

TASKS = {  # name: folder, text columns, label column, labels (None = regression), epochs
    "sst2": ("SST-2", ["sentence"], "label", ["0", "1"], 2),
    "mrpc": ("MRPC", ["#1 String", "#2 String"], "Quality", ["0", "1"], 6),
    "rte": ("RTE", ["sentence1", "sentence2"], "label", ["entailment", "not_entailment"], 8),
    "stsb": ("STS-B", ["sentence1", "sentence2"], "score", None, 5),
    "mnli": ("MNLI", ["sentence1", "sentence2"], "gold_label", ["contradiction", "entailment", "neutral"], 3),
}
TRACE_ROWS = 5000  # a committed trace stays under 1 MB
RECIPES = ["exeunt", "elasticbert", "plain"]
HOLD_OUT = {"sst2": 5000, "mnli": 5000, "mrpc": 500, "rte": 400, "stsb": 800}  # training rows kept for calibration


def rows_of(path, task):
    _, texts, label, labels, _ = TASKS[task]
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [line.rstrip("\r\n").split("\t") for line in file]
    header = lines[0]
    columns = [header.index(name) for name in texts]
    gold = header.index(label)
    rows = []
    for index, cells in enumerate(lines[1:]):
        if len(cells) <= max(columns + [gold]) or (labels and cells[gold] not in labels):
            continue
        value = labels.index(cells[gold]) if labels else float(cells[gold])
        rows.append((index, [cells[c] for c in columns], value))
    return rows


class Rescale(torch.autograd.Function):
    """Identity forward; multiplies the gradient on the way back (gradient equilibrium)."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, f = c["hidden_size"], c["intermediate_size"]
        self.heads, self.p = c["num_attention_heads"], 0.1
        self.query, self.key, self.value, self.output = (nn.Linear(d, d) for _ in range(4))
        self.attention_norm, self.ffn_norm = nn.LayerNorm(d, 1e-12), nn.LayerNorm(d, 1e-12)
        self.ffn1, self.ffn2 = nn.Linear(d, f), nn.Linear(f, d)

    def forward(self, h, mask):
        b, s, d = h.shape
        q, k, v = (m(h).view(b, s, self.heads, -1).transpose(1, 2) for m in (self.query, self.key, self.value))
        p = self.p if self.training else 0.0
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p).transpose(1, 2).reshape(b, s, d)
        h = self.attention_norm(h + F.dropout(self.output(a), p, self.training))
        return self.ffn_norm(h + F.dropout(self.ffn2(F.gelu(self.ffn1(h))), p, self.training))


class Model(nn.Module):
    def __init__(self, c, recipe, outputs):
        super().__init__()
        d, n = c["hidden_size"], c["num_hidden_layers"]
        self.recipe, self.layers = recipe, n
        self.word = nn.Embedding(c["vocab_size"], d)
        self.position = nn.Embedding(c["max_position_embeddings"], d)
        self.segment = nn.Embedding(c["type_vocab_size"], d)
        self.norm = nn.LayerNorm(d, 1e-12)
        self.layer = nn.ModuleList(Layer(c) for _ in range(n))
        exits = [n - 1] if recipe == "plain" else list(range(n))
        width = 2 * d if recipe == "exeunt" else d
        self.exits = exits
        self.poolers = nn.ModuleList(nn.Linear(width, d) for _ in exits)
        self.classifiers = nn.ModuleList(nn.Linear(d, outputs) for _ in exits)
        self.readers = nn.Parameter(torch.zeros(len(exits), d)) if recipe == "exeunt" else None
        for m in list(self.poolers) + list(self.classifiers):
            nn.init.normal_(m.weight, 0, 0.02)
            nn.init.zeros_(m.bias)

    def forward(self, ids, types, mask):
        h = self.word(ids) + self.position(torch.arange(ids.shape[1], device=ids.device)) + self.segment(types)
        h = F.dropout(self.norm(h), 0.1, self.training)
        bias = torch.zeros(mask.shape, device=ids.device, dtype=torch.bfloat16 if torch.is_autocast_enabled() else h.dtype)
        bias = bias.masked_fill(~mask, float("-inf"))[:, None, None, :]
        logits = []
        for i, layer in enumerate(self.layer):
            h = layer(h, bias)
            if i not in self.exits:
                continue
            e, left = self.exits.index(i), self.layers - i - 1
            balanced = self.recipe != "plain" and self.training
            if balanced:
                h = Rescale.apply(h, 1.0 / (left + 1))
            x = h[:, 0]
            if self.readers is not None:
                scores = (h.float() @ self.readers[e].float()).masked_fill(~mask, float("-inf"))
                read = (torch.softmax(scores, 1)[:, :, None] * h.float()).sum(1)
                x = torch.cat([x.float(), read], 1)
            pooled = F.dropout(torch.tanh(self.poolers[e](x)), 0.1, self.training)
            logits.append(self.classifiers[e](pooled).float())
            if balanced:
                h = Rescale.apply(h, float(left))
        return torch.stack(logits, 1)  # [rows, exits, outputs]


def load_backbone(model, folder):
    """Fills the backbone from a Hugging Face folder of safetensors; names without prefix, as gte-small has them."""
    from safetensors.torch import load_file
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(load_file(str(path)))
    names = {"word.weight": "embeddings.word_embeddings.weight", "position.weight": "embeddings.position_embeddings.weight",
             "segment.weight": "embeddings.token_type_embeddings.weight", "norm.weight": "embeddings.LayerNorm.weight",
             "norm.bias": "embeddings.LayerNorm.bias"}
    parts = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
             "output": "attention.output.dense", "attention_norm": "attention.output.LayerNorm",
             "ffn1": "intermediate.dense", "ffn2": "output.dense", "ffn_norm": "output.LayerNorm"}
    for i in range(model.layers):
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                names[f"layer.{i}.{ours}.{kind}"] = f"encoder.layer.{i}.{theirs}.{kind}"
    state = model.state_dict()
    for ours, theirs in names.items():
        state[ours].copy_(tensors[theirs].float())


def batches_of(encoded, size, order):
    """Batches of similar length: sorted inside windows of 50 batches, then shuffled."""
    out = []
    for start in range(0, len(order), 50 * size):
        window = sorted(order[start:start + 50 * size], key=lambda i: len(encoded[i][0]))
        out += [window[k:k + size] for k in range(0, len(window), size)]
    return out


def tensors_of(encoded, golds, indices, device):
    longest = max(len(encoded[i][0]) for i in indices)
    longest = min(128, (longest + 7) // 8 * 8)
    ids = torch.zeros(len(indices), longest, dtype=torch.long)
    types, mask = torch.zeros_like(ids), torch.zeros(ids.shape, dtype=torch.bool)
    for row, i in enumerate(indices):
        n = len(encoded[i][0])
        ids[row, :n], types[row, :n], mask[row, :n] = torch.tensor(encoded[i][0]), torch.tensor(encoded[i][1]), True
    gold = torch.tensor([golds[i] for i in indices])
    return [t.to(device, non_blocking=True) for t in (ids, types, mask, gold)]


def loss_of(logits, gold, regression):
    total = 0.0
    for e in range(logits.shape[1]):
        total = total + (F.mse_loss(logits[:, e, 0], gold.float()) if regression else F.cross_entropy(logits[:, e], gold))
    return total


def train(model, encoded, golds, task, options, device):
    regression = TASKS[task][3] is None
    epochs = options.epochs or TASKS[task][4]
    rate = 2e-5 if regression else 5e-5
    heads = [p for n, p in model.named_parameters() if n.split(".")[0] in ("poolers", "classifiers", "readers")]
    known = {id(p) for p in heads}
    rest = [p for p in model.parameters() if id(p) not in known]
    factor = 5.0 if model.recipe == "exeunt" else 1.0
    optimiser = torch.optim.AdamW([{"params": rest, "lr": rate}, {"params": heads, "lr": rate * factor}], weight_decay=0.0, fused=True)
    steps = math.ceil(len(encoded) / 32) * epochs
    warm = int(0.06 * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: k / warm if k < warm else max(0.0, (steps - k) / max(1, steps - warm)))
    generator, done, start = random.Random(options.seed), 0, time.time()
    model.train()
    for epoch in range(epochs):
        order = list(range(len(encoded)))
        generator.shuffle(order)
        batches = batches_of(encoded, 32, order)
        generator.shuffle(batches)
        for batch in batches:
            ids, types, mask, gold = tensors_of(encoded, golds, batch, device)
            with torch.autocast(device, dtype=torch.bfloat16):
                logits = model(ids, types, mask)
            loss = loss_of(logits, gold, regression)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            done += 1
            if done % 500 == 0 or done == steps:
                print(f"{options.name} step {done}/{steps} loss {loss.item():.4f} {done * 32 / (time.time() - start):.0f} samples/s", flush=True)


@torch.no_grad()
def trace(model, encoded, device):
    model.eval()
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0]))
    out = [None] * len(encoded)
    for start in range(0, len(order), 256):
        batch = order[start:start + 256]
        ids, types, mask, _ = tensors_of(encoded, [0] * len(encoded), batch, device)
        logits = model(ids, types, mask).cpu()  # fp32, as the reference forward computes
        for row, i in enumerate(batch):
            out[i] = logits[row]
    return torch.stack(out)


def scores(logits, golds, task):
    gold = torch.tensor(golds)
    if TASKS[task][3] is None:
        return [torch.corrcoef(torch.stack([logits[:, e, 0].double(), gold.double()]))[0, 1].item() for e in range(logits.shape[1])]
    return [(logits[:, e].argmax(-1) == gold).double().mean().item() for e in range(logits.shape[1])]


def fp16_state(model):
    """Our canonical names (docs/formats.md), fp16."""
    state = {}
    for name, value in model.state_dict().items():
        parts = name.split(".")
        renamed = {"word": "embeddings.word", "position": "embeddings.position", "segment": "embeddings.segment", "norm": "embeddings.norm",
                   "poolers": "exits.pooler", "classifiers": "exits.classifier"}.get(parts[0], parts[0])
        if parts[0] == "readers":
            for e in range(value.shape[0]):
                state[f"exits.reader.{e}.weight"] = value[e].half().contiguous()
            continue
        state[".".join([renamed] + parts[1:])] = value.half().contiguous()
    return state


def write_weights(model, config, task, options, out):
    """A model folder of ours as a tar cut into parts of 15 MiB."""
    import io, tarfile
    from safetensors.torch import save
    labels = TASKS[task][3]
    sites = [{"after": i + 1, "reader": e if model.readers is not None else None, "pooler": e, "classifier": e} for e, i in enumerate(model.exits)]
    layout = {"format": "exeunt.exits/1", "problem": "classification" if labels else "regression", "outputs": len(labels) if labels else 1,
              "labels": labels or [], "range": None if labels else [0, 5], "pool_input": "cls", "exits": sites, "width": config["hidden_size"],
              "inner": None, "activation": "tanh", "lte": False, "last_ramp": None, "compat": {"last_ramp": "final"}}
    files = {"config.json": json.dumps(config, indent=2).encode(), "exits.json": json.dumps(layout, indent=2).encode(),
             "model.safetensors": save(fp16_state(model), metadata={"format": "exeunt.model/1"})}
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        path = pathlib.Path(options.backbone) / name
        if path.exists():
            files[name] = path.read_bytes()
    manifest = {"format": "exeunt.manifest/1", "files": {n: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for n, b in files.items()}}
    files["manifest.json"] = json.dumps(manifest, indent=2).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{options.name}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    data, size = buffer.getvalue(), 15 << 20
    for k in range(0, len(data), size):
        (out / f"{options.name}.part-{k // size}").write_bytes(data[k:k + size])
    return hashlib.sha256(files["model.safetensors"]).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--backbone")
    parser.add_argument("--data")
    parser.add_argument("--out")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--limit", type=int, help="training rows, for a quick try")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--weights", action="store_true")
    options = parser.parse_args()
    if options.list or not options.name:
        print("\n".join(f"{task}-{recipe}" for task in TASKS for recipe in RECIPES))
        return
    task, recipe = options.name.split("-", 1)
    if task not in TASKS or recipe not in RECIPES or not (options.backbone and options.data and options.out):
        sys.exit("error: want TASK-RECIPE (see --list) with --backbone, --data and --out")
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    config = json.loads((pathlib.Path(options.backbone) / "config.json").read_text())
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(pathlib.Path(options.backbone) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    folder, labels = pathlib.Path(options.data) / TASKS[task][0], TASKS[task][3]

    def encoded(rows):
        batch = tokenizer.encode_batch([tuple(t) if len(t) == 2 else t[0] for _, t, _ in rows])
        return [(e.ids, e.type_ids) for e in batch]

    training = rows_of(folder / "train.tsv", task)
    random.Random(1234).shuffle(training)  # the held-out rows are the same for every seed
    held, training = training[:HOLD_OUT[task]], training[HOLD_OUT[task]:][:options.limit]
    dev = rows_of(folder / ("dev_matched.tsv" if task == "mnli" else "dev.tsv"), task)[:TRACE_ROWS]
    model = Model(config, recipe, len(labels) if labels else 1)
    load_backbone(model, options.backbone)
    model.to(options.device)
    start = time.time()
    train(model, encoded(training), [r[2] for r in training], task, options, options.device)
    seconds = time.time() - start

    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(b"".join(p.detach().half().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()
    if options.weights:
        digest = write_weights(model, config, task, options, out)
    result = {"name": options.name, "seed": options.seed, "task": task, "recipe": recipe, "backbone": pathlib.Path(options.backbone).name,
              "exits": [i + 1 for i in model.exits], "train_seconds": round(seconds, 1), "torch": torch.__version__,
              "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device, "scores": {}}
    from safetensors.torch import save_file
    for split, rows in (("held", held), ("dev", dev)):
        pieces = encoded(rows)
        logits = trace(model, pieces, options.device)
        golds = [r[2] for r in rows]
        result["scores"][split] = [round(s, 5) for s in scores(logits, golds, task)]
        text = "\n".join("\t".join(t) for _, t, _ in rows)
        save_file({"logits": logits.contiguous(), "gold": torch.tensor(golds, dtype=torch.float32),
                   "lengths": torch.tensor([len(p[0]) for p in pieces], dtype=torch.int32),
                   "index": torch.tensor([r[0] for r in rows], dtype=torch.int64)},
                  str(out / f"{options.name}.{split}.safetensors"),
                  metadata={"format": "exeunt.trace/2", "last_head": "final", "weights": digest,
                            "tokenizer": hashlib.sha256((pathlib.Path(options.backbone) / "tokenizer.json").read_bytes()).hexdigest(),
                            "data": hashlib.sha256(text.encode()).hexdigest(), "task": TASKS[task][0], "split": split,
                            "problem": "classification" if labels else "regression", "labels": json.dumps(labels or []),
                            "exits": ",".join(str(i + 1) for i in model.exits), "precision": "fp32", "engine": "pytorch",
                            "max_length": "128", "tool": f"torch {torch.__version__}",
                            "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")})
    (out / f"{options.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

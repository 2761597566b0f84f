# The modules that the column "modules" names, each runnable alone on an input of the shape given there, for the counter of
# ELUE's server; and the whole model, for its number of parameters. MODEL describes it; weights are of no concern here.
import math

import torch
from torch import nn

HIDDEN, HEADS = MODEL["hidden"], MODEL["heads"]


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        width = MODEL["embedding"]
        self.words = nn.Embedding(MODEL["vocabulary"], width)
        self.positions = nn.Embedding(MODEL["positions"], width)
        self.segments = nn.Embedding(MODEL["segments"], width)
        self.norm = nn.LayerNorm(width)
        if MODEL["embedding_projection"]:
            self.projection = nn.Linear(width, HIDDEN)

    def forward(self, ids):
        ids = ids.long()
        places = torch.arange(len(ids)) + MODEL["position_offset"]
        rows = self.norm(self.words(ids) + self.positions(places) + self.segments(torch.zeros_like(ids)))
        return self.projection(rows) if MODEL["embedding_projection"] else rows


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.value, self.output = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, MODEL["inner"]), nn.Linear(MODEL["inner"], HIDDEN)
        self.attention_norm, self.norm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)

    def forward(self, rows):
        def heads(part):
            return part(rows).view(len(rows), HEADS, HIDDEN // HEADS).transpose(0, 1)

        weights = torch.softmax(heads(self.query) @ heads(self.key).transpose(1, 2) / math.sqrt(HIDDEN // HEADS), -1)
        mixed = (weights @ heads(self.value)).transpose(0, 1).reshape(len(rows), HIDDEN)
        rows = self.attention_norm(rows + self.output(mixed))
        return self.norm(rows + self.down(nn.functional.gelu(self.up(rows))))


class Exit(nn.Module):
    def __init__(self, pooler, classifier):
        super().__init__()
        self.pooler, self.classifier = pooler, classifier

    def forward(self, row):
        if row.dim() == 2:
            row = row.mean(0)
        if self.pooler is not None:
            row = torch.tanh(self.pooler(row))
        return self.classifier(row)


def _classifier():
    if MODEL["classifier_inner"] is None:
        return nn.Linear(MODEL["pooled"], MODEL["outputs"])
    inner = MODEL["classifier_inner"]
    return nn.Sequential(nn.Linear(MODEL["pooled"], inner), nn.Tanh(), nn.Linear(inner, MODEL["outputs"]))


# Layers and heads with the same number share their weights.
_layers = {number: Layer() for number in MODEL["layers"]}
_poolers = {number: nn.Linear(HIDDEN, MODEL["pooled"]) for _, number, _ in MODEL["exits"] if number is not None}
_classifiers = {number: _classifier() for _, _, number in MODEL["exits"]}

module_list = {"emb": Embeddings()}
for _place, _number in enumerate(MODEL["layers"], 1):
    module_list[f"layer_{_place}"] = _layers[_number]
for _after, _pooler, _head in MODEL["exits"]:
    module_list[f"exit_{_after}"] = Exit(_poolers.get(_pooler), _classifiers[_head])

entire_model = nn.ModuleDict(module_list)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden models: tiny random encoders and what Hugging Face transformers computes with them.

  models.py OUT                         write every golden model as a folder OUT/NAME
  models.py --expect DIR FILE           write what transformers computes with the model folder DIR
  models.py --check-hf DIR FILE         load DIR with transformers, compare its hidden states with FILE (1e-5)

The backbone is always Hugging Face's own code; exit heads are plain PyTorch over its hidden states (exit_outputs below
is their definition). All arithmetic runs in double precision, so a golden is the true value rounded once to fp32.
A folder holds config.json, weights, perhaps exits.json, and golden.safetensors:
  ids I32[T] types U8[T] lengths I32[N]    all texts one after another, no padding
  row0, mean F32[N,L+1,d]                  after the embeddings and after every layer: the first row, the mean row
  exits I32[E]                             the layer (from 1) behind which each exit stands
  pooled F32[N,E,w] logits F32[N,E,C]      and, where the model has them, lte F32[N,E] and ramp F32[N,C]
  labels, scores F32[N,C] loss F32[N]      of several labels at once: random gold, sigmoids, and transformers' loss of each text
Needs torch, transformers and safetensors; uses neither network nor GPU.
"""
import argparse
import copy
import json
import os
import shutil
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import safetensors.torch
import torch
import transformers
from transformers import (AlbertConfig, AlbertForSequenceClassification, AlbertModel, AutoModel,
                          AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification, BertModel,
                          CamembertConfig, CamembertModel, DebertaV2Config, DebertaV2ForSequenceClassification,
                          DebertaV2Model, DistilBertConfig, DistilBertForSequenceClassification, DistilBertModel,
                          ElectraConfig, ElectraForSequenceClassification, ElectraModel, ModernBertConfig,
                          ModernBertForSequenceClassification, ModernBertModel, RobertaConfig,
                          RobertaForSequenceClassification, RobertaModel, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification)

LENGTHS = [1, 2, 3, 5, 8, 13, 21, 24]
VOCAB, POSITIONS, LABELS = 40, 32, ["first", "second", "third"]
SIZE_LIMIT = 200_000  # bytes of one golden folder
TOLERANCE = 1e-5

FAMILIES = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel),
            "albert": (AlbertConfig, AlbertModel), "distilbert": (DistilBertConfig, DistilBertModel),
            "electra": (ElectraConfig, ElectraModel), "xlm-roberta": (XLMRobertaConfig, None),
            "camembert": (CamembertConfig, CamembertModel), "modernbert": (ModernBertConfig, ModernBertModel),
            "deberta-v2": (DebertaV2Config, DebertaV2Model)}
WITH_POOLER = {"bert", "roberta", "albert"}
# Where a family's fields have other names, or none.
RENAMED = {"distilbert": dict(hidden_size="dim", num_hidden_layers="n_layers", num_attention_heads="n_heads",
                              intermediate_size="hidden_dim", hidden_act="activation", type_vocab_size=None,
                              layer_norm_eps=None),
           "modernbert": dict(hidden_act="hidden_activation", layer_norm_eps="norm_eps", type_vocab_size=None)}


# Backbones ------------------------------------------------------------------------------------------------------------

def config_of(family, outputs=len(LABELS), **changes):
    """A tiny configuration. Odd sizes on purpose; an epsilon large enough that a wrong one shows."""
    fields = dict(vocab_size=VOCAB, hidden_size=12, num_hidden_layers=3, num_attention_heads=3, intermediate_size=20,
                  max_position_embeddings=POSITIONS, type_vocab_size=2, layer_norm_eps=1e-3, pad_token_id=0,
                  hidden_act="gelu")
    if family in ("roberta", "xlm-roberta", "camembert"):
        fields.update(type_vocab_size=1, pad_token_id=1, max_position_embeddings=POSITIONS + 2)
    if family == "albert":
        fields.update(embedding_size=7, hidden_act="gelu_new", num_hidden_groups=1, inner_group_num=1)
    if family == "electra":
        fields.update(embedding_size=7)
    if family == "modernbert":  # a window of two tokens to either side, every third layer without one
        fields.update(local_attention=4, global_attn_every_n_layers=3, cls_token_id=2, sep_token_id=3, bos_token_id=2,
                      eos_token_id=3)
    if family == "deberta-v2":  # four exact distances to either side, then logarithmic ones
        fields.update(type_vocab_size=0, relative_attention=True, position_buckets=8, max_relative_positions=-1,
                      norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
                      position_biased_input=False, pooler_dropout=0.0, pooler_hidden_act="gelu")
    fields.update(changes)
    for name, known in RENAMED.get(family, {}).items():
        value = fields.pop(name)
        if known:
            fields[known] = value
    config = FAMILIES[family][0](**fields)
    config.num_labels = outputs
    config._attn_implementation = "eager"  # the plain formula, not a fused kernel
    return config


def randomise(model, seed, dtype=torch.float32):
    """Weights large enough that attention is not uniform and activations are not linear; biases and norms not trivial."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name.lower() and name.endswith("weight"):
                noise = 1 + 0.2 * noise
            elif parameter.dim() == 1:
                noise = 0.2 * noise
            elif "embeddings." not in name:
                noise = noise / parameter.shape[1] ** 0.5
            parameter.copy_(noise.to(dtype))
    return model.eval()


def backbone(family, seed, dtype=torch.float32, **changes):
    config = config_of(family, **changes)
    bare = dict(add_pooling_layer=False) if family in WITH_POOLER else {}
    return randomise(FAMILIES[family][1](config, **bare), seed, dtype)


def texts_for(config, seed, lengths=LENGTHS):
    """Random texts: (ids, types) each. No id is the padding id; the second half has type 1, which models without
    types are not to notice."""
    generator = torch.Generator().manual_seed(seed)
    texts = []
    for length in lengths:
        ids = torch.randint(2, config.vocab_size, (length,), generator=generator)
        types = torch.zeros(length, dtype=torch.long)
        if getattr(config, "type_vocab_size", 0) != 1:
            types[(length + 1) // 2:] = 1
        texts.append((ids, types))
    return texts


def run(model, ids, types, mask=None):
    """transformers' output, and the rows after the embeddings and after every layer."""
    kind, states, hooks = model.config.model_type, [], []
    inputs = dict(input_ids=ids, attention_mask=mask)
    if kind not in ("distilbert", "modernbert"):
        inputs["token_type_ids"] = types
    if kind == "modernbert":  # its last hidden state has gone through the final norm: take the layers' own outputs
        base = getattr(model, "model", model)
        for part in [base.embeddings, *base.layers]:
            hooks.append(part.register_forward_hook(
                lambda _module, _args, out: states.append(out[0] if isinstance(out, tuple) else out)))
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True, return_dict=True)
    for hook in hooks:
        hook.remove()
    states = states or list(out.hidden_states)
    layers = model.config.num_hidden_layers
    assert len(states) == layers + 1, (len(states), layers)
    return out, states


def hidden_of(model, texts):
    """For each text the rows after the embeddings and after every layer, [L+1, s, d]; one text at a time."""
    hidden = []
    for ids, types in texts:
        out, states = run(model, ids[None], types[None], torch.ones(1, len(ids), dtype=torch.long))
        states = torch.stack([state[0] for state in states])
        last = getattr(out, "last_hidden_state", None)
        if last is not None and model.config.model_type == "modernbert":
            states_last = model.final_norm(states[-1])
            assert (states_last - last[0]).abs().max() < 1e-6
        else:
            assert last is None or torch.equal(states[-1], last[0])
        hidden.append(states)
    return hidden


def check_padding(model, texts, hidden):
    """A padded batch under a mask gives the same rows as each text alone. With local layers, padding that no real token
    is near enough to see becomes NaN in transformers, so each of these texts gets one more token at most."""
    if hasattr(model.config, "local_attention") and len(hidden) > 1:
        for (ids, types), states in zip(texts, hidden):
            longer = torch.cat([ids, ids[:1]]), torch.cat([types, types[:1]])
            check_padding(model, [(ids, types), longer], [states])
        return
    longest = max(len(ids) for ids, _ in texts)
    padding = model.config.pad_token_id
    ids = torch.stack([torch.nn.functional.pad(i, (0, longest - len(i)), value=padding) for i, _ in texts])
    types = torch.stack([torch.nn.functional.pad(t, (0, longest - len(t))) for _, t in texts])
    mask = torch.stack([(torch.arange(longest) < len(i)).long() for i, _ in texts])
    batch = torch.stack(run(model, ids, types, mask)[1], dim=1)  # [N, L+1, longest, d]
    for rows, states in zip(batch, hidden):
        difference = (rows[:, :states.shape[1]] - states).abs().max().item()
        assert difference < 1e-6, f"padding changes the result by {difference}"


def check_precision(model, texts, hidden):
    """The same in fp32 stays well inside the tolerance, so a test that fails has found a mistake and not rounding."""
    for states, exact in zip(hidden_of(copy.deepcopy(model).float(), texts), hidden):
        difference = (states.double() - exact).abs().max().item()
        assert difference < TOLERANCE / 2, f"fp32 and double differ by {difference}"


def golden_hidden(model, texts):
    exact = copy.deepcopy(model).double()
    hidden = hidden_of(exact, texts)
    check_padding(exact, texts, hidden)
    check_precision(exact, texts, hidden)
    return hidden


# Exit heads -----------------------------------------------------------------------------------------------------------

def layout(sites, pool_input="cls", width=12, outputs=3, inner=None, lte=False, last_ramp=None, pooler=None):
    """exits.json as a dict; sites: (after, reader, pooler, classifier). `pooler`: what poolers without a reader have
    other than tanh and a bias."""
    regression = outputs == 1
    return {"format": "exeunt.exits/1", "problem": "regression" if regression else "classification",
            "outputs": outputs, "labels": [] if regression else LABELS[:outputs],
            "range": [0.0, 5.0] if regression else None, "pool_input": pool_input,
            "exits": [{"after": a, "reader": r, "pooler": p, "classifier": c} for a, r, p, c in sites],
            "width": width, "inner": inner, "activation": "tanh", "lte": lte, "last_ramp": last_ramp,
            "compat": {"last_ramp": "final"}, **(pooler or {})}


def own(layers):
    return [(i + 1, None, i, i) for i in range(layers)]


def random_heads(exits, hidden, seed):
    """Every tensor the layout names, under our names."""
    generator = torch.Generator().manual_seed(seed)

    def linear(name, out, inputs, bias=True):
        heads[name + ".weight"] = torch.randn(out, inputs, generator=generator) / inputs ** 0.5
        if bias:
            heads[name + ".bias"] = 0.3 * torch.randn(out, generator=generator)

    heads, width, inner = {}, exits["width"], exits["inner"]
    sites = list(exits["exits"])
    if exits["last_ramp"]:
        sites.append({"reader": None, **exits["last_ramp"]})
    for site in sites:
        reader, pooler, classifier = site["reader"], site["pooler"], site["classifier"]
        if reader is not None and f"exits.reader.{reader}.weight" not in heads:
            heads[f"exits.reader.{reader}.weight"] = torch.randn(hidden, generator=generator)
        if pooler is not None and f"exits.pooler.{pooler}.weight" not in heads:
            plain = reader is None
            linear(f"exits.pooler.{pooler}", width, hidden if plain else 2 * hidden,
                   not plain or exits.get("pooler_bias", True))
            if plain and exits.get("pooler_norm", False):
                heads[f"exits.pooler.{pooler}.norm.weight"] = 1 + 0.2 * torch.randn(width, generator=generator)
        if f"exits.classifier.{classifier}.weight" not in heads:
            linear(f"exits.classifier.{classifier}", inner or exits["outputs"], width)
            if inner:
                linear(f"exits.classifier.{classifier}.inner", exits["outputs"], inner)
    if exits["lte"]:
        linear("exits.lte", 1, width)
    return heads


def pool(rows, kind):
    parts = {"cls": rows[0], "mean": rows.mean(dim=0), "max": rows.max(dim=0).values}
    return sum(parts[part] for part in kind.split("+"))


def affine(heads, name, x):
    bias = heads.get(name + ".bias")
    product = heads[name + ".weight"].double() @ x
    return product if bias is None else product + bias.double()


ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "gelu": torch.nn.functional.gelu}


def head_output(exits, heads, site, rows, eps=None):
    """The pooled vector and the logits of one exit over rows [s, d]. `eps`: of a pooler's norm."""
    x = pool(rows, exits["pool_input"])
    if site["reader"] is not None:
        query = heads[f"exits.reader.{site['reader']}.weight"].double()
        attention = torch.softmax(rows @ query, dim=0)
        x = torch.cat([rows[0], attention @ rows])
    if site["pooler"] is not None:
        kind = exits["activation"] if site["reader"] is None else "tanh"
        x = ACTIVATIONS[kind](affine(heads, f"exits.pooler.{site['pooler']}", x))
        norm = heads.get(f"exits.pooler.{site['pooler']}.norm.weight")
        if norm is not None:
            x = torch.nn.functional.layer_norm(x, x.shape, norm.double(), eps=eps)
    name = f"exits.classifier.{site['classifier']}"
    logits = affine(heads, name, x)
    if exits["inner"]:
        logits = affine(heads, name + ".inner", torch.tanh(logits))
    return x, logits


def exit_outputs(exits, heads, hidden, eps=None):
    """Golden tensors of all exits over what exits read of the texts' hidden states [L+1, s, d]."""
    golden = {"exits": torch.tensor([site["after"] for site in exits["exits"]], dtype=torch.int32)}
    if not exits["exits"]:
        return {}
    outputs = [[head_output(exits, heads, site, states[site["after"]], eps) for site in exits["exits"]]
               for states in hidden]
    golden["pooled"] = torch.stack([torch.stack([pooled for pooled, _ in text]) for text in outputs])
    golden["logits"] = torch.stack([torch.stack([logits for _, logits in text]) for text in outputs])
    if exits["lte"]:
        golden["lte"] = torch.sigmoid(torch.stack(
            [torch.stack([affine(heads, "exits.lte", pooled)[0] for pooled, _ in text]) for text in outputs]))
    if exits["last_ramp"]:
        site = {"reader": None, **exits["last_ramp"]}
        golden["ramp"] = torch.stack([head_output(exits, heads, site, states[-1])[1] for states in hidden])
    return golden


# Names of the five systems --------------------------------------------------------------------------------------------

def put_linear(out, name, heads, source):
    out[name + ".weight"] = heads[source + ".weight"]
    out[name + ".bias"] = heads[source + ".bias"]


def prefixed(prefix, state):
    return {f"{prefix}.{name}": tensor for name, tensor in state.items()}


def pooler_name(prefix):
    return "albert.pooler" if prefix == "albert" else f"{prefix}.pooler.dense"


def as_exeunt(state, heads, exits, prefix):
    return {**state, **heads}


def as_deebert(state, heads, exits, prefix):
    """A highway behind every layer, the last one untrained (the ramp); pooler and classifier are the last exit."""
    out, layers = prefixed(prefix, state), len(exits["exits"])
    for i in range(layers):
        source = i if i < layers - 1 else layers
        put_linear(out, f"{prefix}.encoder.highway.{i}.pooler.dense", heads, f"exits.pooler.{source}")
        put_linear(out, f"{prefix}.encoder.highway.{i}.classifier", heads, f"exits.classifier.{source}")
    put_linear(out, pooler_name(prefix), heads, f"exits.pooler.{layers - 1}")
    put_linear(out, "classifier", heads, f"exits.classifier.{layers - 1}")
    return out


def as_berxit(state, heads, exits, prefix):
    out = as_deebert(state, heads, exits, prefix)
    put_linear(out, f"{prefix}.encoder.lte_classifier", heads, "exits.lte")
    copies = {name.replace(prefix, "core", 1): tensor.clone() for name, tensor in out.items()
              if name.startswith(prefix + ".")}
    return {**out, **copies}


def as_romebert(state, heads, exits, prefix):
    """With a momentum teacher, whose slow copy of the model enters the file."""
    out = as_deebert(state, heads, exits, prefix)
    slow = {f"slow_{name}": tensor + 1 for name, tensor in out.items() if "highway" not in name}
    return {**out, **slow}


def as_pabee(state, heads, exits, prefix):
    out = prefixed(prefix, state)
    put_linear(out, pooler_name(prefix), heads, "exits.pooler.0")
    for i in range(len(exits["exits"])):
        put_linear(out, f"classifiers.{i}", heads, f"exits.classifier.{i}")
    return out


def as_elasticbert(state, heads, exits, prefix):
    out = prefixed(prefix, state)
    out[f"{prefix}.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    for i, site in enumerate(exits["exits"]):
        put_linear(out, f"{prefix}.encoder.pooler.{site['after'] - 1}.dense", heads, f"exits.pooler.{i}")
        put_linear(out, f"classifiers.{i}", heads, f"exits.classifier.{i}")
    return out


def as_elasticbert_static(state, heads, exits, prefix):
    """The first layers of a deeper model with one head; the pooler keeps its absolute number."""
    out = prefixed(prefix, state)
    put_linear(out, f"{prefix}.encoder.pooler.{exits['exits'][0]['after'] - 1}.dense", heads, "exits.pooler.0")
    put_linear(out, "classifier", heads, "exits.classifier.0")
    return out


def as_elbert(state, heads, exits, prefix):
    """One shared head or one for each group of layers; poolers of their own where there are several."""
    out = prefixed(prefix, state)
    count = 1 + max(site["classifier"] for site in exits["exits"])
    own_pooler = exits["exits"][-1]["pooler"] == count - 1 and count > 1
    put_linear(out, "albert.pooler", heads, "exits.pooler.0")
    for c in range(count):
        name = "albert.encoder.exit_out_layer" + (f"s.{c}" if count > 1 else "")
        if own_pooler:
            put_linear(out, name + ".pooler", heads, f"exits.pooler.{c}")
        first = ".classifier1" if exits["inner"] else ".classifier"
        put_linear(out, name + first, heads, f"exits.classifier.{c}")
        if exits["inner"]:
            put_linear(out, name + ".classifier2", heads, f"exits.classifier.{c}.inner")
    if own_pooler:  # the backbone's pooler is then not the one that is read
        out["albert.pooler.weight"] = out["albert.pooler.weight"][:, :].clone() + 1
        out["albert.pooler.bias"] = out["albert.pooler.bias"].clone() + 1
    return out


def as_old_bert(state, heads, exits, prefix):
    """gamma and beta, the pretraining heads, and no fine-tuned head: how early BERT files look."""
    out = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
           for name, tensor in prefixed(prefix, state).items()}
    out["cls.predictions.bias"] = torch.zeros(VOCAB)
    out["cls.seq_relationship.weight"] = torch.zeros(2, 12)
    out["cls.seq_relationship.bias"] = torch.zeros(2)
    return out


def old_config(config):
    """config.json as transformers 2.1 wrote it: no model_type, no padding id, num_labels instead of id2label."""
    names = ["attention_probs_dropout_prob", "hidden_act", "hidden_dropout_prob", "hidden_size", "initializer_range",
             "intermediate_size", "layer_norm_eps", "max_position_embeddings", "num_attention_heads",
             "num_hidden_layers", "type_vocab_size", "vocab_size"]
    return {"finetuning_task": "mrpc", **{name: getattr(config, name) for name in names},
            "num_labels": config.num_labels, "output_attentions": False, "output_hidden_states": False,
            "pruned_heads": {}, "torchscript": False, "use_bfloat16": False}


def elastic_config(config, outputs, largest=None):
    fields = {**plain_config(config), "model_type": "elasticbert", "gradient_checkpointing": False,
              "architectures": ["ElasticBertForSequenceClassification"],
              "max_output_layers": largest or config.num_hidden_layers, "num_output_layers": outputs}
    return fields


def elbert_config(config, exits, heads=1, own_pooler=False):
    layers = config.num_hidden_layers
    return {**plain_config(config), "architectures": ["AlbertExitForCls"], "model_name": "albert_tiny",
            "my_out_dir": "out", "exit_config_path": "exit_config.json", "weight_name": "dyn", "thres_name": "bias_1",
            "margin": 0.0, "exit_thres": 0.1, "cnt_thres": 2.0, "use_out_pooler": not own_pooler,
            "pooler_input": exits["pool_input"].replace("+", "-"), "num_exit_layers": heads,
            "use_fc2": bool(exits["inner"]), "fc_size1": exits["width"], "fc_size2": exits["inner"] or 32,
            "w_lr": 0.01, "w_init": 4.0, "num_exit": layers - 1, "idx_lst": list(range(layers - 1)),
            "kd_enable": False}


def plain_config(config):
    fields = json.loads(config.to_json_string())
    for name in [n for n in fields if n.startswith("_")]:
        del fields[name]
    return fields


# Writing --------------------------------------------------------------------------------------------------------------

def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def write_weights(folder, state, container):
    state = {name: tensor.detach().contiguous().clone() for name, tensor in state.items()}
    if container == "safetensors":
        safetensors.torch.save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    else:  # what torch.save writes now (zip) and wrote before 1.6 (legacy)
        torch.save(state, os.path.join(folder, "pytorch_model.bin"),
                   _use_new_zipfile_serialization=container == "zip")


def write_golden(path, texts, hidden, extra):
    golden = {"ids": torch.cat([ids for ids, _ in texts]).to(torch.int32),
              "types": torch.cat([types for _, types in texts]).to(torch.uint8),
              "lengths": torch.tensor([len(ids) for ids, _ in texts], dtype=torch.int32),
              "row0": torch.stack([states[:, 0] for states in hidden]),
              "mean": torch.stack([states.mean(dim=1) for states in hidden]), **extra}
    golden = {name: (t.float() if t.is_floating_point() else t).contiguous() for name, t in golden.items()}
    for name, tensor in golden.items():
        assert not tensor.is_floating_point() or torch.isfinite(tensor).all(), name
    safetensors.torch.save_file(golden, path, metadata={
        "format": "exeunt.golden/1", "torch": torch.__version__, "transformers": transformers.__version__})


class Writer:
    def __init__(self, out):
        self.out, self.names = out, []
        os.makedirs(out, exist_ok=True)

    def folder(self, name):
        assert name not in self.names
        self.names.append(name)
        path = os.path.join(self.out, name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def finish(self, name):
        path = os.path.join(self.out, name)
        size = sum(os.path.getsize(os.path.join(path, file)) for file in os.listdir(path))
        assert size < SIZE_LIMIT, f"{name}: {size} bytes"
        print(f"{name:32} {size:7} bytes  {' '.join(sorted(os.listdir(path)))}")

    def heads(self, name, model, exits, naming=as_exeunt, prefix=None, config=None, container="safetensors"):
        """A backbone of Hugging Face with exit heads of our own, written in the names of one system."""
        folder, seed = self.folder(name), 1000 + len(self.names)
        heads = random_heads(exits, model.config.hidden_size, seed)
        state = {key: tensor for key, tensor in model.state_dict().items() if not key.endswith("_ids")}
        write_weights(folder, naming(state, heads, exits, prefix), container)
        write_json(os.path.join(folder, "config.json"), config or plain_config(model.config))
        if naming is as_exeunt:
            write_json(os.path.join(folder, "exits.json"), exits)
        texts = texts_for(model.config, seed)
        hidden = golden_hidden(model, texts)
        read, eps = hidden, getattr(model.config, "norm_eps", None)
        if hasattr(model, "final_norm"):  # exits read normed rows, as the model's own head does
            final = copy.deepcopy(model.final_norm).double()
            read = [final(states).detach() for states in hidden]
        write_golden(os.path.join(folder, "golden.safetensors"), texts, hidden, exit_outputs(exits, heads, read, eps))
        self.finish(name)

    def pretrained(self, name, model, **options):
        """A folder exactly as save_pretrained writes it; the logits are Hugging Face's own."""
        folder, seed = self.folder(name), 1000 + len(self.names)
        model.save_pretrained(folder, **options)
        texts = texts_for(model.config, seed)
        hidden, extra = golden_hidden(model, texts), {}
        if "Classification" in type(model).__name__:
            exact = copy.deepcopy(model).double()
            logits = [run(exact, ids[None], types[None])[0].logits for ids, types in texts]
            extra = {"exits": torch.tensor([model.config.num_hidden_layers], dtype=torch.int32),
                     "logits": torch.stack(logits)}  # [N, 1, C]
            if model.config.problem_type == "multi_label_classification":
                extra.update(set_outputs(exact, texts, seed))
        write_golden(os.path.join(folder, "golden.safetensors"), texts, hidden, extra)
        self.finish(name)


# The models -----------------------------------------------------------------------------------------------------------

def write_families(w):
    """The four families with larger layers, as Hugging Face saves them, bare and with its classification heads."""
    larger = dict(hidden_size=24, num_attention_heads=4, intermediate_size=56, num_hidden_layers=4)
    w.pretrained("hf_bert", randomise(BertModel(config_of("bert", **larger)), 1))
    w.pretrained("hf_roberta", randomise(RobertaModel(config_of("roberta", layer_norm_eps=1e-5, **larger)), 2))
    w.pretrained("hf_albert", randomise(AlbertModel(config_of("albert", **larger)), 3))
    w.pretrained("hf_bert_sharded", randomise(BertModel(config_of("bert", layer_norm_eps=1e-12)), 4),
                 max_shard_size="10KB")
    w.pretrained("hf_bert_classifier", randomise(BertForSequenceClassification(config_of("bert")), 5))
    w.pretrained("hf_roberta_classifier", randomise(RobertaForSequenceClassification(config_of("roberta")), 6))
    w.pretrained("hf_albert_classifier", randomise(AlbertForSequenceClassification(config_of("albert")), 7))
    w.pretrained("hf_bert_regression",
                 randomise(BertForSequenceClassification(config_of("bert", outputs=1)), 8))
    for name, dtype in [("bf16", torch.bfloat16), ("fp16", torch.float16)]:
        model = randomise(BertModel(config_of("bert")), 9, dtype)
        w.pretrained(f"hf_bert_{name}", model)
        folder = os.path.join(w.out, f"hf_bert_{name}")
        write_weights(folder, {key: tensor.to(dtype) for key, tensor in model.state_dict().items()}, "safetensors")
    w.heads("old_bert", backbone("bert", 10), layout([]), as_old_bert, "bert", container="legacy",
            config=old_config(config_of("bert")))


def write_layouts(w):
    """Every head layout over small backbones, in our names beside exits.json."""
    layers = 3
    w.heads("heads_own", backbone("bert", 20), layout(own(layers)))
    w.heads("heads_relu", backbone("bert", 21, hidden_act="relu"), layout(own(layers)))
    w.heads("heads_gelu_new", backbone("bert", 22, hidden_act="gelu_new"), layout(own(layers)))
    w.heads("heads_shared_pooler", backbone("roberta", 23), layout([(i + 1, None, 0, i) for i in range(layers)]))
    w.heads("heads_shared_all", backbone("albert", 24), layout([(i + 1, None, 0, 0) for i in range(layers)]))
    w.heads("heads_no_pooler", backbone("bert", 25), layout([(i + 1, None, None, i) for i in range(layers)]))
    w.heads("heads_fc2", backbone("bert", 26), layout(own(layers), inner=9, width=10))
    w.heads("heads_groups", backbone("albert", 27, num_hidden_layers=4, num_hidden_groups=2),
            layout([(i + 1, None, i // 2, i // 2) for i in range(4)]))
    w.heads("heads_few", backbone("bert", 28, num_hidden_layers=4), layout([(2, None, 0, 0), (4, None, 1, 1)]))
    w.heads("heads_lte", backbone("bert", 29), layout(own(layers), lte=True, width=8))
    w.heads("heads_ramp", backbone("bert", 30),
            layout(own(layers), last_ramp={"pooler": layers, "classifier": layers}))
    w.heads("heads_regression", backbone("roberta", 31), layout(own(layers), outputs=1))
    for seed, kind in enumerate(["mean", "max", "cls+mean", "cls+max", "mean+max"]):
        family = ["bert", "roberta", "albert"][seed % 3]
        w.heads("heads_pool_" + kind.replace("+", "_"), backbone(family, 32 + seed), layout(own(layers), kind))
    readers = [(i + 1, i, i, i) for i in range(layers)]
    w.heads("heads_reader", backbone("bert", 40), layout(readers, width=10))
    w.heads("heads_reader_roberta", backbone("roberta", 41), layout(readers))
    w.heads("heads_reader_albert", backbone("albert", 42), layout([(i + 1, 0, 0, i) for i in range(layers)]))
    w.heads("heads_reader_but_last", backbone("bert", 43),
            layout(readers[:-1] + [(layers, None, layers - 1, layers - 1)], lte=True))
    w.heads("heads_reader_mean", backbone("bert", 44),
            layout(readers[:-1] + [(layers, None, layers - 1, layers - 1)], "mean"))


def write_systems(w):
    """The same model shapes in the parameter names of the five systems and of BERxiT."""
    layers = 3
    ramp = {"pooler": layers, "classifier": layers}
    deebert = layout(own(layers), last_ramp=ramp)
    berxit = layout(own(layers), last_ramp=ramp, lte=True)
    pabee = layout([(i + 1, None, 0, i) for i in range(layers)])
    bert, roberta = backbone("bert", 50), backbone("roberta", 51, layer_norm_eps=1e-5)
    w.heads("deebert_bert", bert, deebert, as_deebert, "bert", old_config(bert.config), "legacy")
    w.heads("deebert_roberta", roberta, deebert, as_deebert, "roberta", old_config(roberta.config), "legacy")
    w.heads("romebert", backbone("bert", 52), deebert, as_romebert, "bert")
    w.heads("berxit_bert", backbone("bert", 53), berxit, as_berxit, "bert", container="zip")
    w.heads("berxit_albert", backbone("albert", 54), berxit, as_berxit, "albert")
    w.heads("pabee_bert", backbone("bert", 55), pabee, as_pabee, "bert", container="zip")
    w.heads("pabee_albert", backbone("albert", 56), pabee, as_pabee, "albert")

    elastic = backbone("bert", 57)
    w.heads("elasticbert", elastic, layout(own(layers)), as_elasticbert, "elasticbert",
            elastic_config(elastic.config, layers), "zip")
    elastic = backbone("bert", 58, num_hidden_layers=4)
    w.heads("elasticbert_last_two", elastic, layout([(3, None, 0, 0), (4, None, 1, 1)]), as_elasticbert,
            "elasticbert", elastic_config(elastic.config, 2))
    elastic = backbone("bert", 59)
    w.heads("elasticbert_static", elastic, layout([(layers, None, 0, 0)]), as_elasticbert_static, "elasticbert",
            elastic_config(elastic.config, 1, largest=4))

    shared = layout([(i + 1, None, 0, 0) for i in range(4)])
    albert = backbone("albert", 60, num_hidden_layers=4, hidden_act="gelu")
    w.heads("elbert", albert, shared, as_elbert, "albert", elbert_config(albert.config, shared), "legacy")
    shared = layout([(i + 1, None, 0, 0) for i in range(4)], pool_input="mean+max", inner=9)
    albert = backbone("albert", 61, num_hidden_layers=4, hidden_act="gelu")
    w.heads("elbert_fc2_mean_max", albert, shared, as_elbert, "albert", elbert_config(albert.config, shared), "zip")
    groups = layout([(i + 1, None, i // 2, i // 2) for i in range(4)])
    albert = backbone("albert", 62, num_hidden_layers=4, hidden_act="gelu")
    w.heads("elbert_groups", albert, groups, as_elbert, "albert",
            elbert_config(albert.config, groups, heads=2, own_pooler=True))


LARGER = dict(hidden_size=24, num_attention_heads=4, intermediate_size=56, num_hidden_layers=4)


def own_heads_before_last(layers):
    """Readers at every exit but the last, which has the head of the family."""
    return [(i + 1, i, i, i) for i in range(layers - 1)] + [(layers, None, layers - 1, layers - 1)]


def write_distilbert(w):
    w.pretrained("hf_distilbert", randomise(DistilBertModel(config_of("distilbert", **LARGER)), 70))
    w.pretrained("hf_distilbert_classifier",
                 randomise(DistilBertForSequenceClassification(config_of("distilbert")), 71))
    w.heads("heads_distilbert", backbone("distilbert", 72),
            layout(own_heads_before_last(3), pooler=dict(activation="relu")))


def write_electra(w):
    w.pretrained("hf_electra", randomise(ElectraModel(config_of("electra", **LARGER)), 73))
    w.pretrained("hf_electra_classifier",
                 randomise(ElectraForSequenceClassification(config_of("electra", embedding_size=12)), 74))
    w.heads("heads_electra", backbone("electra", 75), layout(own(3), pooler=dict(activation="gelu")))


def write_multilingual_roberta(w):
    w.pretrained("hf_xlm_roberta_classifier",
                 randomise(XLMRobertaForSequenceClassification(config_of("xlm-roberta", layer_norm_eps=1e-5)), 76))
    w.pretrained("hf_camembert", randomise(CamembertModel(config_of("camembert", **LARGER)), 77))


def write_modernbert(w):
    w.pretrained("hf_modernbert", randomise(ModernBertModel(config_of("modernbert", **LARGER)), 78))
    for seed, pooling in enumerate(["cls", "mean"]):
        config = config_of("modernbert", num_hidden_layers=4, classifier_pooling=pooling)
        w.pretrained(f"hf_modernbert_{pooling}", randomise(ModernBertForSequenceClassification(config), 79 + seed))
    w.heads("heads_modernbert", backbone("modernbert", 81, num_hidden_layers=5),
            layout(own_heads_before_last(5), pooler=dict(activation="gelu", pooler_bias=False, pooler_norm=True)))


def write_deberta(w):
    w.pretrained("hf_deberta", randomise(DebertaV2Model(config_of("deberta-v2", **LARGER)), 82))
    w.pretrained("hf_deberta_classifier", randomise(DebertaV2ForSequenceClassification(config_of("deberta-v2")), 83))
    w.heads("heads_deberta", backbone("deberta-v2", 84),
            layout(own_heads_before_last(3), pooler=dict(activation="gelu")))


def set_outputs(model, texts, seed):
    """What transformers makes of a model of several labels: its scores, as its pipeline has them, and its loss."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (len(texts), model.config.num_labels), generator=generator).double()
    scores, losses = [], []
    for (ids, types), gold in zip(texts, labels):
        with torch.no_grad():
            out = model(input_ids=ids[None], token_type_ids=types[None], labels=gold[None])
        scores.append(torch.sigmoid(out.logits[0]))
        losses.append(out.loss)
    return {"labels": labels, "scores": torch.stack(scores), "loss": torch.stack(losses)}


def write_multi_label(w):
    config = config_of("bert", problem_type="multi_label_classification")
    w.pretrained("hf_bert_multi_label", randomise(BertForSequenceClassification(config), 85))


def write_buckets(out):
    """DeBERTa's bucket of every distance from 0 on, for its usual sizes and for those of the golden models."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
    sizes = [(256, 512), (8, 32), (32, 128), (256, 1024)]
    write_json(os.path.join(out, "deberta_buckets.json"),
               [{"buckets": buckets, "distances": farthest, "of": make_log_bucket_position(
                   torch.arange(farthest), buckets, farthest).long().tolist()} for buckets, farthest in sizes])


def write_all(out):
    writer = Writer(out)
    for write in [write_families, write_layouts, write_systems, write_distilbert, write_electra,
                  write_multilingual_roberta, write_modernbert, write_deberta, write_multi_label]:
        write(writer)
    write_buckets(out)
    print(f"{len(writer.names)} models, torch {torch.__version__}, transformers {transformers.__version__}, "
          f"safetensors {safetensors.__version__}, python {sys.version.split()[0]}")


# Other folders --------------------------------------------------------------------------------------------------------

def load(folder, kind=AutoModel):
    model, info = kind.from_pretrained(folder, output_loading_info=True, attn_implementation="eager")
    missing = [name for name in info["missing_keys"]
               if not (name.endswith("_ids") or kind is AutoModel and "pooler" in name)]
    assert not missing, f"{folder}: missing {missing}"
    return model.double().eval()


def write_expected(folder, path):
    model = load(folder)
    texts = texts_for(model.config, 7, LENGTHS + [min(128, model.config.max_position_embeddings - 2)])
    write_golden(path, texts, hidden_of(model, texts), {})
    print(f"{path}: {len(texts)} texts, {model.config.num_hidden_layers} layers")


def check_folder(folder, path):
    golden = safetensors.torch.load_file(path)
    lengths = golden["lengths"].tolist()
    texts = list(zip(golden["ids"].long().split(lengths), golden["types"].long().split(lengths)))
    model = load(folder)
    hidden = hidden_of(model, texts)
    worst = {}
    for name, rows in [("row0", [states[:, 0] for states in hidden]), ("mean", [s.mean(dim=1) for s in hidden])]:
        worst[name] = (torch.stack(rows) - golden[name].double()).abs().max().item()
    if "logits" in golden and "Classification" in (model.config.architectures or [""])[0]:
        head = load(folder, AutoModelForSequenceClassification)
        logits = torch.cat([run(head, ids[None], types[None])[0].logits for ids, types in texts])
        worst["last logits"] = (logits - golden["logits"][:, -1].double()).abs().max().item()
    print(f"{folder}: {len(texts)} texts, largest differences {worst}")
    if not all(value <= TOLERANCE for value in worst.values()):
        sys.exit(f"{folder}: differs by more than {TOLERANCE}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", metavar="OUT")
    parser.add_argument("--expect", nargs=2, metavar=("DIR", "FILE"))
    parser.add_argument("--check-hf", nargs=2, metavar=("DIR", "FILE"))
    options = parser.parse_args()
    if options.expect:
        write_expected(*options.expect)
    elif options.check_hf:
        check_folder(*options.check_hf)
    elif options.out:
        write_all(options.out)
    else:
        parser.error("give a folder to write to")


if __name__ == "__main__":
    main()

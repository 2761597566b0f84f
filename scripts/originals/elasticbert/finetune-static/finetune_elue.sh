#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ElasticBERT's static finetune_elue.sh, ours inside: one exit, the best of the evaluations,
# and the test split answered.
# Run from the repository root; variables may be set outside (TASK_NAME=MRPC …/finetune-static/finetune_elue.sh).
# TRAIN_FLAGS and EVAL_FLAGS are added to the commands.
set -euo pipefail

ELUE_DIR=${ELUE_DIR:-./elue_data}
TASK_NAME=${TASK_NAME:-SST-2}
MODEL=${MODEL:-fnlp/elasticbert-base}  # a folder, or a name in the local Hugging Face cache
NUM_HIDDEN_LAYERS=${NUM_HIDDEN_LAYERS:-12}      # fewer: the first layers of the model alone
OUT_DIR=${OUT_DIR:-./ckpts/elasticbert-base/elue/$TASK_NAME}
PRECISION=${PRECISION:-fp32}    # as the original; or bf16, int8
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

"$EXEUNT" train --recipe elasticbert-static --model "$MODEL" --task "elue/$TASK_NAME" --data "$ELUE_DIR" \
  --layers "$NUM_HIDDEN_LAYERS" --lr 2e-5 --weight-decay 0.1 --batch 32 --epochs 10 --warmup 0.06 --max-length 128 \
  --seed 6 --log-every 50 --eval-every 50 --early-stop 10 --out "$OUT_DIR" --overwrite ${TRAIN_FLAGS:-}
"$EXEUNT" predict "$OUT_DIR" --task "elue/$TASK_NAME" --data "$ELUE_DIR" --split test --output-format glue \
  --out "$OUT_DIR/${TASK_NAME,,}.tsv" --precision "$PRECISION" ${EVAL_FLAGS:-}

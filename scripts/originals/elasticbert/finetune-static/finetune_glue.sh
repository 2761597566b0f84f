#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ElasticBERT's static finetune_glue.sh, ours inside: one exit, the best of the evaluations,
# and the test split answered.
# Run from the repository root; variables may be set outside (TASK_NAME=SST-2 …/finetune-static/finetune_glue.sh).
# TRAIN_FLAGS and EVAL_FLAGS are added to the commands.
set -euo pipefail

GLUE_DIR=${GLUE_DIR:-./glue_data}
TASK_NAME=${TASK_NAME:-RTE}
MODEL=${MODEL:-fnlp/elasticbert-base}  # a folder, or a name in the local Hugging Face cache
NUM_HIDDEN_LAYERS=${NUM_HIDDEN_LAYERS:-12}      # fewer: the first layers of the model alone
OUT_DIR=${OUT_DIR:-./ckpts/elasticbert-base/glue/$TASK_NAME}
PRECISION=${PRECISION:-fp32}    # as the original; or bf16, int8
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

"$EXEUNT" train --recipe elasticbert-static --model "$MODEL" --task "$TASK_NAME" --data "$GLUE_DIR" \
  --layers "$NUM_HIDDEN_LAYERS" --lr 2e-5 --weight-decay 0.1 --batch 32 --epochs 10 --warmup 0.06 --max-length 128 \
  --seed 6 --log-every 50 --eval-every 50 --early-stop 10 --out "$OUT_DIR" --overwrite ${TRAIN_FLAGS:-}
# MNLI's model answers both of its sets.
SETS=$TASK_NAME
if [ "$TASK_NAME" = MNLI ]; then SETS='MNLI MNLI-mm'; fi
for SET in $SETS; do
  "$EXEUNT" predict "$OUT_DIR" --task "$SET" --data "$GLUE_DIR" --split test --output-format glue \
    --out "$OUT_DIR/${SET,,}.tsv" --precision "$PRECISION" ${EVAL_FLAGS:-}
done

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ElasticBERT's finetune_elue_entropy.sh, ours inside: an exit after every layer, left by entropy.
# Run from the repository root; variables may be set outside (TASK_NAME=SST-2 …/finetune_elue_entropy.sh).
# TRAIN_FLAGS and EVAL_FLAGS are added to the commands.
set -euo pipefail

ELUE_DIR=${ELUE_DIR:-./elue_data}
TASK_NAME=${TASK_NAME:-MRPC}
MODEL=${MODEL:-fnlp/elasticbert-base}  # a folder, or a name in the local Hugging Face cache
EARLY_EXIT_ENTROPY=${EARLY_EXIT_ENTROPY:-0.3,0.4,0.5}
STEPS=${STEPS:-50}                        # between two checkpoints
OUT_DIR=${OUT_DIR:-./ckpts/elue/entropy/$TASK_NAME}
PRECISION=${PRECISION:-fp32}    # as the original; or bf16, int8
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

"$EXEUNT" train --recipe elasticbert --model "$MODEL" --task "elue/$TASK_NAME" --data "$ELUE_DIR" \
  --lr 2e-5 --weight-decay 0.1 --batch 32 --epochs 5 --warmup 0.06 --max-length 128 --seed 6 \
  --log-every "$STEPS" --eval-every "$STEPS" --save-every "$STEPS" --keep-checkpoints 0 \
  --out "$OUT_DIR" --overwrite ${TRAIN_FLAGS:-}

# Every checkpoint on dev; each setting's best one answers the test split.
POLICY=entropy:${EARLY_EXIT_ENTROPY//,/|}
"$EXEUNT" sweep "$OUT_DIR" --all-checkpoints --task "elue/$TASK_NAME" --data "$ELUE_DIR" --policy "$POLICY" \
  --view elasticbert --view-files "$OUT_DIR/eval" --test-files "$OUT_DIR" --precision "$PRECISION" ${EVAL_FLAGS:-}

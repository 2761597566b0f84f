#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ELBERT's glue_run.sh, ours inside: 'glue_run.sh 1 0' trains on GPU 0 and evaluates; with 0 as its first
# argument it only evaluates.
# Run from the repository root; variables may be set outside (TASK_NAME=RTE scripts/originals/elbert/glue_run.sh).
# TRAIN_FLAGS and EVAL_FLAGS are added to the commands.
set -euo pipefail

MODEL=${MODEL:-albert_large}
TASK_NAME=${TASK_NAME:-RTE}
TEST_MODE=${TEST_MODE:-one}                    # one threshold, or all from 0.9 to 0.1
GLUE_DIR=${GLUE_DIR:-./glue_data}
W_DIR=${W_DIR:-${MODEL//_/-}-v2}               # weights: a folder, or a name in the local Hugging Face cache
OUT_DIR=${OUT_DIR:-./saved_models/elbert/$MODEL}
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

if [ -n "${2:-}" ]; then export CUDA_VISIBLE_DEVICES=$2; fi
if [ "${1:-0}" = 1 ]; then
  "$EXEUNT" train --recipe elbert --model "$W_DIR" --task "$TASK_NAME" --data "$GLUE_DIR" \
    --lr 3e-5 --batch 32 --epochs 3 --max-length 128 --seed 42 --log-every 100 --save-every 5000 \
    --out "$OUT_DIR/$TASK_NAME" --overwrite ${TRAIN_FLAGS:-}
fi
case $TEST_MODE in
  one) POLICY='window:0.4,8,bias_1' ;;
  all) POLICY='window:0.9|0.8|0.7|0.6|0.5|0.4|0.3|0.2|0.1,8,bias_1' ;;
  *) echo "TEST_MODE: got '$TEST_MODE', want one or all" >&2; exit 2 ;;
esac
"$EXEUNT" sweep "$OUT_DIR/$TASK_NAME" --task "$TASK_NAME" --data "$GLUE_DIR" --policy "$POLICY" \
  --view elbert --view-files "$OUT_DIR/$TASK_NAME" ${EVAL_FLAGS:-}

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
PRECISION=${PRECISION:-fp32}    # as the original; or bf16, int8
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

RUN=$OUT_DIR/$TASK_NAME
if [ -n "${2:-}" ]; then export CUDA_VISIBLE_DEVICES=$2; fi
if [ "${1:-0}" = 1 ]; then
  "$EXEUNT" train --recipe elbert --model "$W_DIR" --task "$TASK_NAME" --data "$GLUE_DIR" \
    --lr 3e-5 --batch 32 --epochs 3 --max-length 128 --seed 42 --log-every 100 --save-every 5000 \
    --out "$RUN" --overwrite ${TRAIN_FLAGS:-}
  "$EXEUNT" policy set "$RUN" exit_thres=0.4 cnt_thres=8 -q > /dev/null  # as the original does behind its training
fi
# The model's own rule, which 'exeunt policy set RUN exit_thres=0.4' changes (the original's change_config.py).
OWN=$("$EXEUNT" policy show "$RUN" -q 2> /dev/null | sed -n '/(default)/,/^$/s/^policy  *//p' | head -1 || true)
if [ -z "$OWN" ]; then
  OWN=window:0.4,8,bias_1
  echo "$RUN has no exit rule of its own: it runs $OWN" >&2
fi
THRESHOLDS='0.9|0.8|0.7|0.6|0.5|0.4|0.3|0.2|0.1'
case $TEST_MODE in
  one) POLICY=$OWN ;;
  all)
    case $OWN in  # its rule, over all thresholds
      window:*) POLICY="window:$THRESHOLDS,${OWN#window:*,}" ;;
      confidence:*) POLICY='confidence:0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9' ;;  # logits: 1 minus ELBERT's
      *) POLICY="${OWN%%:*}:$THRESHOLDS" ;;
    esac ;;
  *) echo "TEST_MODE: got '$TEST_MODE', want one or all" >&2; exit 2 ;;
esac
SETS=$TASK_NAME  # MNLI's model is evaluated on both of its sets
if [ "$TASK_NAME" = MNLI ]; then
  if [ -e "$GLUE_DIR/MNLI/dev_mismatched.tsv" ]; then
    SETS='MNLI MNLI-mm'
  else
    echo "no MNLI/dev_mismatched.tsv in $GLUE_DIR: MNLI-mm is left out" >&2
  fi
fi
for SET in $SETS; do
  FILES=$RUN
  if [ "$SET" = MNLI-mm ]; then FILES+=-MM; fi
  "$EXEUNT" sweep "$RUN" --task "$SET" --data "$GLUE_DIR" --policy "$POLICY" --view elbert --view-files "$FILES" \
    --precision "$PRECISION" ${EVAL_FLAGS:-}
done

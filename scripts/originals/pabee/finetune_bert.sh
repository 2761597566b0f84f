#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PABEE's finetune_bert.sh, ours inside: finetune_albert.sh for BERT.
MODEL_TYPE=bert exec "$(dirname "$0")/finetune_albert.sh" "$@"

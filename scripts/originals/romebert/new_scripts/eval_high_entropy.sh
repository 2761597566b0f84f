#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RomeBERT's new_scripts/eval_high_entropy.sh, ours inside: ../scripts/eval_high_entropy.sh for the model trained with gradient projection.
ROUTINE=new_gp exec "$(dirname "$0")/../scripts/eval_high_entropy.sh" "$@"

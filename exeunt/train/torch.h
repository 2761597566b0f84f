// SPDX-License-Identifier: Apache-2.0
// LibTorch as the sources of this folder see it: the parts we use, since all of <torch/torch.h> takes twice as long to
// read. Even so these headers outweigh all of ours, so they are precompiled once and included nowhere else.
#pragma once

#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
#include <torch/utils.h>

// SPDX-License-Identifier: Apache-2.0
// Gradient rules: they change gradients in the backward pass and nothing in the forward pass.
#pragma once

#include <vector>

#include "exeunt/train/torch.h"

namespace exeunt::nn {

// `values` as they are; the gradient that comes back through them is multiplied by `factor`.
// Equilibrium puts 1/(L−i+1) behind layer i and (L−i) in front of layer i+1, so that the gradient at h_i becomes
//   G_i = (g_i + (L−i) G_{i+1}) / (L−i+1),
// the mean over the exits from i on (equilibrium); logit_scale scales z_i by 1/(L−i+1) alone.
[[nodiscard]] torch::Tensor scale_gradient(const torch::Tensor& values, double factor);

// Projection: with ρ = ⟨g_B, g_A⟩ / ⟨g_A, g_A⟩ over all tensors together, g_B ← g_B − min(ρ, 0) g_A, so that
// what is left of the secondary gradient B never points against the anchor A. Undefined tensors count as zero.
// Returns what was found, where the gradients are: ⟨g_B, g_A⟩, ⟨g_A, g_A⟩ and ⟨g_B, g_B⟩ before, [3] fp64.
torch::Tensor project_secondary(const std::vector<torch::Tensor>& anchor, std::vector<torch::Tensor>& secondary);

// The same as the log shows it: the angle between the two in degrees, and their norms.
struct ProjectionReport {
  double angle = 0, anchor_norm = 0, secondary_norm = 0;
};
[[nodiscard]] ProjectionReport projection_report(double across, double anchor, double secondary);

// Scales all gradients so that their common norm is at most `most` (0 = no limit). Returns the norm before.
double clip_gradients(const std::vector<torch::Tensor>& gradients, double most);

}  // namespace exeunt::nn

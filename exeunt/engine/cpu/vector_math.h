// SPDX-License-Identifier: Apache-2.0
// Exponential and activation functions on vectors, for any Lanes.
#pragma once

#include <cstddef>

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt::kernel {

// c[0] + c[1] x + … by Horner's rule, or a better way of the Lanes.
template <class V, size_t n>
typename V::F polynomial(const float (&c)[n], typename V::F x) {
  if constexpr (requires { V::polynomial(c, x); }) return V::polynomial(c, x);
  auto sum = V::set(c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) sum = V::fma(sum, x, V::set(c[i]));
  return sum;
}

// e^x with a relative error of 2e-7, clamped to e^−87 and e^88, so nothing overflows.
template <class V>
typename V::F exp(typename V::F x) {
  // x = n ln 2 + r with |r| ≤ ln 2 / 2, ln 2 in two parts so that r loses nothing; e^r by its series.
  constexpr float series[] = {1.0F, 1.0F, 0.5F, 1.0F / 6, 1.0F / 24, 1.0F / 120, 1.0F / 720};
  x = V::min(V::max(x, V::set(-87.0F)), V::set(88.0F));
  const auto n = V::round(x * V::set(1.44269504F));
  auto r = V::fma(n, V::set(-0.693359375F), x);
  r = V::fma(n, V::set(2.12194440e-4F), r);
  return V::times_power_of_two(polynomial<V>(series, r), n);
}

// x Φ(x). Φ − ½ is odd, so it is x̂ Q(x̂²) with x̂ = x clamped to ±limit, where Q gives exactly ½; Q is a minimax fit
// in t = 2 x̂²/limit² − 1, which keeps the coefficients small and the rounding harmless.
template <class V, size_t n>
typename V::F gelu(typename V::F x, const float (&q)[n], float limit) {
  const auto cut = V::min(V::max(x, V::set(-limit)), V::set(limit));
  const auto t = V::fma(cut * cut, V::set(2.0F / (limit * limit)), V::set(-1.0F));
  return x * V::fma(cut, polynomial<V>(q, t), V::set(0.5F));
}

// The error is at most 4e-7 · max(1, |x|).
template <class V>
typename V::F gelu_exact(typename V::F x) {
  constexpr float q[] = {0.1333925575017929F,   -0.06651812791824341F,   0.04926423355937004F,   -0.03960220143198967F,
                         0.03208445385098457F,  -0.025168823078274727F,  0.018852004781365395F,  -0.013717222958803177F,
                         0.009187193587422371F, -0.004803820513188839F,  0.0023597844410687685F, -0.002070589456707239F,
                         0.001499154488556087F, -0.00041898019844666123F};
  return gelu<V>(x, q, 5.3F);
}

// The error is at most 1.3e-4, far less than the step of an 8-bit quantised value. The difference from max(x, 0)
// depends only on |x| and is negligible beyond the limit.
template <class V>
typename V::F gelu_rough(typename V::F x) {
  constexpr float limit = 3.84F;
  constexpr float q[] = {0.49862236F,   -0.38185507F, -0.057713002F,  0.15158993F,
                         -0.062191829F, 0.01083204F,  -0.00071310246F};
  const auto cut = V::min(V::abs(x), V::set(limit));
  return V::fma(-cut, polynomial<V>(q, cut), V::max(x, V::set(0)));
}

// ½ x (1 + tanh u) = x / (1 + e^(−2u)) with u = √(2/π) (x + 0.044715 x³).
template <class V>
typename V::F gelu_new(typename V::F x) {
  const auto u2 = x * V::fma(x * x, V::set(-2.0F * 0.7978845608F * 0.044715F), V::set(-2.0F * 0.7978845608F));
  return x / (V::set(1.0F) + exp<V>(u2));
}

// 1 − 2 / (e^(2x) + 1).
template <class V>
typename V::F tanh(typename V::F x) {
  return V::set(1.0F) - V::set(2.0F) / (exp<V>(x + x) + V::set(1.0F));
}

// `rough` if the result is quantised to 8 bits afterwards.
template <class V, Activation activation, bool rough>
typename V::F activate(typename V::F x) {
  if constexpr (activation == Activation::relu) return V::max(x, V::set(0));
  if constexpr (activation == Activation::gelu_new) return gelu_new<V>(x);
  if constexpr (activation == Activation::gelu && rough) return gelu_rough<V>(x);
  if constexpr (activation == Activation::gelu && !rough) return gelu_exact<V>(x);
}

// Calls act<finish, activation, stored>() for a product: its epilogue, selected once for all of its tiles. `stored` is
// the precision of what it writes.
template <bool bf16, class Act>
auto with_finish(const Product& product, const Act& act) {
  constexpr Activation none = Activation::relu;
  const auto activated = [&]<Finish finish, Precision stored>() {
    switch (product.activation) {
      case Activation::gelu:
        return act.template operator()<finish, Activation::gelu, stored>();
      case Activation::gelu_new:
        return act.template operator()<finish, Activation::gelu_new, stored>();
      case Activation::relu:
        break;
    }
    return act.template operator()<finish, Activation::relu, stored>();
  };
  if constexpr (bf16) {
    const bool next = product.next.precision == Precision::bf16;
    if (product.finish == Finish::store_bf16)
      return act.template operator()<Finish::store_bf16, none, Precision::bf16>();
    if (product.finish == Finish::gate_next && next)
      return act.template operator()<Finish::gate_next, none, Precision::bf16>();
    if (product.finish == Finish::activate_next && next)
      return activated.template operator()<Finish::activate_next, Precision::bf16>();
  }
  switch (product.finish) {
    case Finish::store:
    case Finish::store_bf16:
      break;
    case Finish::add:
      return act.template operator()<Finish::add, none, Precision::fp32>();
    case Finish::gate:
      return act.template operator()<Finish::gate, none, Precision::fp32>();
    case Finish::gate_next:
      return act.template operator()<Finish::gate_next, none, Precision::fp32>();
    case Finish::activate:
      return activated.template operator()<Finish::activate, Precision::fp32>();
    case Finish::activate_next:
      return activated.template operator()<Finish::activate_next, Precision::fp32>();
  }
  return act.template operator()<Finish::store, none, Precision::fp32>();
}

}  // namespace exeunt::kernel

// SPDX-License-Identifier: Apache-2.0
// Making oneDNN's primitives in the ways of its versions 2 and 3, which differ in nothing else that is used here.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace treadle::external::api {

using dnnl::algorithm;
using dnnl::engine;
using dnnl::memory;
using dnnl::primitive_attr;
using dnnl::prop_kind;
using Dims = memory::dims;
using Desc = memory::desc;

inline constexpr prop_kind kInference = prop_kind::forward_inference;

#if DNNL_VERSION_MAJOR >= 3

inline void AppendEltwise(dnnl::post_ops* ops, algorithm alg, float alpha, float beta) {
  ops->append_eltwise(alg, alpha, beta);
}

/// Forward primitives in version 3 take all at once.
template <typename P>
typename P::primitive_desc Conv(const engine& e, const Desc& src, const Desc& weights, const Desc* bias,
                                const Desc& dst, const Dims& strides, const Dims& dilates, const Dims& begin,
                                const Dims& end, algorithm alg, const primitive_attr& attr) {
  if (bias == nullptr) return {e, kInference, alg, src, weights, dst, strides, dilates, begin, end, attr};
  return {e, kInference, alg, src, weights, *bias, dst, strides, dilates, begin, end, attr};
}
inline dnnl::inner_product_forward::primitive_desc Dense(const engine& e, const Desc& src, const Desc& weights,
                                                         const Desc* bias, const Desc& dst,
                                                         const primitive_attr& attr) {
  if (bias == nullptr) return {e, kInference, src, weights, dst, attr};
  return {e, kInference, src, weights, *bias, dst, attr};
}
inline dnnl::matmul::primitive_desc Matmul(const engine& e, const Desc& src, const Desc& weights, const Desc* bias,
                                           const Desc& dst, const primitive_attr& attr) {
  if (bias == nullptr) return {e, src, weights, dst, attr};
  return {e, src, weights, *bias, dst, attr};
}
inline dnnl::pooling_forward::primitive_desc Pool(const engine& e, algorithm alg, const Desc& src, const Desc& dst,
                                                  const Dims& strides, const Dims& kernel, const Dims& begin,
                                                  const Dims& end, const primitive_attr& attr) {
  return {e, kInference, alg, src, dst, strides, kernel, Dims(strides.size(), 0), begin, end, attr};
}
inline dnnl::eltwise_forward::primitive_desc Eltwise(const engine& e, algorithm alg, const Desc& data, float alpha,
                                                     float beta, const primitive_attr& attr) {
  return {e, kInference, alg, data, data, alpha, beta, attr};
}
inline dnnl::binary::primitive_desc Binary(const engine& e, algorithm alg, const Desc& a, const Desc& b,
                                           const Desc& dst, const primitive_attr& attr) {
  return {e, alg, a, b, dst, attr};
}
inline dnnl::reduction::primitive_desc Reduction(const engine& e, algorithm alg, const Desc& src, const Desc& dst,
                                                 const primitive_attr& attr) {
  return {e, alg, src, dst, 0.0f, 0.0f, attr};
}
using Softmax = dnnl::softmax_forward;
inline Softmax::primitive_desc MakeSoftmax(const engine& e, bool log, const Desc& data, int axis,
                                           const primitive_attr& attr) {
  return {e, kInference, log ? algorithm::softmax_log : algorithm::softmax_accurate, data, data, axis, attr};
}
inline dnnl::lrn_forward::primitive_desc Lrn(const engine& e, const Desc& data, memory::dim size, float alpha,
                                             float beta, float k, const primitive_attr& attr) {
  return {e, kInference, algorithm::lrn_across_channels, data, data, size, alpha, beta, k, attr};
}
inline dnnl::layer_normalization_forward::primitive_desc LayerNorm(const engine& e, const Desc& data, float epsilon,
                                                                   const primitive_attr& attr) {
  return {e,    kInference, data,
          data, epsilon,    dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift,
          attr};
}
inline dnnl::concat::primitive_desc Concat(const engine& e, int axis, const std::vector<Desc>& srcs,
                                           const primitive_attr& attr) {
  return {e, axis, srcs, attr};
}
inline bool IsBlocked(const Desc& desc) { return desc.get_format_kind() == memory::format_kind::blocked; }

#else

inline void AppendEltwise(dnnl::post_ops* ops, algorithm alg, float alpha, float beta) {
  ops->append_eltwise(1.0f, alg, alpha, beta);
}

template <typename P>
typename P::primitive_desc Conv(const engine& e, const Desc& src, const Desc& weights, const Desc* bias,
                                const Desc& dst, const Dims& strides, const Dims& dilates, const Dims& begin,
                                const Dims& end, algorithm alg, const primitive_attr& attr) {
  if (bias == nullptr) return {{kInference, alg, src, weights, dst, strides, dilates, begin, end}, attr, e};
  return {{kInference, alg, src, weights, *bias, dst, strides, dilates, begin, end}, attr, e};
}
inline dnnl::inner_product_forward::primitive_desc Dense(const engine& e, const Desc& src, const Desc& weights,
                                                         const Desc* bias, const Desc& dst,
                                                         const primitive_attr& attr) {
  if (bias == nullptr) return {{kInference, src, weights, dst}, attr, e};
  return {{kInference, src, weights, *bias, dst}, attr, e};
}
inline dnnl::matmul::primitive_desc Matmul(const engine& e, const Desc& src, const Desc& weights, const Desc* bias,
                                           const Desc& dst, const primitive_attr& attr) {
  if (bias == nullptr) return {{src, weights, dst}, attr, e};
  return {{src, weights, *bias, dst}, attr, e};
}
inline dnnl::pooling_forward::primitive_desc Pool(const engine& e, algorithm alg, const Desc& src, const Desc& dst,
                                                  const Dims& strides, const Dims& kernel, const Dims& begin,
                                                  const Dims& end, const primitive_attr& attr) {
  return {{kInference, alg, src, dst, strides, kernel, begin, end}, attr, e};
}
inline dnnl::eltwise_forward::primitive_desc Eltwise(const engine& e, algorithm alg, const Desc& data, float alpha,
                                                     float beta, const primitive_attr& attr) {
  return {{kInference, alg, data, alpha, beta}, attr, e};
}
inline dnnl::binary::primitive_desc Binary(const engine& e, algorithm alg, const Desc& a, const Desc& b,
                                           const Desc& dst, const primitive_attr& attr) {
  return {{alg, a, b, dst}, attr, e};
}
inline dnnl::reduction::primitive_desc Reduction(const engine& e, algorithm alg, const Desc& src, const Desc& dst,
                                                 const primitive_attr& attr) {
  return {{alg, src, dst, 0.0f, 0.0f}, attr, e};
}
using Softmax = dnnl::softmax_v2_forward;
inline Softmax::primitive_desc MakeSoftmax(const engine& e, bool log, const Desc& data, int axis,
                                           const primitive_attr& attr) {
  return {{kInference, log ? algorithm::softmax_log : algorithm::softmax_accurate, data, data, axis}, attr, e};
}
inline dnnl::lrn_forward::primitive_desc Lrn(const engine& e, const Desc& data, memory::dim size, float alpha,
                                             float beta, float k, const primitive_attr& attr) {
  return {{kInference, algorithm::lrn_across_channels, data, size, alpha, beta, k}, attr, e};
}
inline dnnl::layer_normalization_forward::primitive_desc LayerNorm(const engine& e, const Desc& data, float epsilon,
                                                                   const primitive_attr& attr) {
  return {{kInference, data, epsilon, dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift},
          attr,
          e};
}
inline dnnl::concat::primitive_desc Concat(const engine& e, int axis, const std::vector<Desc>& srcs,
                                           const primitive_attr& attr) {
  return {axis, srcs, e, attr};
}
inline bool IsBlocked(const Desc& desc) { return desc.data.format_kind == dnnl_blocked; }

#endif

/// Elements in row-major order without gaps.
inline Desc Plain(const Dims& dims) {
  Dims strides(dims.size());
  memory::dim stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
  return Desc(dims, memory::data_type::f32, strides);
}
/// The layout is for the primitive to choose.
inline Desc Any(const Dims& dims) { return Desc(dims, memory::data_type::f32, memory::format_tag::any); }

}  // namespace treadle::external::api

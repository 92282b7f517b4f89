// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/weight_forms.h"

namespace treadle::ops::cpu {
namespace {

thread_local WeightForms* current = nullptr;

}  // namespace

WeightForms::WeightForms() {
  if (current == nullptr) current = this;
}
WeightForms::~WeightForms() {
  if (current == this) current = nullptr;
}

relay::Constant WeightForms::Get(const runtime::NDArray& weight, const std::string& form,
                                 const std::function<runtime::NDArray()>& make) {
  if (current == nullptr) return relay::Constant(make());
  const Key key(weight.get(), form);
  if (auto known = current->forms_.find(key); known != current->forms_.end()) return known->second;
  relay::Constant made(make());
  current->weights_.emplace(weight.get(), weight);
  return current->forms_.emplace(key, made).first->second;
}

std::vector<double> WeightForms::Measure(const runtime::NDArray& weight, const std::string& what,
                                         const std::function<std::vector<double>()>& find) {
  if (current == nullptr) return find();
  const Key key(weight.get(), what);
  if (auto known = current->numbers_.find(key); known != current->numbers_.end()) return known->second;
  current->weights_.emplace(weight.get(), weight);
  return current->numbers_.emplace(key, find()).first->second;
}

std::shared_ptr<const void> WeightForms::KeepAny(const runtime::NDArray& weight, const std::string& what,
                                                 const std::function<std::shared_ptr<const void>()>& make) {
  if (current == nullptr) return make();
  const Key key(weight.get(), what);
  if (auto known = current->others_.find(key); known != current->others_.end()) return known->second;
  current->weights_.emplace(weight.get(), weight);
  return current->others_.emplace(key, make()).first->second;
}

}  // namespace treadle::ops::cpu

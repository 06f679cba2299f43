#include "osprey/kernels/parameter_update.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <tuple>

#include "kernels/cpu/loops/update_rows.h"
#include "kernels/device/parameters.h"
#include "kernels/operator.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

constexpr int64_t kBlock = 32768;  // numbers that one thread of a CPU works on at a time

/// Numbers of one tensor.
struct Part {
  size_t tensor;
  int64_t first, count;
};

/// All tensors in blocks.
std::vector<Part> parts_of(at::TensorList tensors) {
  std::vector<Part> parts;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int64_t first = 0; first < tensors[i].numel(); first += kBlock)
      parts.push_back({i, first, std::min(kBlock, tensors[i].numel() - first)});
  return parts;
}

/// Calls work(part) for all of them, by all threads.
template <class Work>
void for_each(const std::vector<Part>& parts, Work work) {
  parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t i) { work(parts[static_cast<size_t>(i)]); });
}

/// Whether the numbers of two tensors of one shape lie in the same order; the strides of sides of one do not matter.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

void check(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && has_kernels(tensor) && tensor.is_non_overlapping_and_dense(), what,
              " must be float32 without holes, got ", tensor.toString(), " ", tensor.sizes());
}

/// Lets the graph of gradients know that tensors are not what they were when it kept them: it then refuses to use them.
/// (Those of the inference mode are never kept.)
void mark_written(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors)
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

/// Calls work(table, number of the first tensor) for tables of all tensors; their companions are lists of as many.
template <int kCompanions, class Work>
void for_each_table(const std::array<at::TensorList, kCompanions>& lists, Work work) {
  device::TensorTable<kCompanions> table;
  size_t first = 0;
  for (size_t i = 0; i < lists[0].size(); ++i) {
    table.add(lists[0][i].numel());
    for (size_t k = 0; k < lists.size(); ++k) table.data[table.size - 1][k] = lists[k][i].template data_ptr<float>();
    if (table.full() || i + 1 == lists[0].size()) {
      work(table, first);
      first = i + 1;
      table.size = 0;
    }
  }
}

template <class Rule>
void update(at::TensorList values, at::TensorList gradients, const std::array<at::TensorList, 2>& slots,
            const at::Tensor& given_numbers, const at::Tensor& proceed) {
  const at::Tensor numbers = given_numbers.contiguous();
  TORCH_CHECK(gradients.size() == values.size(), "expected a gradient per parameter, ", values.size(), ", got ",
              gradients.size());
  for (size_t s = 0; s < slots.size(); ++s)
    TORCH_CHECK(slots[s].size() == (s < Rule::kSlots ? values.size() : 0), "expected ", Rule::kSlots,
                " slots with a tensor per parameter, ", values.size(), ", got ", slots[s].size(), " in slot ", s);
  TORCH_CHECK(numbers.scalar_type() == at::kFloat && numbers.sizes() == at::IntArrayRef({Rule::kNumbers}), "expected ",
              Rule::kNumbers, " float32 numbers of the rule, got ", numbers.toString(), " ", numbers.sizes());
  TORCH_CHECK(!proceed.defined() || (proceed.scalar_type() == at::kBool && proceed.numel() == 1),
              "proceed must be one bool");
  std::vector<at::Tensor> laid_out;  // gradients in the layout of their parameters
  for (size_t i = 0; i < values.size(); ++i) {
    check(values[i], "parameters");
    const auto like = [&](const at::Tensor& other, const char* what) {
      TORCH_CHECK(other.scalar_type() == at::kFloat && other.device() == values[i].device() &&
                      other.sizes() == values[i].sizes(),
                  what, " must be like the parameter, ", values[i].sizes(), ", got ", other.toString(), " ",
                  other.sizes());
    };
    like(gradients[i], "gradients");
    for (size_t s = 0; s < Rule::kSlots; ++s) {
      like(slots[s][i], "slots");
      TORCH_CHECK(same_layout(slots[s][i], values[i]), "slots must be laid out like the parameter");
    }
    laid_out.push_back(same_layout(gradients[i], values[i]) ? gradients[i]
                                                            : at::empty_like(values[i]).copy_(gradients[i]));
  }
  if (values.empty() || values[0].is_meta()) return;
  for (const at::TensorList& written : {values, slots[0], slots[1]}) mark_written(written);

  if (!device::takes_loops(values[0])) {
    std::array<at::TensorList, 2 + Rule::kSlots> lists;
    lists[0] = values;
    lists[1] = laid_out;
    for (size_t s = 0; s < Rule::kSlots; ++s) lists[2 + s] = slots[s];
    for_each_table<2 + Rule::kSlots>(lists, [&](const auto& table, size_t) {
      device::launch(values[0], table.blocks(),
                     device::Update<Rule>{table, numbers.const_data_ptr<float>(), device::data<const bool>(proceed)});
    });
    return;
  }
  if (proceed.defined() && !*proceed.const_data_ptr<bool>()) return;
  const Rule rule(numbers.const_data_ptr<float>());
  for_each(parts_of(values), [&](const Part& part) {
    const auto at = [&](const at::Tensor& tensor) { return static_cast<float*>(tensor.data_ptr()) + part.first; };
    cpu::update_rows(at(values[part.tensor]), at(laid_out[part.tensor]),
                     Rule::kSlots > 0 ? at(slots[0][part.tensor]) : nullptr,
                     Rule::kSlots > 1 ? at(slots[1][part.tensor]) : nullptr, part.count, rule);
  });
}

void update_operator(at::TensorList values, at::TensorList gradients, at::TensorList first_slots,
                     at::TensorList second_slots, int64_t rule, const at::Tensor& numbers,
                     const std::optional<at::Tensor>& proceed) {
  const auto run = [&](auto* of_rule) {
    update<std::remove_pointer_t<decltype(of_rule)>>(values, gradients, {first_slots, second_slots}, numbers,
                                                     proceed.value_or(at::Tensor()));
  };
  switch (static_cast<UpdateRule>(rule)) {
    case UpdateRule::kMomentum:
      return run(static_cast<MomentumRule*>(nullptr));
    case UpdateRule::kRmsProp:
      return run(static_cast<RmsPropRule<false>*>(nullptr));
    case UpdateRule::kRmsPropEpsilonOutside:
      return run(static_cast<RmsPropRule<true>*>(nullptr));
    case UpdateRule::kAdam:
      return run(static_cast<AdamRule*>(nullptr));
    case UpdateRule::kAverage:
      return run(static_cast<AverageRule*>(nullptr));
  }
  TORCH_CHECK(false, "there is no update rule ", rule);
}

/// [n] float64 on the device of the tensors, to be written.
at::Tensor room_for_norms(at::TensorList tensors) {
  const auto options = tensors.empty() ? at::TensorOptions() : tensors[0].options();
  return at::empty({static_cast<int64_t>(tensors.size())}, options.dtype(at::kDouble));
}

/// Norms of tensors by a kernel that leaves sums of the blocks of a table: make_kernel(table, number of its first
/// tensor, sums of its squares, how far apart rows of sums are).
/// rows     of sums that the kernel leaves; the first are those of squares
/// returns  [rows, blocks of all tensors] float64
template <int kCompanions, class MakeKernel>
at::Tensor norms_on_device(const std::array<at::TensorList, kCompanions>& lists, int64_t rows, const at::Tensor& norms,
                           MakeKernel make_kernel) {
  using Table = device::TensorTable<kCompanions>;
  int64_t blocks = 0;
  for (const at::Tensor& tensor : lists[0]) blocks += Table::blocks_of(tensor.numel());
  at::Tensor sums = at::empty({rows, blocks}, norms.options());
  auto* const of_blocks = sums.mutable_data_ptr<double>();
  int64_t done = 0;
  for_each_table<kCompanions>(lists, [&](const auto& table, size_t first) {
    device::launch(norms, table.blocks(), make_kernel(table, first, of_blocks + done, blocks));
    done += table.blocks();
  });
  device::Norms kernel{.sums = of_blocks, .norms = norms.mutable_data_ptr<double>()};
  for (const at::Tensor& tensor : lists[0]) {
    kernel.add(Table::blocks_of(tensor.numel()));
    if (!kernel.full() && &tensor != lists[0].end() - 1) continue;
    device::launch(norms, kernel.size, kernel);
    kernel = kernel.next();
  }
  return sums;
}

/// What is summed of a part.
struct PartSums {
  double squares = 0, penalty = 0;
};

/// The same by loops: add(part, sums) makes those of a part. Returns the penalty of all.
template <class Add>
double norms_by_loops(at::TensorList tensors, const at::Tensor& norms, Add add) {
  const std::vector<Part> parts = parts_of(tensors);
  std::vector<PartSums> sums(parts.size());
  for_each(parts, [&](const Part& part) { add(part, sums[static_cast<size_t>(&part - parts.data())]); });
  double* const result = norms.zero_().mutable_data_ptr<double>();
  double penalty = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    result[parts[i].tensor] += sums[i].squares;
    penalty += sums[i].penalty;
  }
  for (int64_t i = 0; i < norms.size(0); ++i) result[i] = std::sqrt(result[i]);
  return penalty;
}

at::Tensor norms_operator(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) check(tensor, "tensors");
  at::Tensor norms = room_for_norms(tensors);
  if (tensors.empty() || tensors[0].is_meta()) return norms;
  if (!device::takes_loops(tensors[0])) {
    norms_on_device<1>({tensors}, 1, norms, [](const auto& table, size_t, double* sums, int64_t) {
      return device::SquareSums{table, sums};
    });
  } else {
    norms_by_loops(tensors, norms, [&](const Part& part, PartSums& sums) {
      cpu::square_sum(tensors[part.tensor].const_data_ptr<float>() + part.first, part.count, &sums.squares);
    });
  }
  return norms;
}

std::tuple<at::Tensor, at::Tensor> finish_operator(at::TensorList gradients, at::TensorList parameters,
                                                   const at::Tensor& penalties,
                                                   const std::optional<at::Tensor>& divisor) {
  const auto count = static_cast<int64_t>(gradients.size());
  TORCH_CHECK(parameters.size() == gradients.size(), "expected a parameter per gradient, ", count, ", got ",
              parameters.size());
  TORCH_CHECK(penalties.scalar_type() == at::kFloat && penalties.is_contiguous() &&
                  penalties.sizes() == at::IntArrayRef({count, 2}),
              "expected ", count, " x 2 float32 penalties, got ", penalties.toString(), " ", penalties.sizes());
  TORCH_CHECK(!divisor || (divisor->scalar_type() == at::kFloat && divisor->numel() == 1),
              "divisor must be one float32");
  std::vector<at::Tensor> laid_out;  // parameters in the layout of their gradients
  for (size_t i = 0; i < gradients.size(); ++i) {
    check(gradients[i], "gradients");
    TORCH_CHECK(parameters[i].scalar_type() == at::kFloat && parameters[i].device() == gradients[i].device() &&
                    parameters[i].sizes() == gradients[i].sizes(),
                "parameters must be like the gradient, ", gradients[i].sizes(), ", got ", parameters[i].toString(), " ",
                parameters[i].sizes());
    laid_out.push_back(same_layout(parameters[i], gradients[i]) ? parameters[i]
                                                                : at::empty_like(gradients[i]).copy_(parameters[i]));
  }
  at::Tensor norms = room_for_norms(gradients);
  if (gradients.empty() || gradients[0].is_meta()) return {norms, at::zeros({}, norms.options())};
  mark_written(gradients);
  const float *const of_each = penalties.const_data_ptr<float>(), *const by = divisor ? divisor->const_data_ptr<float>()
                                                                                      : nullptr;
  if (!device::takes_loops(gradients[0])) {
    const at::Tensor sums =
        norms_on_device<2>({gradients, at::TensorList(laid_out)}, 2, norms,
                           [&](const auto& table, size_t first, double* squares, int64_t blocks) {
                             return device::FinishGradients{table, of_each + 2 * first, by, squares, squares + blocks};
                           });
    return {norms, sums[1].sum()};
  }
  const double penalty = norms_by_loops(gradients, norms, [&](const Part& part, PartSums& sums) {
    const float* const own = of_each + 2 * part.tensor;
    cpu::finish_rows(static_cast<float*>(gradients[part.tensor].data_ptr()) + part.first,
                     laid_out[part.tensor].const_data_ptr<float>() + part.first, part.count,
                     GradientRule{by != nullptr ? *by : 1.0f, own[0], own[1]}, &sums.squares, &sums.penalty);
  });
  return {norms, at::full({}, penalty, norms.options())};
}

void scale_operator(at::TensorList tensors, const at::Tensor& given_factors) {
  const at::Tensor factors = given_factors.contiguous();
  TORCH_CHECK(factors.scalar_type() == at::kFloat && factors.dim() == 1 &&
                  factors.size(0) == static_cast<int64_t>(tensors.size()),
              "expected ", tensors.size(), " float32 factors, got ", factors.toString(), " ", factors.sizes());
  for (const at::Tensor& tensor : tensors) check(tensor, "tensors");
  if (tensors.empty() || tensors[0].is_meta()) return;
  mark_written(tensors);
  const float* const factor = factors.const_data_ptr<float>();
  if (!device::takes_loops(tensors[0])) {
    for_each_table<1>({tensors}, [&](const auto& table, size_t first) {
      device::launch(factors, table.blocks(), device::Scale{table, factor + first});
    });
    return;
  }
  for_each(parts_of(tensors), [&](const Part& part) {
    float* const values = static_cast<float*>(tensors[part.tensor].data_ptr()) + part.first;
    for (int64_t i = 0; i < part.count; ++i) values[i] *= factor[part.tensor];
  });
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "update_parameters(Tensor(a!)[] values, Tensor[] gradients, Tensor(b!)[] first_slots, "
         "Tensor(c!)[] second_slots, int rule, Tensor numbers, Tensor? proceed) -> ()",
         &update_operator);
  define(library,
         "finish_gradients(Tensor(a!)[] gradients, Tensor[] parameters, Tensor penalties, Tensor? divisor) -> "
         "(Tensor, Tensor)",
         &finish_operator);
  define(library, "tensor_norms(Tensor[] tensors) -> Tensor", &norms_operator);
  define(library, "scale_tensors(Tensor(a!)[] tensors, Tensor factors) -> ()", &scale_operator);
}

}  // namespace

void update_parameters(UpdateRule rule, const ParameterLists& lists, const at::Tensor& numbers,
                       const at::Tensor& proceed) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("update_parameters", &update_operator);
  const auto slots = [&](size_t s) {
    return s < lists.slots.size() ? at::TensorList(lists.slots[s]) : at::TensorList();
  };
  TORCH_CHECK(lists.slots.size() <= 2, "expected at most 2 slots, got ", lists.slots.size());
  operation.call(lists.values, lists.gradients, slots(0), slots(1), static_cast<int64_t>(rule), numbers,
                 if_defined(proceed));
}

FinishedGradients finish_gradients(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& parameters,
                                   const at::Tensor& penalties, const at::Tensor& divisor) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("finish_gradients", &finish_operator);
  const auto [norms, penalty] = operation.call(gradients, parameters, penalties, if_defined(divisor));
  return {norms, penalty};
}

at::Tensor tensor_norms(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("tensor_norms", &norms_operator);
  // Without a tensor there is nothing to choose a device by.
  return tensors.empty() ? norms_operator({}) : operation.call(tensors);
}

void scale_tensors(const std::vector<at::Tensor>& tensors, const at::Tensor& factors) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("scale_tensors", &scale_operator);
  operation.call(tensors, factors);
}

}  // namespace osprey::kernels

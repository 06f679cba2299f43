// Precompiled once and shared by every target: the headers that most files need and that take long to read.
#pragma once
#include <ATen/ATen.h>
#include <google/protobuf/message.h>
#include <spdlog/spdlog.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

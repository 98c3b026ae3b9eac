#pragma once

// torchvision's networks as files in tests/oracles: the names, shapes and logits to compare with.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace torchvision {

inline std::ifstream oracle(const std::string& file) {
  const auto tests = std::filesystem::path(__FILE__).parent_path().parent_path();
  std::ifstream stream(tests / "oracles" / file);
  if (!stream) throw std::runtime_error("cannot open tests/oracles/" + file);
  return stream;
}

struct NamedShape {
  std::string name, shape;
};

/// All tensors of the network that lines of `file` begin with, in their order.
inline std::vector<NamedShape> tensors(const std::string& file, const std::string& network) {
  std::ifstream stream = oracle(file);
  std::vector<NamedShape> result;
  for (std::string of, name, shape; stream >> of >> name >> shape;)
    if (of == network) result.push_back({name, shape});
  return result;
}

inline torch::Tensor logits(const std::string& network) {
  std::ifstream stream = oracle("torchvision_logits.txt");
  std::vector<double> result;
  for (std::string line, of; std::getline(stream, line);) {
    std::istringstream words(line);
    words >> of;
    if (of == network)
      for (double logit = 0; words >> logit;) result.push_back(logit);
  }
  return torch::tensor(result, torch::kFloat64);
}

/// Parameters and buffers by name.
inline std::map<std::string, torch::Tensor> tensors_of(const torch::nn::Module& model) {
  std::map<std::string, torch::Tensor> result;
  for (const auto& item : model.named_parameters()) result[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) result[item.key()] = item.value();
  return result;
}

/// "64x3x7x7"
inline std::string shape_of(const torch::Tensor& tensor) {
  if (tensor.dim() == 0) return "scalar";
  std::ostringstream text;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text << (i > 0 ? "x" : "") << tensor.size(i);
  return text.str();
}

inline torch::Tensor sines(torch::IntArrayRef shape, int k, double centre, double spread) {
  const torch::Tensor place = torch::arange(c10::multiply_integers(shape), torch::kFloat64);
  return (centre + spread * torch::sin(0.37 * place + k)).reshape(shape);
}

/// Tensor `k` of the state that the programs in tests/oracles give a network.
inline torch::Tensor weight(const std::string& name, const torch::Tensor& like, int k) {
  if (name.ends_with("running_var")) return sines(like.sizes(), k, 1, 0.5);
  if (like.dim() > 1)
    return sines(like.sizes(), k, 0,
                 std::sqrt(2 / static_cast<double>(like.numel() / like.size(0))));
  return sines(like.sizes(), k, name.ends_with("weight") ? 1 : 0, 0.1);
}

/// `names` is a file in tests/oracles, as in `tensors`.
inline void expect_names_and_shapes(const torch::nn::Module& model, const std::string& names,
                                    const std::string& network) {
  const auto found = tensors_of(model);
  const auto expected = tensors(names, network);
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, shape] : expected) {
    ASSERT_TRUE(found.contains(name)) << network << ' ' << name;
    EXPECT_EQ(shape_of(found.at(name)), shape) << network << ' ' << name;
  }
}

/// Changes the model's weights, in place.
template <class Model>
void expect_logits(Model& model, const std::string& names, const std::string& network) {
  model.to(torch::kFloat64);
  model.eval();
  const torch::NoGradGuard no_gradients;
  auto all = tensors_of(model);
  int k = 0;
  for (const auto& [name, shape] : tensors(names, network))
    if (!name.ends_with("num_batches_tracked")) all.at(name).copy_(weight(name, all.at(name), k++));
  const torch::Tensor found = model.forward(sines({1, 3, 70, 64}, 0, 0, 1)).squeeze(0);
  const torch::Tensor expected = logits(network);
  ASSERT_EQ(found.sizes(), expected.sizes());
  // In double precision only the order of sums differs.
  EXPECT_TRUE(torch::allclose(found, expected, 1e-9, 1e-9)) << found << expected;
}

}  // namespace torchvision

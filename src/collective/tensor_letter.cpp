#include "collective/tensor_letter.h"

namespace lockstep::collective {

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  check(tensor.is_cpu() && tensor.is_contiguous(), "bytes are of a contiguous tensor on the CPU");
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::span<std::byte> writable_bytes_of(const torch::Tensor& tensor) {
  check(tensor.is_cpu() && tensor.is_contiguous(), "bytes are of a contiguous tensor on the CPU");
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

void put_tensors(base::Letter& letter, const std::vector<torch::Tensor>& tensors) {
  letter.put(tensors.size());
  for (const torch::Tensor& tensor : tensors) {
    letter.put(tensor.defined());
    if (!tensor.defined()) continue;
    const torch::Tensor values = tensor.detach().cpu().contiguous();
    letter.put(values.scalar_type());
    letter.put_list(std::span(values.sizes().data(), values.sizes().size()));
    letter.put(bytes_of(values));
  }
}

std::vector<torch::Tensor> get_tensors(base::LetterReader& letter) {
  std::vector<torch::Tensor> tensors(letter.get<std::size_t>());
  for (torch::Tensor& tensor : tensors) {
    if (!letter.get<bool>()) continue;
    const auto type = letter.get<torch::ScalarType>();
    tensor = torch::empty(letter.list<std::int64_t>(), type);
    std::ranges::copy(letter.bytes(tensor.nbytes()), writable_bytes_of(tensor).begin());
  }
  return tensors;
}

}  // namespace lockstep::collective

#include <lockstep/batch.h>
#include <lockstep/detail/shards.h>
#include <lockstep/detail/written.h>
#include <lockstep/error.h>

#include <cctype>

namespace lockstep::detail {
namespace {

std::string name_of(const std::string& path) {
  return path.empty() ? "the batch itself" : "'" + path + "'";
}

std::string sizes_of(const torch::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "(" : ", ") + std::to_string(size);
  return text + ")";
}

std::string describe(const std::string& path, std::int64_t rows, const torch::Tensor* tensor) {
  return name_of(path) + " has " + std::to_string(rows) +
         (tensor ? ", its sizes are " + sizes_of(*tensor) : "");
}

/// A dimension other than the first with this size; 0: none.
std::int64_t other_dimension(const torch::Tensor* tensor, std::int64_t size) {
  for (std::int64_t dim = 1; tensor && dim < tensor->dim(); ++dim)
    if (tensor->size(dim) == size) return dim;
  return 0;
}

/// The dimension along which a tensor is cut.
std::int64_t dimension_of(const torch::Tensor& leaf, const Part& part) {
  const std::int64_t dim = part.dim < 0 ? part.dim + leaf.dim() : part.dim;
  if (dim < 0 || dim >= leaf.dim())
    throw ConfigError("along(" + std::to_string(part.dim) + ", x): " + name_of(part.path()) +
                      " has only " + std::to_string(leaf.dim()) + " dimensions.");
  return dim;
}

bool is_cut(const torch::Tensor& leaf, const Part& part) {
  return leaf.defined() && part.cut != Cut::whole && (leaf.dim() > 0 || part.cut == Cut::along);
}

}  // namespace

std::string Part::path() const {
  std::string result = outer ? outer->path() : "";
  if (!result.empty() && !before.empty() && std::isalpha(static_cast<unsigned char>(before[0])))
    result += '.';
  result.append(before).append(text);
  if (index >= 0) result += std::to_string(index);
  return result.append(after);
}

std::int64_t rows_of(const torch::Tensor& leaf, const Part& part) {
  return is_cut(leaf, part) ? leaf.size(dimension_of(leaf, part)) : kNoRows;
}

torch::Tensor cut(const torch::Tensor& leaf, const Part& part, const RowRange& rows) {
  return leaf.narrow(dimension_of(leaf, part), rows.begin, rows.size());
}

void require_portion(const Portion& portion, int shards, std::int64_t rows, bool by_rows) {
  if (portion.whole()) return;
  require_valid(portion.share);
  check(by_rows, "part of a batch was made, of a type that is not cut by rows");
  check(portion.share.shards == shards, "part of a batch was made, for another number of shards");
  const RowRange made = portion.range();
  if (rows != made.size())
    throw ConfigError("the input says that it made the rows " + std::to_string(made.begin) +
                      " to, not including, " + std::to_string(made.end) + " of a batch of " +
                      std::to_string(portion.rows) + ", and the batch has " + std::to_string(rows) +
                      ": Stream::portion() must describe what next() returned last, see "
                      "lockstep/stream.h.");
}

void SameRows::add(std::int64_t rows, const torch::Tensor* tensor, const Part& part) {
  if (rows == kNoRows) return;
  if (rows_ < 0) {  // none yet, or unknown ones
    rows_ = rows;
    first_ = part.path();
    tensor_ = tensor;
    return;
  }
  if (rows == kUnknownRows || rows == rows_) return;
  std::string hints = " If one of them is the same for all rows, pass whole(x)";
  if (const std::int64_t dim = other_dimension(tensor, rows_))
    hints += "; if the rows of " + name_of(part.path()) + " are its dimension " +
             std::to_string(dim) + ", pass along(" + std::to_string(dim) + ", x)";
  else if (const std::int64_t first_dim = other_dimension(tensor_, rows))
    hints += "; if the rows of " + name_of(first_) + " are its dimension " +
             std::to_string(first_dim) + ", pass along(" + std::to_string(first_dim) + ", x)";
  if (part.of_vector) hints += "; if each item of the vector is one row, pass list(v)";
  throw ConfigError(
      "the parts of the batch have different numbers of rows: " + describe(first_, rows_, tensor_) +
      "; " + describe(part.path(), rows, tensor) + "." + hints + ": see lockstep/batch.h.");
}

void SameRows::finish() const {
  if (rows_ == kNoRows)
    throw ConfigError(
        "nothing in the batch has rows: its tensors are undefined, have 0 dimensions, or are "
        "whole(). A batch is cut by rows, so at least one part must have them.");
}

std::uint32_t version_of(const torch::Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference() ? static_cast<std::uint32_t>(tensor._version())
                                                    : 0;
}

void refuse_written(const char* who, const Part& part) {
  throw ConfigError(std::string("the ") + who + " wrote to " +
                    (part.path().empty() ? "its shard" : name_of(part.path()) + " of its shard") +
                    " in place. A shard may be a copy, so what is written is lost, or changes "
                    "the batch for the next step: clone() the tensor first, or return what you "
                    "computed with Loss::output.");
}

}  // namespace lockstep::detail

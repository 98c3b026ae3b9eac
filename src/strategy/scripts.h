#pragma once

// TorchScript modules that a model runs without lockstep::Scripted. See "Note: scripts".

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "arena/arena.h"

namespace lockstep::strategy {

/// The scripts that one tower's model has run in a step. A member that is a torch::jit::Module is
/// nothing that torch::nn::Module knows of, but LibTorch reports each call of a script's function.
class Scripts {
 public:
  /// While it lives, scripts that this thread runs are noted.
  class Scope {
   public:
    explicit Scope(Scripts& scripts);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Scripts* outer_;
  };

  void clear() { ran_.clear(); }
  bool any() const { return !ran_.empty(); }  ///< were run
  void note(c10::intrusive_ptr<c10::ivalue::Object> script);

  /// Throws ConfigError when a script has a parameter that got a gradient, or a buffer that was
  /// written, which are not among the `registered` tensors.
  void check(const arena::Tensors& registered) const;

  /// Throws ConfigError when the same scripts are in other modes on another device.
  void require_same_modes(const std::string& device, const Scripts& other,
                          const std::string& other_device) const;

 private:
  struct Buffer {
    std::string name;
    const void* tensor;
    std::int64_t version;
    bool operator==(const Buffer&) const = default;
  };
  struct Ran {
    c10::intrusive_ptr<c10::ivalue::Object> script;
    std::vector<Buffer> buffers;  // before it ran
  };
  static std::vector<Buffer> buffers_of(const c10::intrusive_ptr<c10::ivalue::Object>& script);

  std::vector<Ran> ran_;
};

}  // namespace lockstep::strategy

// Kernels for the CPU alone: what this build says to any other tensor. One with CUDA has cuda/ in its place.
#include <c10/util/Exception.h>

#include "thinwire/kernels/memory.h"

namespace thinwire::kernels {

void throw_no_kernels(at::Device device) {
  TORCH_CHECK(false, "[kernels] wanted a tensor on the CPU, got one on ", device, ": this build has no CUDA");
}

}  // namespace thinwire::kernels

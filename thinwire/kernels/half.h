// Sixteen bits a number (fp16 or bf16), with error feedback, by LibTorch's own conversion.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// With c = x + error (which may be undefined): sent = c in the type of `sent`, at most its largest number; error = what
// was lost. Returns -1, or about where (within 4096) the first c is that is not finite; `sent` and error are then
// undefined. Decoding is a conversion: x.copy_(sent).
int64_t half_encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& sent);

}  // namespace thinwire::kernels

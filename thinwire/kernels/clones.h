// A function marked THINWIRE_CLONES is compiled for several generations of CPUs and chosen when the program starts, so
// one binary is fast on new machines and legal on old ones. Multiply-adds are never contracted (CMakeLists.txt), so all
// clones give the same bits. (Sanitizers cannot run the choosing code: there the plain one is used.)
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(THINWIRE_SANITIZED)
#define THINWIRE_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define THINWIRE_CLONES
#endif

// For what a clone calls: a function that is not inlined is compiled once, for the oldest CPU.
#define THINWIRE_INLINE inline __attribute__((always_inline))

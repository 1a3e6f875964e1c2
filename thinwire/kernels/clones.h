// A function marked THINWIRE_CLONES is compiled for several generations of CPUs and chosen when the program starts, so
// one binary is fast on new machines and legal on old ones. Multiply-adds are never contracted (CMakeLists.txt), so all
// clones give the same bits, whichever compiler made them. (Sanitizers cannot run the choosing code: there the plain
// one is used, and on CPUs other than x86-64.)
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(THINWIRE_SANITIZED) && \
    (!defined(__clang__) || __clang_major__ >= 14)
#define THINWIRE_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define THINWIRE_CLONES
#endif

// For what a clone calls: a function that is not inlined is compiled once, for the oldest CPU. Lambdas too: mark them,
// or pass plain arguments.
#define THINWIRE_INLINE inline __attribute__((always_inline))

// Before a loop whose passes do not depend on each other although its pointers may be equal: next may be x.
#if defined(__clang__)
#define THINWIRE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define THINWIRE_INDEPENDENT _Pragma("GCC ivdep")
#endif

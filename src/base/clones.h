#pragma once

// For loops that the compiler is to vectorise. A function with LOCKSTEP_CLONES is compiled once a
// vector width; the widest that the machine has is chosen when the program starts. Sanitizers
// cannot start with clones.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(LOCKSTEP_SANITIZED)
#define LOCKSTEP_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LOCKSTEP_CLONES
#endif
#define LOCKSTEP_INLINE inline __attribute__((always_inline))

# Finds LibTorch through Python, so that program, library and (later) wheel share one copy, and makes the target
# thinwire::LibTorch. Torch's own find_package demands the CUDA toolkit wherever the wheel was built with CUDA, which is what
# pip installs by default; headers and two libraries are all that is needed here.
set(THINWIRE_PYTHON "" CACHE FILEPATH "Python that has torch >= 2.9 (default: .venv, then python3)")
if(TARGET thinwire::LibTorch)
  return()
endif()
if(NOT THINWIRE_PYTHON)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../.venv/bin/python)
    get_filename_component(python ${CMAKE_CURRENT_LIST_DIR}/../.venv/bin/python ABSOLUTE)
    set(THINWIRE_PYTHON ${python} CACHE FILEPATH "" FORCE)
  else()
    set(THINWIRE_PYTHON python3 CACHE FILEPATH "" FORCE)
  endif()
endif()

execute_process(
  COMMAND ${THINWIRE_PYTHON} -c "import os, sys, sysconfig, torch; print(';'.join([torch.__version__, os.path.dirname(torch.__file__), sysconfig.get_path('stdlib'), str(int(torch.compiled_with_cxx11_abi()))]))"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_VARIABLE why)
if(failed)
  message(FATAL_ERROR "${THINWIRE_PYTHON} cannot import torch: run `make setup`, or set THINWIRE_PYTHON.\n${why}")
endif()
list(GET found 0 TORCH_VERSION)
list(GET found 1 TORCH_DIR)
list(GET found 2 PYTHON_STDLIB)
list(GET found 3 TORCH_CXX11_ABI)
if(TORCH_VERSION VERSION_LESS 2.9)
  message(FATAL_ERROR "torch >= 2.9 is wanted, ${THINWIRE_PYTHON} has ${TORCH_VERSION}")
endif()
# Headers and libraries of another minor version have other layouts in memory.
if(THINWIRE_BUILT_WITH_TORCH)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" built ${THINWIRE_BUILT_WITH_TORCH})
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" here ${TORCH_VERSION})
  if(NOT built STREQUAL here)
    message(FATAL_ERROR "this thinwire was built with torch ${THINWIRE_BUILT_WITH_TORCH}, ${THINWIRE_PYTHON} has "
      "${TORCH_VERSION}: set THINWIRE_PYTHON to a Python that has ${built}, or build thinwire again")
  endif()
endif()
message(STATUS "LibTorch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(thinwire::LibTorch INTERFACE IMPORTED GLOBAL)
target_include_directories(thinwire::LibTorch SYSTEM INTERFACE ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(thinwire::LibTorch INTERFACE ${TORCH_DIR}/lib/libtorch_cpu.so ${TORCH_DIR}/lib/libc10.so)
# A CUDA build of libtorch_cpu leans on libraries of its own run path, which the linker does not know.
target_link_options(thinwire::LibTorch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${TORCH_DIR}/lib)
target_compile_definitions(thinwire::LibTorch INTERFACE FMT_HEADER_ONLY _GLIBCXX_USE_CXX11_ABI=${TORCH_CXX11_ABI})

# LibTorch brings the shared C++ runtime into every program. A toolchain that finds only the static one would put a
# second copy beside it, and at exit one frees the locales of the other ("free(): invalid pointer").
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so
  OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
get_filename_component(runtime "${runtime}" REALPATH)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT EXISTS "${runtime}")
  find_library(THINWIRE_SHARED_LIBSTDCXX NAMES libstdc++.so.6)
  if(NOT THINWIRE_SHARED_LIBSTDCXX)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no shared libstdc++, which LibTorch needs: use another compiler (CXX=g++)")
  endif()
  message(STATUS "${CMAKE_CXX_COMPILER} has no shared libstdc++: linking ${THINWIRE_SHARED_LIBSTDCXX}")
  target_link_libraries(thinwire::LibTorch INTERFACE ${THINWIRE_SHARED_LIBSTDCXX})
endif()

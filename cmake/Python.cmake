# The Python module: thinwire._C, which has every verb of the program, in a package that launches it. In the build tree
# it is complete under build/package (for PYTHONPATH); the install component "python" puts it into an environment.
option(THINWIRE_PYTHON_MODULE "Build the Python module where Python's headers are found" ON)
set(THINWIRE_PYTHON_PACKAGE ${PROJECT_BINARY_DIR}/package)
if(NOT THINWIRE_PYTHON_MODULE OR THINWIRE_SANITIZE)  # a plain interpreter does not load a sanitized module
  return()
endif()
set(Python_EXECUTABLE ${THINWIRE_PYTHON})  # whose torch it is built with
find_package(Python COMPONENTS Interpreter Development.Module QUIET)
if(NOT Python_Development.Module_FOUND)
  message(STATUS "no Python headers (Debian: python3-dev): torchrun -m thinwire will not work")
  return()
endif()

# The headers of pybind11 are those inside torch/include; nothing is linked that the process does not have already.
Python_add_library(thinwire_python MODULE WITH_SOABI ${PROJECT_SOURCE_DIR}/python/src/module.cpp)
target_link_libraries(thinwire_python PRIVATE thinwire_cli)
target_compile_definitions(thinwire_python PRIVATE TORCH_EXTENSION_NAME=_C)
set_target_properties(thinwire_python PROPERTIES OUTPUT_NAME _C CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${THINWIRE_PYTHON_PACKAGE}/thinwire INSTALL_RPATH "$ORIGIN/../torch/lib")
thinwire_compile(thinwire_python)

file(GLOB package CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/thinwire/*.py)
file(MAKE_DIRECTORY ${THINWIRE_PYTHON_PACKAGE}/thinwire)
foreach(file ${package})
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${THINWIRE_PYTHON_PACKAGE}/thinwire/${name} SYMBOLIC)
endforeach()

# An environment's site-packages is the prefix (`make python`); a wheel's is the prefix too.
install(TARGETS thinwire_python LIBRARY DESTINATION thinwire COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${package} DESTINATION thinwire COMPONENT python EXCLUDE_FROM_ALL)

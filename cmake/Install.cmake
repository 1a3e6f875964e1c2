# cmake --install: the headers, the rooms, the program, and what find_package(thinwire) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY THINWIRE_ROOMS)
install(TARGETS thinwire ${rooms} EXPORT thinwire ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET thinwire_program)
  install(TARGETS thinwire_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_target_properties(thinwire_program PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/thinwire DESTINATION include FILES_MATCHING PATTERN "*.h")

set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/thinwire)
install(EXPORT thinwire NAMESPACE thinwire:: FILE thinwire-targets.cmake DESTINATION ${folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/thinwire-config.cmake.in
  ${PROJECT_BINARY_DIR}/thinwire-config.cmake INSTALL_DESTINATION ${folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/thinwire-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/thinwire-config.cmake ${PROJECT_BINARY_DIR}/thinwire-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/Dependencies.cmake ${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake DESTINATION ${folder})

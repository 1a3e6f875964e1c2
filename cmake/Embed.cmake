# thinwire_embed(TARGET NAMESPACE NAME FILE [NAME FILE ...]): each file, named from the root, becomes the target's
# `extern const std::string_view NAMESPACE::NAME`, byte for byte; it is read again when it changes.
set(THINWIRE_EMBED_FILE ${CMAKE_CURRENT_LIST_DIR}/EmbedFile.cmake)
function(thinwire_embed target namespace)
  while(ARGN)
    list(POP_FRONT ARGN name file)
    set(file ${PROJECT_SOURCE_DIR}/${file})
    set(source ${PROJECT_BINARY_DIR}/embedded/${name}.cpp)
    add_custom_command(OUTPUT ${source}
      COMMAND ${CMAKE_COMMAND} -DNAMESPACE=${namespace} -DNAME=${name} -DFILE=${file} -DSOURCE=${source}
        -P ${THINWIRE_EMBED_FILE}
      DEPENDS ${file} ${THINWIRE_EMBED_FILE} COMMENT "Embedding ${file}" VERBATIM)
    target_sources(${target} PRIVATE ${source})
  endwhile()
endfunction()

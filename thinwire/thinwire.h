// Everything a C++ program on LibTorch needs to train with Thinwire's strategies; examples/own_loop.cpp shows how. Link
// thinwire::thinwire (docs/train.md).
//
//   comm/world.h          ranks: as threads, or around a transport of your launcher; PeerLost and Timeout to catch
//   net/                  links to emulate around a group
//   optim/                your parameters as flat weights, and update rules by name
//   dp/catalog.h          strategies by name: make_strategy(), then step() after every backward
//   pipeline/stage.h      a model in stages
//   train/run.h           or all of it: run(recipe)
//
// Errors: BadInput for options that do not fit, c10::Error for a wrong call, comm::PeerLost and comm::Timeout for the
// network. Nothing here uses torch's default generator or global state.
#pragma once

#include "thinwire/comm/errors.h"
#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/net/emulated_transport.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"
#include "thinwire/pipeline/stage.h"
#include "thinwire/train/run.h"

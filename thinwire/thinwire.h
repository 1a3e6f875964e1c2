// Everything a C++ program on LibTorch needs to train with Thinwire's strategies; examples/own_loop.cpp shows how.
#pragma once

#include "thinwire/comm/errors.h"
#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/net/emulated_transport.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"
#include "thinwire/pipeline/stage.h"
#include "thinwire/train/run.h"

// The JSON of rule files, without what nobody reads.

#pragma once

#include "python.hpp"

// rule_json(data, read): what is in these bytes, but of lists named `attr` only the objects whose `key` is in `read`, and
// those that are odd. None for what only Python's reader knows or refuses.
PyObject *rule_json(PyObject *module, PyObject *arguments);

// The protobuf wire format, as far as dump headers nearly always use it.

#pragma once

#include "python.hpp"

// message_table(fields): each field is (number, name, kind, is repeated, table of its message or None).
PyObject *message_table(PyObject *module, PyObject *fields);

// decode_message(table, data, start, end): values by name; None for what only the decoder in Python knows or refuses.
PyObject *decode_message(PyObject *module, PyObject *arguments);

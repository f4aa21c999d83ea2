// Values of Python as text. Functions in Python of the same names define what comes out.

#pragma once

#include "python.hpp"

PyObject *csv_line(PyObject *module, PyObject *cells);
PyObject *json_text(PyObject *module, PyObject *value);
PyObject *number_text(PyObject *module, PyObject *value);

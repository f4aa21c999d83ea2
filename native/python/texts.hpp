// Values of Python as text. Functions in Python of the same names define what comes out.

#pragma once

#include "python.hpp"

#include <string>

PyObject *csv_line(PyObject *module, PyObject *cells);
PyObject *json_text(PyObject *module, PyObject *value);
PyObject *number_text(PyObject *module, PyObject *value);
PyObject *readable_line(PyObject *module, PyObject *arguments);

// The letters of a text that was just made, which is given up; false when there is none.
bool append_new(std::string &out, PyObject *text);

// What `number_text` is of a float, and of any number; false when it is none.
void append_readable(std::string &out, double value);
bool append_readable(std::string &out, PyObject *value);

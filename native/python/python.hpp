// Python's own interface, of which only the part is used that stays the same from 3.11 on.

#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <new>

// What the work returns; Python's own error where there is not enough memory for it.
template <typename Work>
PyObject *with_memory(Work work) {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        return PyErr_NoMemory();
    }
}

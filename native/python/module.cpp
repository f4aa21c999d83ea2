// The module `opdiff._native`.

#include "wire.hpp"

namespace {

PyMethodDef functions[] = {
    {"decode_message", decode_message, METH_VARARGS, nullptr},
    {"message_table", message_table, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// Equal to `_VERSION` in `src/opdiff/core/native.py`.
constexpr long version = 3;

int add_version(PyObject *module) {
    return PyModule_AddIntConstant(module, "VERSION", version);
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void *>(add_version)},
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", nullptr, 0, functions, slots, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    return PyModuleDef_Init(&definition);
}

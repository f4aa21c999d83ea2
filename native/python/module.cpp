// The module `opdiff._native`.

#include "rules.hpp"
#include "texts.hpp"
#include "wire.hpp"

namespace {

PyMethodDef functions[] = {
    {"csv_line", csv_line, METH_O, nullptr},
    {"decode_message", decode_message, METH_VARARGS, nullptr},
    {"json_text", json_text, METH_O, nullptr},
    {"message_table", message_table, METH_O, nullptr},
    {"number_text", number_text, METH_O, nullptr},
    {"readable_line", readable_line, METH_VARARGS, nullptr},
    {"rule_json", rule_json, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// What `src/opdiff/twins.py` asks for.
constexpr long version = 1;

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
